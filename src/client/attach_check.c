/* SPDX-License-Identifier: Apache-2.0 */
#include "client/attach_check.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/file.h"
#include "base/proc_maps.h"
#include "base/thread_namespaces.h"
#include "base/xalloc.h"
#include "client/attach_room.h"
#include "client/discovery.h"
#include "client/mapped_files.h"
#include "client/process.h"
#include "client/program.h"
#include "client/trace_denial.h"
#include "client/wake.h"

enum { PATH_BYTES = 96 };

static bool may_trace(const struct process *process, struct error *err)
{
	char path[PATH_BYTES];
	struct trace_facts facts;

	snprintf(path, sizeof path, "/proc/%d/mem", (int)process_living_thread(process->pid));
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0)
		return true;
	if (errno == ENOENT || errno == ESRCH)
		return error_set(
			err, ERROR_NOT_FOUND, "%s[%d] has ended", process->name, (int)process->pid);
	if (errno != EACCES && errno != EPERM)
		return error_system(err, errno, "%s", path);
	error_set(err, ERROR_DENIED, "%s[%d] may not be traced", process->name, (int)process->pid);
	trace_facts_read(process->pid, true, &facts);
	return trace_denial_hint(&facts, err);
}

struct thread_facts {
	pid_t tracer;
	bool has_filter;	/* seccomp */
	bool can_start_threads; /* one of them */
};

static void add_thread(pid_t pid, const char *thread, struct thread_facts *facts)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (!file_try_read(&text, "/proc/%d/task/%.20s/status", (int)pid, thread))
		return;
	const char *const tracer = strstr(buffer_string(&text), "\nTracerPid:");
	const char *const seccomp = strstr(buffer_string(&text), "\nSeccomp:");
	if (tracer != NULL && facts->tracer == 0)
		facts->tracer = atoi(tracer + strlen("\nTracerPid:"));
	if (seccomp != NULL && atoi(seccomp + strlen("\nSeccomp:")) != 0)
		facts->has_filter = true;
	facts->can_start_threads =
		facts->can_start_threads || thread_may_start_threads(atoi(thread));
}

static struct thread_facts read_threads(pid_t pid)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *const tasks = opendir(path);
	struct thread_facts facts = { .can_start_threads = tasks == NULL };
	for (struct dirent *entry; tasks != NULL && (entry = readdir(tasks)) != NULL;) {
		if (isdigit((unsigned char)entry->d_name[0]))
			add_thread(pid, entry->d_name, &facts);
	}
	if (tasks != NULL)
		closedir(tasks);
	return facts;
}

static bool check_threads(const struct process *process, bool is_forced, struct error *err)
{
	const struct thread_facts facts = read_threads(process->pid);
	struct process tracer = { .name = "a process" };
	struct error ignored;

	if (facts.tracer != 0) {
		if (!process_read(facts.tracer, &tracer, &ignored))
			tracer.pid = facts.tracer;
		const bool is_ours = strcmp(tracer.name, "heapctl") == 0;
		/* The user can end another one, and then attach. */
		error_set(err, is_ours ? ERROR_STATE : ERROR_TIMEOUT, "%s[%d] is traced by %s[%d]",
			process->name, (int)process->pid, tracer.name, (int)tracer.pid);
		if (is_ours)
			return error_hint(err, "it is just attaching: try again");
		return error_hint(err, "end %s[%d] first, as a process has one tracer", tracer.name,
			(int)tracer.pid);
	}
	if (!facts.can_start_threads) {
		error_set(err, ERROR_STATE,
			"%s[%d] cannot start its agent: its children belong to another namespace "
			"(unshare, setns), so it cannot start a thread",
			process->name, (int)process->pid);
		return error_hint(err, "attach to its children, or start it with heapctl run");
	}
	if (!facts.has_filter || is_forced)
		return true;
	error_set(err, ERROR_STATE,
		"%s[%d] is in a sandbox (seccomp), whose filter may kill it for what the agent "
		"calls",
		process->name, (int)process->pid);
	return error_hint(err, "heapctl attach --force attaches nevertheless");
}

