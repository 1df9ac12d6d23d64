/* SPDX-License-Identifier: Apache-2.0 */
#include "client/process.h"

#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/proc_maps.h"
#include "base/user_name.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "client/program.h"
#include "client/target_tree_text.h"
#include "client/trace_denial.h"

enum { PROC_PATH_BYTES = 64 };

static const char *proc_path(pid_t pid, const char *name, char path[PROC_PATH_BYTES])
{
	snprintf(path, PROC_PATH_BYTES, "/proc/%d/%s", (int)pid, name);
	return path;
}

/* The state of a thread, by its letter; 0 when it has ended. */
static char read_thread_state(pid_t pid, const char *thread)
{
	CLEANUP(buffer_deinit) struct buffer stat = BUFFER_OR_EXIT;

	const char *const name_end =
		file_try_read(&stat, "/proc/%d/task/%.20s/stat", (int)pid, thread)
			? strrchr(buffer_string(&stat), ')')
			: NULL;
	return name_end == NULL || name_end[1] == '\0' ? '\0' : name_end[2];
}

pid_t process_living_thread(pid_t pid)
{
	char path[PROC_PATH_BYTES], number[16];
	pid_t found = pid;

	snprintf(number, sizeof number, "%d", (int)pid);
	if (read_thread_state(pid, number) != 'Z')
		return pid;
	DIR *const tasks = opendir(proc_path(pid, "task", path));
	if (tasks == NULL)
		return pid;
	for (struct dirent *entry; found == pid && (entry = readdir(tasks)) != NULL;) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		const char state = read_thread_state(pid, entry->d_name);
		if (state != '\0' && state != 'Z' && state != 'X')
			found = atoi(entry->d_name);
	}
	closedir(tasks);
	return found;
}

static bool explain_no_proc(struct error *err)
{
	error_set(err, ERROR_SYSTEM, "/proc is not mounted, so no process can be seen");
	return error_hint(err, "mount -t proc proc /proc");
}

static bool read_proc(pid_t pid, const char *name, struct buffer *out, struct error *err)
{
	char path[PROC_PATH_BYTES];

	bool done = file_read(proc_path(pid, name, path), out, err);
	if (done ? out->size == 0 : err->errnum == ENOENT || err->errnum == ESRCH) {
		const pid_t thread = process_living_thread(pid);
		if (thread != pid)
			done = file_read(proc_path(thread, name, path), out, err);
	}
	if (done)
		return true;
	if ((err->errnum == ENOENT || err->errnum == ESRCH) && access("/proc/self", F_OK) != 0)
		return explain_no_proc(err);
	if (err->errnum == ENOENT || err->errnum == ESRCH) {
		error_set(err, ERROR_NOT_FOUND, "there is no process %d", (int)pid);
		error_hint(err, "heapctl ps --all lists the processes");
	} else if (err->errnum == EACCES || err->errnum == EPERM) {
		error_set(err, ERROR_DENIED, "process %d: permission denied", (int)pid);
		struct trace_facts facts;
		trace_facts_read(pid, false, &facts);
		return trace_denial_hint(&facts, err);
	}
	return false;
}

const char *process_status_field(const char *status, const char *name)
{
	const size_t size = strlen(name);

	for (const char *line = status; line != NULL && *line != '\0';) {
		if (strncmp(line, name, size) == 0 && line[size] == ':')
			return line + size + 1 + strspn(line + size + 1, " \t");
		line = strchr(line, '\n');
		line = line == NULL ? NULL : line + 1;
	}
	return "";
}

bool process_status_has_signal(const char *status, const char *set, int signal_number)
{
	return (strtoull(process_status_field(status, set), NULL, 16) >> (signal_number - 1) & 1) !=
	       0;
}

unsigned long process_number_after(const char *text, const char *label)
{
	const char *const at = strstr(text, label);
	const char *const number = at == NULL ? "" : at + strlen(label);
	char *end = NULL;
	const unsigned long value = strtoul(number, &end, 10);

	return end == number ? ULONG_MAX : value;
}

