/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/malloc_conf.h"
#include "base/xalloc.h"
#include "client/attach_check.h"
#include "client/discovery.h"
#include "client/doctor.h"
#include "client/process.h"
#include "client/program.h"
#include "client/wake.h"

/* What /proc shows of one process; filled as far as it may be seen. */
struct subject {
	const struct process *process;
	struct process_modules modules;
	struct buffer environment;
	bool has_environment;
	char mallctl[MALLCTL_NAME_BYTES]; /* of a jemalloc inside the program; "" */
	bool is_foreign;		  /* for another kind of machine */
	bool has_own_malloc;		  /* the program defines it itself */
	bool has_no_malloc;		  /* neither it nor a library; of static programs */
	bool is_secure;
	char variable[MALLOC_CONF_VARIABLE_BYTES]; /* that its jemalloc reads */
};

static const char *variable_of(const struct subject *subject, const char *name)
{
	return subject->has_environment ? process_environment_find(&subject->environment, name)
					: NULL;
}

static bool examine_access(struct diagnosis *diagnosis, struct subject *subject)
{
	struct error err;
	char path[32];

	if (!process_read_modules(subject->process->pid, &subject->modules, &err)) {
		diagnosis_add(diagnosis, FINDING_WRONG, "no-access", err.hint, "%s", err.message);
		return false;
	}
	subject->has_environment =
		process_read_environment(subject->process->pid, &subject->environment, &err);
	if (subject->has_environment && !process_environment_is_intact(&subject->environment)) {
		subject->has_environment = false;
		diagnosis_add(diagnosis, FINDING_NOTE, "environment-overwritten", "",
			"it wrote its title over its environment, so its MALLOC_CONF cannot be "
			"read");
	}
	struct process_start start = { 0 };
	subject->is_secure =
		process_read_start(subject->process->pid, &start, &err) && start.is_secure;
	snprintf(path, sizeof path, "/proc/%d/exe",
		(int)process_living_thread(subject->process->pid));
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		program_find_mallctl(fd, subject->mallctl);
		subject->is_foreign = program_is_foreign(fd);
		subject->has_own_malloc = program_has_allocator(fd);
		subject->has_no_malloc =
			!subject->modules.has_libc && program_malloc_symbols(fd) == MALLOC_MISSING;
	}
	program_conf_variable(fd, subject->mallctl, subject->variable);
	return true;
}

/* Whether the program is of a kind that no agent can be loaded into. */
static bool examine_kind(struct diagnosis *diagnosis, const struct subject *subject)
{
	if (subject->modules.agent[0] != '\0')
		return false;
	if (subject->is_foreign)
		diagnosis_add(diagnosis, FINDING_WRONG, "other-machine",
			"use the heapctl that was built for it",
			"the program is for another kind of machine than this heapctl (32 bit): "
			"the agent cannot be loaded");
	else if (subject->modules.is_go && !subject->modules.has_libc)
		diagnosis_add(diagnosis, FINDING_WRONG, "go-program", PROGRAM_GO_HINT,
			"the program is a static Go program: its memory is that of Go's runtime, "
			"and the agent cannot be loaded");
	return subject->is_foreign || (subject->modules.is_go && !subject->modules.has_libc);
}

static bool has_jemalloc(const struct subject *subject)
{
	return subject->modules.jemalloc[0] != '\0' || subject->mallctl[0] != '\0';
}

static bool is_static(const struct subject *subject)
{
	return !subject->modules.has_libc;
}