static bool check_rights(const struct process *process, bool is_forced, struct error *err)
{
	struct process_start start;

	if (!process_read_start(process->pid, &start, err))
		return false;
	if (!start.is_secure || is_forced)
		return true;
	error_set(err, ERROR_STATE,
		"%s[%d] was started with more rights than its user has (setuid, capabilities)",
		process->name, (int)process->pid);
	return error_hint(err, "heapctl attach --force attaches nevertheless");
}

/* The loader reads all modules when it loads the agent. */
static bool check_files(const struct process *process, bool is_forced, struct error *err)
{
	if (is_forced || mapped_files_check(process, err))
		return true;
	return error_hint(err,
		"the loader reads it when it loads the agent, which then ends the process: restart "
		"it; --force attaches nevertheless");
}

/* Only the symbols of its malloc lead to the functions that are to be patched. */
static bool check_malloc_symbols(const struct process *process, int exe, struct error *err)
{
	const int pid = (int)process->pid;

	switch (exe < 0 ? MALLOC_SHOWN : program_malloc_symbols(exe)) {
	case MALLOC_SHOWN:
		return true;
	case MALLOC_STRIPPED:
		error_set(err, ERROR_UNSUPPORTED,
			"%s[%d] is a static program without symbols of malloc and free (stripped): "
			"its allocator cannot be found",
			process->name, pid);
		return error_hint(err, "start it unstripped, or link libheapctl.a into it");
	case MALLOC_WITHOUT_FREE:
		error_set(err, ERROR_UNSUPPORTED,
			"%s[%d] is a static program with malloc but without free: nothing shows "
			"which blocks it has released, if any",
			process->name, pid);
		break;
	case MALLOC_MISSING:
		error_set(err, ERROR_UNSUPPORTED,
			"%s[%d] is a static program without malloc, calloc and realloc: it uses "
			"no allocator that heapctl knows",
			process->name, pid);
		break;
	}
	return error_hint(err, "heapctl account %d shows what the kernel knows of its memory", pid);
}

static bool check_static(const struct process *process, const struct process_modules *modules,
	int exe, struct error *err)
{
	if (!modules->is_go && process_has_agent_for(modules))
		return check_malloc_symbols(process, exe, err);
	if (modules->is_go)
		error_set(err, ERROR_UNSUPPORTED,
			"%s[%d] is a static Go program: nothing can be loaded into it, and its "
			"memory is that of Go's runtime",
			process->name, (int)process->pid);
	else
		error_set(err, ERROR_UNSUPPORTED,
			"%s[%d] is a static program, and this heapctl was built without the agent "
			"for them",
			process->name, (int)process->pid);
	return error_hint(err, "%s", process_agent_hint(modules));
}

/* Whether its C library is one that the agent can use. */
static bool check_libc(const struct process *process, const struct process_modules *modules,
	int exe, struct error *err)
{
	if (!modules->has_libc)
		return check_static(process, modules, exe, err);
	if (process_has_agent_for(modules))
		return true;
	error_set(err, ERROR_UNSUPPORTED,
		"%s[%d] uses %s, and this heapctl was built without the agent for it",
		process->name, (int)process->pid, modules->has_musl ? "musl's C library" : "glibc");
	return error_hint(err, "%s", process_agent_hint(modules));
}

static bool check_program(const struct process *process, struct error *err)
{
	struct process_modules modules;
	char path[PATH_BYTES], inside[SANITIZER_NAME_BYTES];

	snprintf(path, sizeof path, "/proc/%d/exe", (int)process_living_thread(process->pid));
	CLEANUP(fd_cleanup) const int exe = open(path, O_RDONLY | O_CLOEXEC);
	if (exe >= 0 && program_is_foreign(exe))
		return error_set(err, ERROR_UNSUPPORTED,
			"%s[%d] is a program for another kind of machine (32 bit)", process->name,
			(int)process->pid);
	if (!process_read_modules(process->pid, &modules, err))
		return false;
	if (modules.has_valgrind) {
		error_set(err, ERROR_UNSUPPORTED,
			"%s[%d] runs under valgrind, which has to see each call itself",
			process->name, (int)process->pid);
		return error_hint(err, "start it without, or with valgrind --tool=massif");
	}
	if (!check_libc(process, &modules, exe, err))
		return false;
	if (modules.sanitizer[0] == '\0' && (exe < 0 || !program_find_sanitizer(exe, inside)))
		return true;
	return error_set(err, ERROR_UNSUPPORTED,
		"%s[%d] was built with a sanitizer (%s), which has to see each malloc itself",
		process->name, (int)process->pid,
		modules.sanitizer[0] != '\0' ? modules.sanitizer : inside);
}