unsigned long process_read_limit(pid_t pid, const char *name)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	char label[64];

	snprintf(label, sizeof label, "\n%s ", name);
	return file_try_read(&text, "/proc/%d/limits", (int)process_living_thread(pid))
		       ? process_number_after(buffer_string(&text), label)
		       : ULONG_MAX;
}

static void read_exe(struct process *process, pid_t thread)
{
	static const char deleted[] = " (deleted)";
	char path[PROC_PATH_BYTES];
	const ssize_t size =
		readlink(proc_path(thread, "exe", path), process->exe, sizeof process->exe - 1);

	process->exe[size < 0 ? 0 : size] = '\0';
	const size_t tail = sizeof deleted - 1;
	if (size > (ssize_t)tail && strcmp(process->exe + size - tail, deleted) == 0) {
		process->exe[(size_t)size - tail] = '\0';
		process->exe_deleted = true;
	}
}

/* Whether two /proc links lead to the same target; a hidden one counts as the same. */
static bool is_same(pid_t pid, const char *name)
{
	char path[PROC_PATH_BYTES];
	char own_path[PROC_PATH_BYTES];
	struct stat theirs, ours;

	snprintf(own_path, sizeof own_path, "/proc/self/%s", name);
	if (stat(proc_path(pid, name, path), &theirs) != 0 || stat(own_path, &ours) != 0)
		return true;
	return theirs.st_dev == ours.st_dev && theirs.st_ino == ours.st_ino;
}

static void read_ids(struct process *process, const char *status)
{
	unsigned real = 0, effective = 0, saved = 0, file = 0;

	sscanf(process_status_field(status, "Uid"), "%u %u %u %u", &real, &effective, &saved,
		&file);
	process->uid = real;
	process->effective_uid = effective;
	process->file_uid = file;
	process->parent = atoi(process_status_field(status, "PPid"));
	process->inner_pid = process->pid;
	/* "NSpid: 4711 12 1": from our namespace down to its own. */
	for (const char *at = process_status_field(status, "NSpid"); isdigit((unsigned char)*at);) {
		process->inner_pid = atoi(at);
		at += strspn(at, "0123456789");
		at += strspn(at, "\t ");
	}
	process->has_seccomp = atoi(process_status_field(status, "Seccomp")) != 0;
	process->threads = strtoul(process_status_field(status, "Threads"), NULL, 10);
	process->resident_bytes = strtoull(process_status_field(status, "VmRSS"), NULL, 10) * 1024;
}

/* The name of a program that calls itself `comm`, which may be cut. */
static bool is_named_by(const char *program, const char *comm)
{
	enum { CUT = sizeof((struct process *)NULL)->comm - 1 };
	const size_t size = strlen(comm);

	return strncmp(program, comm, size) == 0 && (program[size] == '\0' || size == CUT);
}

/* Whether one of the arguments has the name: the program itself, or the script that it runs. */
static bool arguments_have(const struct process *process, const char *comm)
{
	const size_t size = strlen(comm);
	CLEANUP(buffer_deinit) struct buffer arguments = BUFFER_OR_EXIT;
	struct error err;
	bool found = false;

	if (read_proc(process->pid, "cmdline", &arguments, &err)) {
		buffer_append_char(&arguments, '\0');
		for (size_t at = 0; at < arguments.size && !found;
			at += strlen(arguments.data + at) + 1)
			/* A title may follow: "redis-server *:6379". */
			found = size > 0 &&
				strncmp(path_base_name(arguments.data + at), comm, size) == 0;
	}
	return found;
}

/* Names go into messages, JSON and URLs, while a process may choose any bytes for its own. */
static void make_printable(char *name)
{
	for (size_t size; *name != '\0'; name += size) {
		size = utf8_length(name, strlen(name));
		if (size != 0 && utf8_is_printable(name, size))
			continue;
		size = size == 0 ? 1 : size;
		memset(name, '?', size);
	}
}

/* Some programs rename their main thread: Traffic Server's is "[TS_MAIN]". */
static void choose_name(struct process *process)
{
	const char *const program = path_base_name(process->exe);
	const bool is_its_own = is_named_by(program, process->comm) ||
				(*program != '\0' && !arguments_have(process, process->comm));

	snprintf(process->name, sizeof process->name, "%s", is_its_own ? program : process->comm);
	make_printable(process->name);
}