static void examine_allocator(struct diagnosis *diagnosis, const struct subject *subject)
{
	const struct process_modules *const modules = &subject->modules;

	if (modules->jemalloc[0] != '\0')
		diagnosis_add(diagnosis, FINDING_GOOD, "jemalloc-loaded", "", "it has jemalloc: %s",
			modules->jemalloc);
	else if (subject->mallctl[0] != '\0')
		diagnosis_add(diagnosis, FINDING_GOOD, "jemalloc-inside", "",
			"it has jemalloc inside (%s), which reads %s", subject->mallctl,
			subject->variable);
	else if (subject->has_no_malloc)
		diagnosis_add(diagnosis, FINDING_NOTE, "no-jemalloc", "",
			"it has no jemalloc, and no malloc of another kind");
	else
		diagnosis_add(diagnosis, FINDING_NOTE, "no-jemalloc",
			is_static(subject) || modules->has_musl
				? ""
				: "heapctl samples any malloc; for jemalloc, use "
				  "heapctl run --jemalloc",
			"it has no jemalloc; its malloc is that of %s",
			modules->other_allocator[0] != '\0'		? modules->other_allocator
			: modules->sanitizer[0] != '\0'			? modules->sanitizer
			: modules->has_libc && !subject->has_own_malloc ? "the C library"
									: "the program itself");
	if (is_static(subject))
		diagnosis_add(diagnosis, FINDING_NOTE, "static",
			"for an agent from the start, link it in (heapctl_start of heapctl.h), or "
			"link the program dynamically",
			"the program is linked statically: nothing can be preloaded into it%s",
			has_jemalloc(subject)
				? ", and jemalloc's profiler may abort it at its start"
				: "");
	else if (modules->has_musl && modules->agent[0] == '\0')
		diagnosis_add(diagnosis, FINDING_NOTE, "musl", "",
			"the program is linked with musl: the agent cannot be preloaded, only "
			"attached");
}

/* Libraries that LD_PRELOAD names and that were not loaded. */
static void examine_preload(struct diagnosis *diagnosis, const struct subject *subject)
{
	const char *const preload = variable_of(subject, "LD_PRELOAD");
	const bool wants_agent = preload != NULL && strstr(preload, "libheapctl") != NULL;
	const bool wants_jemalloc = preload != NULL && strstr(preload, "libjemalloc") != NULL;
	const bool lacks = (wants_agent && subject->modules.agent[0] == '\0') ||
			   (wants_jemalloc && subject->modules.jemalloc[0] == '\0');

	if (subject->is_secure)
		diagnosis_add(diagnosis, FINDING_WRONG, "secure-start",
			"start it as the user that it runs as (capabilities may be ambient), or "
			"use /etc/ld.so.preload and the symlink /etc/malloc.conf",
			"it gained privileges when it started (setuid, capabilities): the "
			"loader dropped LD_PRELOAD and jemalloc ignores %s",
			subject->variable);
	else if (lacks)
		diagnosis_add(diagnosis, FINDING_WRONG, "preload-failed",
			"see what the loader wrote to its standard error; the file must be "
			"readable for that user, in its own root, for the same kind of machine",
			"LD_PRELOAD is '%s', but not all of that was loaded", preload);
}

static void examine_conf_text(
	struct diagnosis *diagnosis, const struct subject *subject, const char *conf)
{
	struct error problem;

	for (size_t i = 0; malloc_conf_problem(conf, i, &problem); i++)
		diagnosis_add(diagnosis, FINDING_WRONG, "conf-malformed", problem.hint, "%s: %s",
			subject->variable, problem.message);
	if (!malloc_conf_is_on(conf, "prof", false))
		diagnosis_add(diagnosis, FINDING_WRONG, "prof-off",
			"start it with prof:true,prof_active:false in it; heapctl run does",
			"%s is '%s': without prof:true jemalloc's profiler stays off",
			subject->variable, conf);
	else if (!malloc_conf_is_on(conf, "prof_active", true))
		diagnosis_add(diagnosis, FINDING_NOTE, "sampling-off",
			"heapctl record, once there "
			"is an agent",
			"sampling was off at the start (prof_active:false): profiles are empty "
			"until it is switched on");
}