const char *attach_folder(const struct process *process)
{
	const char *const folder = getenv("HEAPCTL_DIR");
	char path[4200], root[32];

	if (folder == NULL || *folder == '\0')
		return NULL;
	snprintf(path, sizeof path, "%s%s", process_root(process, root), folder);
	return root[0] == '\0' || access(path, F_OK) == 0 ? folder : NULL;
}

/* The agent gets it in a line. */
static bool check_folder_text(const char *folder, struct error *err)
{
	const size_t size = strlen(folder);

	if (folder[0] != '/') {
		error_set(err, ERROR_INPUT, "HEAPCTL_DIR, '%s', is not an absolute path", folder);
		return error_hint(err, "begin it with /");
	}
	if (size > HEAPCTL_DIR_MAX) {
		error_set(err, ERROR_INPUT,
			"HEAPCTL_DIR has %zu bytes, and the agent takes no more than %d", size,
			HEAPCTL_DIR_MAX);
		return error_hint(err, "choose a shorter path");
	}
	if (strchr(folder, '\n') != NULL) {
		error_set(err, ERROR_INPUT, "HEAPCTL_DIR has several lines");
		return error_hint(err, "choose a path of one line");
	}
	return true;
}

/* The agent makes the folder, but not the one that it is in. */
static bool check_parent(const char *path, const char *folder, struct error *err)
{
	char parent[4200];
	struct stat status;
	size_t size = strlen(path);

	while (size > 1 && path[size - 1] == '/')
		size--;
	while (size > 0 && path[size - 1] != '/')
		size--;
	snprintf(parent, sizeof parent, "%.*s.", (int)size, path);
	if (stat(parent, &status) == 0 || errno != ENOENT)
		return true;
	error_set(err, ERROR_INPUT, "HEAPCTL_DIR, %s, cannot be made: its parent does not exist",
		folder);
	return error_hint(err, "make that one, or set HEAPCTL_DIR to another folder");
}

/* The agent would refuse it too, but only after a thread was stopped. */
static bool check_folder(const struct process *process, struct error *err)
{
	const char *const folder = attach_folder(process);
	char path[4200], root[32];
	struct stat status;

	if (folder == NULL)
		return true;
	if (!check_folder_text(folder, err))
		return error_prefix(err, "%s[%d]", process->name, (int)process->pid);
	snprintf(path, sizeof path, "%s%s", process_root(process, root), folder);
	if (lstat(path, &status) != 0)
		return check_parent(path, folder, err) ||
		       error_prefix(err, "%s[%d]", process->name, (int)process->pid);
	if (!S_ISDIR(status.st_mode)) {
		error_set(err, ERROR_INPUT, "%s[%d]: HEAPCTL_DIR, %s, is not a folder",
			process->name, (int)process->pid, folder);
		return error_hint(err, "set HEAPCTL_DIR to a folder%s, or remove %s",
			S_ISLNK(status.st_mode) ? " itself, not to a link" : "", folder);
	}
	if (private_folder_check(folder, &status, process->effective_uid, err))
		return true;
	err->kind = ERROR_INPUT;
	return error_prefix(err, "%s[%d]", process->name, (int)process->pid);
}