bool process_read(pid_t pid, struct process *process, struct error *err)
{
	struct buffer status = BUFFER_OR_EXIT;
	struct process found = { .pid = pid };

	const bool ok = read_proc(pid, "status", &status, err);
	const char *const text = buffer_string(&status);
	const bool is_main_gone = ok && *process_status_field(text, "State") == 'Z';
	const pid_t thread = is_main_gone ? process_living_thread(pid) : pid;
	const bool has_ended = is_main_gone && thread == pid;
	const pid_t owner = ok ? (pid_t)atol(process_status_field(text, "Tgid")) : pid;
	if (ok && !has_ended) {
		const char *const name = process_status_field(text, "Name");
		snprintf(found.comm, sizeof found.comm, "%.*s", (int)strcspn(name, "\n"), name);
		read_ids(&found, text);
	}
	buffer_deinit(&status);
	if (!ok)
		return false;
	if (has_ended) {
		error_set(err, ERROR_NOT_FOUND, "process %d has ended", (int)pid);
		return error_hint(err, "heapctl ps lists the targets");
	}
	/* The kernel shows a thread at /proc/PID, too, and top and htop show its number. */
	if (owner > 0 && owner != pid) {
		error_set(err, ERROR_NOT_FOUND, "%d is a thread of process %d, called %s", (int)pid,
			(int)owner, found.comm);
		return error_hint(err, "give the number of the process, %d", (int)owner);
	}
	read_exe(&found, thread);
	choose_name(&found);
	found.other_root = !is_same(thread, "root/.") || !is_same(thread, "ns/mnt");
	*process = found;
	return true;
}

int64_t process_age_ms(pid_t pid)
{
	enum { START_FIELD = 22, FIELD_BEHIND_NAME = 3 };
	CLEANUP(buffer_deinit) struct buffer stat = BUFFER_OR_EXIT;
	const int64_t ticks = sysconf(_SC_CLK_TCK);
	struct timespec now;
	struct error ignored;

	if (!read_proc(pid, "stat", &stat, &ignored) || clock_gettime(CLOCK_BOOTTIME, &now) != 0)
		return INT64_MAX;
	const char *at = strrchr(buffer_string(&stat), ')');
	for (int i = FIELD_BEHIND_NAME; at != NULL && i <= START_FIELD; i++) {
		at = strchr(at, ' ');
		at = at == NULL ? NULL : at + 1;
	}
	if (at == NULL)
		return INT64_MAX;
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000 -
	       (int64_t)strtoll(at, NULL, 10) * 1000 / ticks;
}

static bool is_first_argument(pid_t pid, const char *name)
{
	CLEANUP(buffer_deinit) struct buffer arguments = BUFFER_OR_EXIT;
	struct error err;

	const bool ok = read_proc(pid, "cmdline", &arguments, &err);
	/* The NULs between the arguments end the first one. */
	const bool is_name = ok && strcmp(path_base_name(buffer_string(&arguments)), name) == 0;
	return is_name;
}

bool process_is_called(const struct process *process, const char *name)
{
	return strcmp(process->name, name) == 0 || strcmp(process->comm, name) == 0 ||
	       strcmp(path_base_name(process->exe), name) == 0 ||
	       is_first_argument(process->pid, name);
}

static bool begins_with_any(const char *name, const char *const *beginnings)
{
	for (; *beginnings != NULL; beginnings++) {
		if (strncmp(name, *beginnings, strlen(*beginnings)) == 0)
			return true;
	}
	return false;
}

static void note_path(char path[1024], const struct proc_map *map)
{
	if (path[0] == '\0')
		snprintf(path, 1024, "%.*s", (int)map->path_size, map->path);
}

bool process_has_preloader_alone(const struct process_modules *modules)
{
	return strcmp(path_base_name(modules->agent), PROCESS_PRELOADER) == 0;
}