static void examine_conf(struct diagnosis *diagnosis, const struct subject *subject)
{
	static const char *const names[] = { "MALLOC_CONF", "JEMALLOC_CONF", "JE_MALLOC_CONF",
		"_RJEM_MALLOC_CONF" };
	const char *const conf = variable_of(subject, subject->variable);

	if (!has_jemalloc(subject) || !subject->has_environment)
		return;
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		const char *const other = variable_of(subject, names[i]);
		if (other != NULL && strcmp(names[i], subject->variable) != 0 &&
			(conf == NULL || strcmp(names[i], "MALLOC_CONF") != 0))
			diagnosis_add(diagnosis, conf == NULL ? FINDING_WRONG : FINDING_NOTE,
				"variable-ignored", "set the variable that it reads",
				"%s is set ('%s'), but its jemalloc reads %s", names[i], other,
				subject->variable);
	}
	if (subject->is_secure)
		return;
	if (conf != NULL)
		examine_conf_text(diagnosis, subject, conf);
	else
		diagnosis_add(diagnosis, FINDING_WRONG, "prof-off",
			"start it with heapctl run, or with prof:true,prof_active:false in it",
			"%s is not set, so jemalloc's profiler is off, unless the program or "
			"/etc/malloc.conf sets prof:true",
			subject->variable);
}

/* Whether it has changed its root to one where a child's agent ends. */
static bool examine_root(struct diagnosis *diagnosis, const struct process *process)
{
	if (!process_has_bare_root(process))
		return false;
	diagnosis_add(diagnosis, FINDING_WRONG, "agent-without-proc",
		"mount /proc and make HEAPCTL_DIR in its root, or profile the process that forked "
		"it",
		"it has another root, without /proc: the agent of a forked child ends there, and "
		"a child that is forked inside needs HEAPCTL_DIR there");
	return true;
}

/* Whether its HEAPCTL_DIR prevents that the agent is found. */
static bool examine_socket_folder(struct diagnosis *diagnosis, const struct subject *subject)
{
	const char *const folder = variable_of(subject, "HEAPCTL_DIR");
	char root[32], seen[4096];
	struct stat status;
	struct error err;

	const char *const ours = getenv("HEAPCTL_DIR");

	if (discovery_has_lost_own_folder(subject->process) &&
		(folder == NULL || *folder == '\0')) {
		diagnosis_add(diagnosis, FINDING_WRONG, "folder-removed",
			"wait ten seconds, in which an agent that was attached with it creates it "
			"again if it can, or create it for that user with mode 0700",
			"HEAPCTL_DIR, %s, does not exist: it was removed, or the agent uses "
			"another one",
			ours);
		return true;
	}
	if (folder == NULL || *folder == '\0')
		return false;
	process_root(subject->process, root);
	if (doctor_examine_named_folder(diagnosis, root, folder, subject->process->effective_uid))
		return true;
	snprintf(seen, sizeof seen, "%s%s", root, folder);
	const bool is_there = lstat(seen, &status) == 0;
	if (is_there && doctor_examine_folder_kind(diagnosis, folder, status.st_mode))
		return true;
	if (is_there &&
		!private_folder_check(folder, &status, subject->process->effective_uid, &err)) {
		diagnosis_add(diagnosis, FINDING_WRONG,
			err.kind == ERROR_DENIED ? "folder-owner" : "folder-mode", err.hint,
			"its agent does not answer: %s", err.message);
		return true;
	}
	/* An agent that is asleep may not have created it yet. */
	if (access(seen, F_OK) == 0 || errno != ENOENT ||
		wake_read_state(subject->process) == WAKE_ASLEEP)
		return false;
	diagnosis_add(diagnosis, FINDING_WRONG, "folder-removed",
		"wait ten seconds, in which the agent creates it again if it can, or create it for "
		"that user with mode 0700",
		"the folder of its socket, %s, does not exist: it was removed, or could not be "
		"created",
		folder);
	return true;
}

static void examine_silence(
	struct diagnosis *diagnosis, const struct subject *subject, const struct error *why)
{
	char folder[4096];