bool attach_check(const struct process *process, bool is_forced, struct error *err)
{
	if (process_is_kernel_thread(process))
		return error_set(err, ERROR_UNSUPPORTED, "%s[%d] is a thread of the kernel",
			process->name, (int)process->pid);
	/* The program first: --force changes nothing there, and another kind has other structures.
	 */
	return process_state_check(process, err) && may_trace(process, err) &&
	       check_program(process, err) && wake_can_open_files(process, err) &&
	       wake_has_free_descriptor(process, err) && wake_can_make_thread(process, err) &&
	       attach_room_check(process, is_forced, err) &&
	       check_threads(process, is_forced, err) && check_rights(process, is_forced, err) &&
	       check_files(process, is_forced, err) && check_folder(process, err);
}

enum attach_advice attach_advise(
	const struct process *process, const struct process_modules *modules, struct error *err)
{
	const int pid = (int)process->pid;
	struct error refusal = { 0 };

	if (!process_has_agent_for(modules)) {
		error_hint(err, "%s", process_agent_hint(modules));
		return ATTACH_NEVER;
	}
	if (attach_check(process, false, &refusal)) {
		if (modules->has_libc && process_has_bare_root(process)) {
			error_hint(err,
				"mount /proc in its root, or libheapctl.so's folder at the same "
				"path, then heapctl attach %d",
				pid);
			return ATTACH_AFTER;
		}
		error_hint(err, "heapctl attach %d loads one while it runs", pid);
		return ATTACH_NOW;
	}
	/* Stopped or frozen, an unusable folder: what the user can change. */
	if (refusal.kind == ERROR_TIMEOUT || refusal.kind == ERROR_INPUT) {
		error_hint(err, "%s, then heapctl attach %d", refusal.hint, pid);
		return ATTACH_AFTER;
	}
	error_hint(err, "%s",
		refusal.kind == ERROR_UNSUPPORTED || refusal.hint[0] != '\0'
			? refusal.hint
			: "start it with heapctl run");
	return refusal.kind == ERROR_UNSUPPORTED ? ATTACH_NEVER : ATTACH_REFUSED;
}

bool attach_offer(
	const struct process *process, const struct process_modules *modules, struct error *err)
{
	const enum attach_advice advice = attach_advise(process, modules, err);
	const int pid = (int)process->pid;
	char hint[sizeof err->hint];

	snprintf(hint, sizeof hint, "%s", err->hint);
	switch (advice) {
	case ATTACH_NOW:
		return error_hint(err, "%s; heapctl doctor %d explains more", hint, pid);
	case ATTACH_AFTER:
		return false;
	case ATTACH_NEVER:
		return hint[0] == '\0'
			       ? error_hint(err, "heapctl doctor %d says why", pid)
			       : error_hint(err, "%s; heapctl doctor %d explains more", hint, pid);
	case ATTACH_REFUSED:
		break;
	}
	return error_hint(
		err, "%s; heapctl doctor %d says why heapctl attach would refuse", hint, pid);
}

bool attach_has_proc(const struct process *process)
{
	char path[PATH_BYTES];
	struct stat ignored;

	snprintf(path, sizeof path, "/proc/%d/root/proc/thread-self",
		(int)process_living_thread(process->pid));
	return lstat(path, &ignored) == 0;
}

bool attach_check_library(
	const struct process *process, const char *library, bool *is_visible, struct error *err)
{
	struct stat ours, theirs;
	struct statvfs place;
	char path[4200];

	if (stat(library, &ours) != 0)
		return error_system(err, errno, "%s", library);
	snprintf(path, sizeof path, "/proc/%d/root%s", (int)process_living_thread(process->pid),
		library);
	*is_visible = stat(path, &theirs) == 0 && ours.st_dev == theirs.st_dev &&
		      ours.st_ino == theirs.st_ino && statvfs(path, &place) == 0 &&
		      (place.f_flag & ST_NOEXEC) == 0;
	if (*is_visible || attach_has_proc(process))
		return true;
	error_set(err, ERROR_UNSUPPORTED,
		"%s[%d] sees neither %s nor /proc in its root, so the library cannot get to it",
		process->name, (int)process->pid, library);
	return error_hint(err, "mount /proc there, or the library's folder at the same path");
}