/* What may be started in place of a program, which it then loads: glibc's loader, musl. */
static bool is_loader(pid_t pid)
{
	static const char *const loaders[] = { "ld-linux", "ld-2", "ld.so", "ld-musl", "libc.so",
		"libc.musl", NULL };
	char link[PROC_PATH_BYTES], path[4096];
	const ssize_t size =
		readlink(proc_path(process_living_thread(pid), "exe", link), path, sizeof path - 1);

	path[size > 0 ? size : 0] = '\0';
	return begins_with_any(path_base_name(path), loaders);
}

static void note_module(struct process_modules *modules, const struct proc_map *map)
{
	static const char agent_mark[] = "memfd:heapctl.filters.";
	static const char *const agents[] = { "libheapctl.so", "libheapctl-musl.so",
		"memfd:libheapctl.so", "memory_profile.so", NULL };
	static const char *const jemallocs[] = { "libjemalloc", NULL };
	static const char *const others[] = { "libtcmalloc", "libmimalloc", "libsnmalloc",
		"libhoard", "librpmalloc", "libscudo", NULL };
	static const char *const libcs[] = { "libc.so", "libc-2", "libc.musl", "ld-musl", NULL };
	char path[1024];

	if (map->path_size == 0 || map->path[0] != '/') {
		modules->has_jit |= map->executable && map->path_size == 0;
		return;
	}
	snprintf(path, sizeof path, "%.*s", (int)map->path_size, map->path);
	const char *const name = path_base_name(path);
	if (map->executable && map->writable)
		modules->has_jit = true;
	/* A file in memory has never had a name. */
	if (map->executable && map->deleted && strncmp(name, "memfd:", 6) != 0)
		modules->has_deleted = true;
	if (strncmp(name, agent_mark, sizeof agent_mark - 1) == 0) {
		modules->has_agent_mark = true;
		modules->filters_at_start = atoi(name + sizeof agent_mark - 1);
		return;
	}
	/* A debugger and heapctl itself map such files to read them. */
	if (!map->executable)
		return;
	if (begins_with_any(name, agents)) {
		if (process_has_preloader_alone(modules))
			modules->agent[0] = '\0';
		note_path(modules->agent, map);
	} else if (strcmp(name, PROCESS_PRELOADER) == 0)
		note_path(modules->agent, map);
	else if (begins_with_any(name, jemallocs))
		note_path(modules->jemalloc, map);
	else if (begins_with_any(name, others))
		note_path(modules->other_allocator, map);
	else if (program_library_is_sanitizer(name))
		note_path(modules->sanitizer, map);
	else if (strncmp(name, "vgpreload_", 10) == 0)
		modules->has_valgrind = true;
	else if (begins_with_any(name, libcs)) {
		modules->has_libc = true;
		modules->has_musl |= strcmp(name, "libc.so") == 0 || strstr(name, "musl") != NULL;
	} else if (strncmp(name, "libgcc_s", 8) == 0)
		modules->has_libgcc = true;
}

const char *process_agent_hint(const struct process_modules *modules)
{
	if (modules->is_go && !modules->has_libc)
		return PROGRAM_GO_HINT;
	if (modules->has_libc && !modules->has_musl)
		return HEAPCTL_HAS_GLIBC_AGENT
			       ? "load one with heapctl attach, or start it with heapctl run"
			       : "use a heapctl that was built with glibc";
	return HEAPCTL_HAS_MUSL_AGENT ? "load one with heapctl attach"
				      : "build heapctl with -Dmusl_agent=true";
}

bool process_has_agent_for(const struct process_modules *modules)
{
	return modules->has_libc && !modules->has_musl ? HEAPCTL_HAS_GLIBC_AGENT
						       : HEAPCTL_HAS_MUSL_AGENT;
}

static bool is_go(pid_t pid)
{
	char path[PROC_PATH_BYTES];
	CLEANUP(fd_cleanup)
	const int fd =
		open(proc_path(process_living_thread(pid), "exe", path), O_RDONLY | O_CLOEXEC);

	return fd >= 0 && program_is_go(fd);
}