	if (subject->process->has_seccomp)
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-sandboxed",
			"profile it without that filter, for example on a test machine",
			"its agent is loaded but does not answer: it ends in a process that "
			"filters its own system calls (seccomp)");
	else if (subject->process->file_uid != subject->process->effective_uid)
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-silent",
			"start it without HEAPCTL_THREAD=on-demand: its agent makes the socket "
			"before",
			"its agent is loaded but does not answer: the process makes files as uid "
			"%u (setfsuid), which may make no socket in its folder",
			(unsigned)subject->process->file_uid);
	else if (discovery_usable_folder(subject->process, folder))
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-silent",
			"start it without its sandbox, or with HEAPCTL_LOG=stderr: the agent then "
			"logs what is wrong",
			"its agent is loaded but does not answer, although owner and mode of "
			"%s permit a socket: it may be in a sandbox (Landlock) that lets it make "
			"no file or socket there",
			folder);
	else
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-silent",
			"start it with HEAPCTL_LOG=stderr: the agent then logs what is wrong",
			"its agent is loaded but does not answer: %s", why->message);
}

/* Why an agent that is loaded does not answer. */
static void examine_silent_agent(
	struct diagnosis *diagnosis, const struct subject *subject, const struct error *why)
{
	const char *const disable = variable_of(subject, "HEAPCTL_DISABLE");
	const char *const exes = variable_of(subject, "HEAPCTL_EXE");
	const enum agent_absence absence =
		subject->has_environment ? agent_absence(subject->process, &subject->environment)
					 : ABSENCE_UNKNOWN;
	struct error reason;

	if (absence == ABSENCE_DISABLED)
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-disabled",
			"start it without that variable",
			"its agent is loaded but not started: HEAPCTL_DISABLE is '%s'", disable);
	else if (absence == ABSENCE_OTHER_PROGRAM)
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-elsewhere",
			"name this program: heapctl run --exe NAME",
			"its agent is loaded but not started: HEAPCTL_EXE is '%s', and the program "
			"is %s",
			exes, subject->process->exe);
	else if (process_has_preloader_alone(&subject->modules))
		diagnosis_add(diagnosis, FINDING_WRONG, "preload-failed",
			"install libheapctl.so.0 of the same version there, readable for that "
			"user, in its own root",
			"the agent was not loaded: %s needs libheapctl.so.0 beside itself",
			subject->modules.agent);
	else if (strstr(subject->modules.sanitizer, "libtsan") != NULL)
		diagnosis_add(diagnosis, FINDING_WRONG, "thread-sanitizer",
			"use a build without it, or link the agent",
			"it was built with the thread sanitizer: a preloaded agent does not start "
			"in it");
	else if (wake_read_state(subject->process) == WAKE_ASLEEP &&
		 !wake_can_make_thread(subject->process, &reason))
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-without-thread", reason.hint, "%s",
			reason.message);
	else if (!wake_can_open_files(subject->process, &reason))
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-without-descriptors", reason.hint,
			"%s", reason.message);
	else if (wake_explain_child(subject->process, &reason) ||
		 (wake_read_state(subject->process) == WAKE_ASLEEP &&
			 !wake_can_take_signal(subject->process, &reason)))
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-without-signal", reason.hint, "%s",
			reason.message);
	else if (wake_read_state(subject->process) == WAKE_ASLEEP &&
		 !wake_check_files(subject->process, &reason))
		diagnosis_add(diagnosis, FINDING_WRONG, "file-damaged", reason.hint, "%s",
			reason.message);
	else if (examine_root(diagnosis, subject->process) ||
		 examine_socket_folder(diagnosis, subject))
		return;
	else if (why->kind == ERROR_TIMEOUT)
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-unreachable", why->hint, "%s",
			why->message);
	else if (wake_read_state(subject->process) == WAKE_ASLEEP)
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-without-signal", why->hint, "%s",
			why->message);
	else if (!process_has_agent_thread(subject->process))
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-ended", why->hint,
			"its agent has ended: it was detached, or could not go on");
	else
		examine_silence(diagnosis, subject, why);
}