bool process_read_modules(pid_t pid, struct process_modules *modules, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer maps = BUFFER_OR_EXIT;
	struct process_start start;
	struct error ignored;

	if (!read_proc(pid, "maps", &maps, err))
		return false;
	*modules = (struct process_modules){ 0 };
	const char *at = maps.data;
	struct proc_map map;
	while (proc_map_next(&at, maps.data + maps.size, &map)) {
		modules->has_mappings = true;
		note_module(modules, &map);
	}
	modules->is_go = is_go(pid);
	if (!process_read_start(pid, &start, &ignored))
		return true;
	if (!start.is_static)
		modules->has_libc = true;
	else if (!is_loader(pid))
		/* It has its own, whatever it opens (NSS, iconv), or emulates another program. */
		modules->has_libc = modules->has_musl = false;
	return true;
}

bool process_read_environment(pid_t pid, struct buffer *out, struct error *err)
{
	return read_proc(pid, "environ", out, err);
}

bool process_environment_is_intact(const struct buffer *environment)
{
	if (environment->size == 0)
		return true;
	const size_t first = strnlen(environment->data, environment->size);
	return memchr(environment->data, '=', first) != NULL;
}

const char *process_environment_find(const struct buffer *environment, const char *name)
{
	const size_t name_size = strlen(name);

	for (size_t at = 0; at < environment->size;) {
		const char *const variable = environment->data + at;
		const size_t left = environment->size - at;
		const size_t size = strnlen(variable, left);
		/* The last one may lack its NUL when the process wrote over its environment. */
		if (size == left)
			return NULL;
		if (size > name_size && strncmp(variable, name, name_size) == 0 &&
			variable[name_size] == '=')
			return variable + name_size + 1;
		at += size + 1;
	}
	return NULL;
}

bool process_is_kernel_thread(const struct process *process)
{
	enum { KTHREADD = 2 };

	/* A program that is just ending has neither a file nor memory, but another parent. */
	return process->exe[0] == '\0' && process->resident_bytes == 0 &&
	       (process->pid == KTHREADD || process->parent == KTHREADD);
}

struct process_start process_start_of_vector(const struct buffer *auxv)
{
	struct process_start start = { 0 };
	bool has_loader = false, has_entry = false;
	Elf64_auxv_t entry;

	for (size_t at = 0; at + sizeof entry <= auxv->size; at += sizeof entry) {
		memcpy(&entry, auxv->data + at, sizeof entry);
		if (entry.a_type == AT_SECURE)
			start.is_secure = entry.a_un.a_val != 0;
		else if (entry.a_type == AT_BASE)
			has_loader = entry.a_un.a_val != 0;
		has_entry |= entry.a_type == AT_ENTRY;
	}
	/*
	 * A thread of the kernel and a process that is just ending have no vector. In the middle of
	 * execve() it is empty, or ends before AT_ENTRY, which the kernel writes after AT_BASE.
	 */
	start.is_static = has_entry && !has_loader;
	return start;
}

bool process_read_start(pid_t pid, struct process_start *start, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer auxv = BUFFER_OR_EXIT;

	if (!read_proc(pid, "auxv", &auxv, err))
		return false;
	*start = process_start_of_vector(&auxv);
	return true;
}

static int compare_pids(const void *a, const void *b)
{
	const pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return (x > y) - (x < y);
}

bool process_list(pid_t **pids, size_t *count, struct error *err)
{
	DIR *const folder = opendir("/proc");
	size_t capacity = 0, found = 0;
	pid_t *list = NULL;

	if (folder == NULL && errno == ENOENT)
		return explain_no_proc(err);
	if (folder == NULL)
		return error_system(err, errno, "/proc");
	for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		*XAPPEND(list, found, capacity) = atoi(entry->d_name);
	}
	closedir(folder);
	if (found == 0)
		return explain_no_proc(err);
	qsort(list, found, sizeof *list, compare_pids);
	*pids = list;
	*count = found;
	return true;
}

const char *process_root(const struct process *process, char root[32])
{
	root[0] = '\0';
	if (process->other_root)
		snprintf(root, 32, "/proc/%d/root", (int)process_living_thread(process->pid));
	return root;
}

bool process_has_bare_root(const struct process *process)
{
	char root[32], version[64];

	if (process_root(process, root)[0] == '\0')
		return false;
	snprintf(version, sizeof version, "%s/proc/version", root);
	return access(version, F_OK) != 0 && errno == ENOENT;
}

static bool is_wanted(const struct process *process, const char *name, uid_t owner)
{
	return !process_is_kernel_thread(process) && process_is_called(process, name) &&
	       (owner == USER_ANY || process->uid == owner);
}

static bool is_file(const char *path)
{
	struct stat status;

	return stat(path, &status) == 0 && S_ISREG(status.st_mode);
}

bool process_refuse_name(const char *name, uid_t owner, const char *hint, struct error *err)
{
	const char *const at = strrchr(name, '@');
	char user[USER_NAME_BYTES];

	/* Had there been such a user, the name would end before the '@'. */
	if (owner == USER_ANY && at != NULL && at != name && at[1] != '\0') {
		error_set(err, ERROR_NOT_FOUND,
			"no process is called '%s', and there is no user '%s'", name, at + 1);
	} else if (owner == USER_ANY) {
		error_set(err, ERROR_NOT_FOUND, "no process is called '%s'", name);
	} else {
		user_name_format(owner, user);
		error_set(err, ERROR_NOT_FOUND, "no process of user %s is called '%s'", user, name);
	}
	return error_hint(err, "%s%s",
		is_file(name) ? "heapctl report shows the file of that name; " : "", hint);
}

static bool find_name(const char *name, uid_t owner, struct process *found, struct error *err)
{
	CLEANUP(free_cleanup) pid_t *pids = NULL;
	enum { NAMES_SHOWN = 6 };
	char others[200] = "";
	size_t count = 0, matches = 0, hidden = 0;
	struct process process;
	struct error ignored;

	if (!process_list(&pids, &count, err))
		return false;
	for (size_t i = 0; i < count; i++) {
		if (pids[i] == getpid() || !process_read(pids[i], &process, &ignored) ||
			!is_wanted(&process, name, owner))
			continue;
		/* Another user's: what is denied is reported by whoever uses it. */
		if (process.exe[0] == '\0') {
			if (hidden++ == 0 && matches == 0)
				*found = process;
			continue;
		}
		const size_t used = strlen(others);
		if (matches < NAMES_SHOWN)
			snprintf(others + used, sizeof others - used, "%s%d", used == 0 ? "" : ", ",
				(int)process.pid);
		if (matches++ == 0)
			*found = process;
	}
	if (matches == 1 || (matches == 0 && hidden > 0))
		return true;
	if (matches == 0)
		return process_refuse_name(
			name, owner, "heapctl ps --all lists the processes", err);
	error_set(err, ERROR_USAGE, "%zu processes are called '%s'", matches, name);
	return error_hint(
		err, "name one by its pid: %s%s", others, matches > NAMES_SHOWN ? ", ..." : "");
}

bool process_parse_pid(const char *text, pid_t *pid, struct error *err)
{
	const size_t digits = strspn(text, "0123456789");

	if (text[digits] != '\0') {
		*pid = 0;
		return true;
	}
	if (digits > 0 && digits <= 9 && atoi(text) != 0) {
		*pid = atoi(text);
		return true;
	}
	if (digits == 0)
		error_set(err, ERROR_USAGE, "the target is empty");
	else
		error_set(err, ERROR_USAGE, "%s is not a pid", text);
	return error_hint(err, "heapctl ps --all lists the processes");
}

bool process_find(const char *text, struct process *process, struct error *err)
{
	uid_t owner = USER_ANY;
	char name[256];
	pid_t pid = 0;

	if (!process_parse_pid(text, &pid, err))
		return false;
	if (pid != 0)
		return process_read(pid, process, err);
	if (strchr(text, '/') != NULL) {
		error_set(err, ERROR_USAGE, "a process has a pid or a name, not '%s'", text);
		return error_hint(err, "heapctl ps --all lists the processes");
	}
	if (target_tree_detect(text))
		return target_tree_refuse(text, err);
	if (user_name_split(text, name, sizeof name, &owner))
		return find_name(name, owner, process, err);
	return find_name(text, owner, process, err);
}