static void examine_missing_agent(struct diagnosis *diagnosis, const struct subject *subject)
{
	struct error advice = { 0 };

	if (attach_advise(subject->process, &subject->modules, &advice) == ATTACH_NOW)
		error_hint(&advice, "load one with heapctl attach %d%s", (int)subject->process->pid,
			subject->modules.has_musl ? ""
			: is_static(subject)	  ? ", or link libheapctl.a into it"
						  : ", or start it with heapctl run");
	diagnosis_add(diagnosis, FINDING_WRONG, "no-agent", advice.hint,
		"it has no agent, so heapctl cannot profile it");
}

static void examine_agent(
	struct diagnosis *diagnosis, const struct subject *subject, const struct error *why)
{
	if (subject->modules.agent[0] != '\0')
		examine_silent_agent(diagnosis, subject, why);
	else if (why->kind == ERROR_NOT_FOUND)
		examine_missing_agent(diagnosis, subject);
	else
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-unreachable", why->hint, "%s",
			why->message);
}

void doctor_examine_process(
	struct diagnosis *diagnosis, const struct process *process, const struct error *why)
{
	struct subject subject = { .process = process };

	if (process_is_kernel_thread(process)) {
		diagnosis_add(diagnosis, FINDING_WRONG, "kernel-thread",
			"heapctl ps --all lists the programs",
			"it is a thread of the kernel, which has no heap of its own");
		return;
	}
	buffer_init(&subject.environment, &memory_or_exit);
	if (!examine_access(diagnosis, &subject)) {
		/* Nothing more can be found out. */
	} else if (examine_kind(diagnosis, &subject)) {
		if (has_jemalloc(&subject))
			examine_allocator(diagnosis, &subject);
	} else {
		if (subject.modules.is_go)
			diagnosis_add(diagnosis, FINDING_NOTE, "go-program", PROGRAM_GO_HINT,
				"it is a Go program: heapctl shows what its C code allocates, and "
				"not the heap of Go's runtime");
		examine_agent(diagnosis, &subject, why);
		examine_allocator(diagnosis, &subject);
		examine_preload(diagnosis, &subject);
		examine_conf(diagnosis, &subject);
	}
	buffer_deinit(&subject.environment);
}

static void examine_files(struct diagnosis *diagnosis, const struct process *process)
{
	struct process_modules modules;
	struct error err;

	if (!process_read_modules(process->pid, &modules, &err))
		return;
	if (process->exe_deleted || modules.has_deleted)
		diagnosis_add(diagnosis, FINDING_NOTE, "files-replaced",
			"keep the old files, or restart it before profiling",
			"%s was replaced or removed since it was started: names in its profiles "
			"may be missing",
			process->exe_deleted ? process->exe : "one of its libraries");
	/* Unless the agent reported this already, or walks the stacks. */
	if (!diagnosis_has(diagnosis, "unwinder-jit") &&
		!diagnosis_has(diagnosis, "unwinder-safe") && modules.has_jit &&
		modules.jemalloc[0] != '\0' && modules.has_libgcc)
		diagnosis_add(diagnosis, FINDING_NOTE, "unwinder-jit",
			"start it with heapctl run: with jemalloc 5.3 the agent walks the stacks",
			"it runs code made at run time (a JIT): stacks end there, and libgcc's "
			"unwinder aborts some such programs while sampling is on");
}

/* Also of a file in memory, in which the agent makes a profile: it ends with all mappings. */
static void examine_file_size(struct diagnosis *diagnosis, const struct process *process)
{
	CLEANUP(buffer_deinit) struct buffer maps = BUFFER_OR_EXIT;
	const unsigned long limit = process_read_limit(process->pid, "Max file size");
	char hint[96];

	if (limit == ULONG_MAX ||
		!file_try_read(&maps, "/proc/%d/maps", (int)process_living_thread(process->pid)) ||
		limit > maps.size)
		return;
	snprintf(hint, sizeof hint, "raise the limit: prlimit --fsize=unlimited --pid %d",
		(int)process->pid);
	diagnosis_add(diagnosis, FINDING_WRONG, "file-size-limit", hint,
		"its limit on the size of files (RLIMIT_FSIZE) is %lu bytes, too little for a "
		"profile: the list of its mappings alone has %zu",
		limit, maps.size);
}

static bool is_own_folder(const char *path, uid_t owner)
{
	struct stat status;

	return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == owner &&
	       (status.st_mode & 077) == 0;
}

static bool has_socket(const char *folder, const struct process *process)
{
	char path[4200];

	snprintf(path, sizeof path, "%s/%d.sock", folder, (int)process->pid);
	return access(path, F_OK) == 0;
}

/* Whether it is the process' HEAPCTL_DIR, which comes first. */
static bool is_named(const struct process *process, const char *folder)
{
	CLEANUP(buffer_deinit) struct buffer environment = BUFFER_OR_EXIT;
	char root[32], path[4200];
	struct error ignored;
	const char *own;

	if (!process_read_environment(process->pid, &environment, &ignored))
		return false;
	own = process_environment_find(&environment, "HEAPCTL_DIR");
	snprintf(path, sizeof path, "%s%s", process_root(process, root), own == NULL ? "" : own);
	return strcmp(path, folder) == 0;
}

/* Of root, or of the user of this command, and not of the process. */
static bool is_of_others(const struct process *process, const char *folder)
{
	const char *const ours = getenv("HEAPCTL_DIR");
	char root[32], path[4200];

	if (strstr(folder, "/run/heapctl") != NULL ||
		strcmp(path_base_name(folder), "heapctl-0") == 0)
		return process->effective_uid != 0;
	snprintf(path, sizeof path, "%s%s", process_root(process, root), ours == NULL ? "" : ours);
	return strcmp(path, folder) == 0 && process->effective_uid != geteuid() &&
	       !is_named(process, folder);
}

/* The agent has chosen one already: of the others only the one that it was given counts. */
static void examine_chosen_folder(
	struct diagnosis *diagnosis, const struct process *process, const char *path)
{
	const bool is_there = has_socket(path, process);

	if (is_there || is_named(process, path))
		doctor_examine_used_folder(diagnosis, path, is_there, process->effective_uid);
}

void doctor_examine_surroundings(struct diagnosis *diagnosis, const struct process *process)
{
	struct string_pool folders;

	if (process_is_kernel_thread(process))
		return;
	examine_files(diagnosis, process);
	examine_file_size(diagnosis, process);
	if (process->has_seccomp)
		diagnosis_add(diagnosis, FINDING_NOTE, "sandbox", "",
			"it runs in a sandbox (seccomp): the agent ends in a process that enters "
			"one after the agent's start");
	if (process->other_root)
		diagnosis_add(diagnosis, FINDING_NOTE, "other-root", "",
			"it sees another file system than this shell (container, chroot, private "
			"/tmp); heapctl looks for its socket there");
	string_pool_init(&folders);
	discovery_folders(process, &folders);
	for (size_t i = 0; i < folders.count; i++) {
		/* Only the default folders that agents of this user would use count. */
		const char *const path = folders.strings[i];
		/* An agent that answers has chosen its folder already. */
		const bool is_unused = diagnosis_has(diagnosis, "agent-answers") &&
				       !is_own_folder(path, process->effective_uid);
		const bool is_reported = is_named(process, path) &&
					 (diagnosis_has(diagnosis, "folder-mode") ||
						 diagnosis_has(diagnosis, "folder-owner"));
		if (is_reported)
			continue;
		if (is_unused)
			examine_chosen_folder(diagnosis, process, path);
		else if (!is_of_others(process, path))
			doctor_examine_folder(diagnosis, path, process->effective_uid);
	}
	string_pool_deinit(&folders);
}
