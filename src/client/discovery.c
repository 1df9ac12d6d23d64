/* SPDX-License-Identifier: Apache-2.0 */
#include "client/discovery.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

static const char system_folder[] = "/run/heapctl";

__attribute__((format(printf, 2, 3))) static void add(
	struct string_pool *pool, const char *format, ...)
{
	char text[4096];
	va_list arguments;

	va_start(arguments, format);
	const int size = vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	if (size > 0 && (size_t)size < sizeof text)
		string_pool_add(pool, text);
}

static bool is_absolute(const char *path)
{
	return path != NULL && path[0] == '/';
}

/* The folders that its environment names, which we can read for our own processes only. */
static void add_named_folders(
	const struct process *process, const char *root, struct string_pool *folders)
{
	CLEANUP(buffer_deinit) struct buffer environment = BUFFER_OR_EXIT;
	struct error err;

	if (process_read_environment(process->pid, &environment, &err)) {
		const char *const own = process_environment_find(&environment, "HEAPCTL_DIR");
		const char *const runtime =
			process_environment_find(&environment, "XDG_RUNTIME_DIR");
		if (is_absolute(own))
			add(folders, "%s%s", root, own);
		if (is_absolute(runtime))
			add(folders, "%s%s/heapctl", root, runtime);
	}
}

void discovery_folders(const struct process *process, struct string_pool *folders)
{
	char root[32];
	const char *const own = getenv("HEAPCTL_DIR");

	process_root(process, root);
	add_named_folders(process, root, folders);
	if (is_absolute(own))
		add(folders, "%s%s", root, own);
	add(folders, "%s%s", root, system_folder);
	add(folders, "%s/run/user/%u/heapctl", root, process->uid);
	/* The agent may have started before the process dropped root. */
	add(folders, "%s/tmp/heapctl-%u", root, process->uid);
	add(folders, "%s/tmp/heapctl-%u", root, process->effective_uid);
	add(folders, "%s/tmp/heapctl-0", root);
	add(folders, "%s/dev/shm/heapctl-%u", root, process->uid);
	add(folders, "%s/dev/shm/heapctl-%u", root, process->effective_uid);
	add(folders, "%s/dev/shm/heapctl-0", root);
}

bool discovery_has_lost_own_folder(const struct process *process)
{
	const char *const own = getenv("HEAPCTL_DIR");
	char path[4096 + 32], root[32];

	if (!is_absolute(own) || !process_has_agent_thread(process))
		return false;
	snprintf(path, sizeof path, "%s%s", process_root(process, root), own);
	return access(path, F_OK) != 0 && errno == ENOENT;
}

bool discovery_usable_folder(const struct process *process, char folder[4096])
{
	CLEANUP(buffer_deinit) struct buffer environment = BUFFER_OR_EXIT;
	char path[4096 + 32], root[32];
	struct stat status;
	struct error ignored;

	if (!process_read_environment(process->pid, &environment, &ignored))
		return false;
	const char *const own = process_environment_find(&environment, "HEAPCTL_DIR");
	if (!is_absolute(own))
		return false;
	snprintf(folder, 4096, "%s", own);
	snprintf(path, sizeof path, "%s%s", process_root(process, root), folder);
	return lstat(path, &status) == 0 && S_ISDIR(status.st_mode) &&
	       private_folder_check(folder, &status, process->effective_uid, &ignored) &&
	       (process->effective_uid == 0 || (status.st_mode & S_IRWXU) == S_IRWXU);
}

/* Whether it is there, or could be made. */
static bool is_place(const char *folder)
{
	const char *const slash = strrchr(folder, '/');
	char parent[4096];

	snprintf(parent, sizeof parent, "%.*s/", slash == NULL ? 0 : (int)(slash - folder), folder);
	return access(parent, F_OK) == 0;
}

bool discovery_has_place(const struct process *process)
{
	CLEANUP(buffer_deinit) struct buffer environment = BUFFER_OR_EXIT;
	struct string_pool folders;
	struct error ignored;
	const char *own = NULL;
	char root[32];
	bool found = false;

	string_pool_init(&folders);
	if (process_read_environment(process->pid, &environment, &ignored))
		own = process_environment_find(&environment, "HEAPCTL_DIR");
	if (is_absolute(own))
		add(&folders, "%s%s", process_root(process, root), own);
	else
		discovery_folders(process, &folders);
	for (size_t i = 0; i < folders.count && !found; i++)
		found = is_place(folders.strings[i]);
	string_pool_deinit(&folders);
	return found;
}

static bool is_socket(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

/* "4711.sock", or "4711.4026532281.sock" where two pid namespaces share a folder; 0 for others. */
static pid_t pid_of_name(const char *name)
{
	const size_t digits = strspn(name, "0123456789");
	const char *end = name + digits;

	if (digits == 0 || digits > 9)
		return 0;
	if (end[0] == '.' && isdigit((unsigned char)end[1]))
		end += 1 + strspn(end + 1, "0123456789");
	return strcmp(end, ".sock") == 0 ? atoi(name) : 0;
}

/* ".4711.c0ffee0123456789": the name that an agent's socket is bound to. 4711; 0 for others. */
static pid_t pid_of_bound_name(const char *name)
{
	enum { RANDOM_DIGITS = 16 };
	const char *const number = name + 1;
	const size_t digits = name[0] == '.' ? strspn(number, "0123456789") : 0;
	const char *const random = number + digits + 1;

	if (digits == 0 || digits > 9 || number[digits] != '.' ||
		strspn(random, "0123456789abcdef") != RANDOM_DIGITS ||
		random[RANDOM_DIGITS] != '\0')
		return 0;
	return atoi(number);
}

/*
 * The sockets of agents in a folder; of one process, by its inner pid. When that is 0, of all,
 * and those that never got their last name.
 */
static void add_folder(const char *folder, pid_t pid, struct string_pool *paths)
{
	DIR *const listing = opendir(folder);

	if (listing == NULL)
		return;
	for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
		char path[4096];
		pid_t named = pid_of_name(entry->d_name);
		if (named == 0 && pid == 0)
			named = pid_of_bound_name(entry->d_name);
		const int size = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
		if (named != 0 && (pid == 0 || named == pid) && (size_t)size < sizeof path &&
			is_socket(path))
			string_pool_add(paths, path);
	}
	closedir(listing);
}

/*
 * One line of /proc/net/unix: "Num: RefCount Protocol Flags Type St Inode Path". The path of a
 * listening stream socket, NULL otherwise. Cuts the line at its end.
 */
static const char *listening_path(char *line)
{
	unsigned flags, type;
	int path_at = 0;

	if (sscanf(line, "%*x: %*x %*x %x %x %*x %*u %n", &flags, &type, &path_at) < 2 ||
		path_at == 0)
		return NULL;
	enum { ACCEPTS = 0x10000, STREAM = 1 };
	if ((flags & ACCEPTS) == 0 || type != STREAM || line[path_at] != '/')
		return NULL;
	return line + path_at;
}

/* A socket that an agent listens at, by the name that it was bound to. */
struct listening_socket {
	pid_t pid;	    /* as its own pid namespace counts */
	const char *folder; /* as its process sees it; ends with a slash */
};

/* What the kernel's table of a network namespace has of them. */
struct listening_table {
	dev_t device; /* of the table: each namespace has its own */
	ino_t inode;
	struct listening_socket *sockets;
	size_t count, capacity;
};

struct listening_tables {
	pthread_mutex_t lock;
	struct string_pool folders;
	struct listening_table **tables;
	size_t count, capacity;
};

struct listening_tables *listening_tables_create(void)
{
	struct listening_tables *const tables = xcalloc(1, sizeof *tables);

	pthread_mutex_init(&tables->lock, NULL);
	string_pool_init(&tables->folders);
	return tables;
}

void listening_tables_destroy(struct listening_tables *tables)
{
	if (tables == NULL)
		return;
	for (size_t i = 0; i < tables->count; i++) {
		free(tables->tables[i]->sockets);
		free(tables->tables[i]);
	}
	free(tables->tables);
	string_pool_deinit(&tables->folders);
	pthread_mutex_destroy(&tables->lock);
	free(tables);
}

/* False where the process has ended meanwhile: others of its namespace still show the table. */
static bool read_table(const char *path, struct string_pool *folders, struct listening_table *table)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct error err;

	if (!file_read(path, &text, &err) || text.size == 0)
		return false;
	buffer_append_char(&text, '\0');
	for (char *line = text.data, *next; line != NULL && *line != '\0'; line = next) {
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		const char *const bound = listening_path(line);
		if (bound == NULL)
			continue;
		const char *const name = strrchr(bound, '/') + 1;
		const pid_t pid = pid_of_bound_name(name);
		if (pid == 0)
			continue;
		*XAPPEND(table->sockets, table->count, table->capacity) = (struct listening_socket){
			.pid = pid,
			.folder = string_pool_add_sized(folders, bound, (size_t)(name - bound)),
		};
	}
	return true;
}

/* The table that the process sees; NULL where it is hidden, or the process has ended. */
static const struct listening_table *find_table(
	struct listening_tables *tables, const char *proc_folder)
{
	struct listening_table *found = NULL;
	struct stat status;
	char path[64];

	snprintf(path, sizeof path, "/proc/%s/net/unix", proc_folder);
	if (stat(path, &status) != 0)
		return NULL;
	pthread_mutex_lock(&tables->lock);
	for (size_t i = 0; i < tables->count && found == NULL; i++) {
		if (tables->tables[i]->inode == status.st_ino &&
			tables->tables[i]->device == status.st_dev)
			found = tables->tables[i];
	}
	if (found == NULL) {
		CLEANUP(free_cleanup) struct listening_table *table = xcalloc(1, sizeof *table);
		table->device = status.st_dev;
		table->inode = status.st_ino;
		if (read_table(path, &tables->folders, table)) {
			found = TAKE(table);
			*XAPPEND(tables->tables, tables->count, tables->capacity) = found;
		}
	}
	pthread_mutex_unlock(&tables->lock);
	return found;
}

/* Of one process, by its inner pid; of all when that is 0. */
static void add_listening(
	const struct listening_table *table, pid_t pid, const char *root, struct string_pool *paths)
{
	for (size_t i = 0; table != NULL && i < table->count; i++) {
		const struct listening_socket *const socket = &table->sockets[i];
		char seen[4096 + 32];
		if (pid != 0 && socket->pid != pid)
			continue;
		snprintf(seen, sizeof seen, "%s%s", root, socket->folder);
		/* It was renamed since, which the kernel's table does not learn. */
		add_folder(seen, socket->pid, paths);
	}
}

static void add_if_socket(const char *path, int size, struct string_pool *paths)
{
	if (size < 4096 && is_socket(path))
		string_pool_add(paths, path);
}

/* Either name that an agent of this process may have given its socket in that folder. */
static void add_process_sockets(const char *folder, const struct process *process,
	unsigned long long namespace, struct string_pool *paths)
{
	char path[4096];

	add_if_socket(path,
		snprintf(path, sizeof path, "%s/%d.sock", folder, (int)process->inner_pid), paths);
	if (namespace != 0)
		add_if_socket(path,
			snprintf(path, sizeof path, "%s/%d.%llu.sock", folder,
				(int)process->inner_pid, namespace),
			paths);
}

/* The number of a process' pid namespace; 0 when it is hidden. */
static unsigned long long namespace_of(const struct process *process)
{
	char path[32];
	struct stat status;

	snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)process->pid);
	return stat(path, &status) == 0 ? status.st_ino : 0;
}

void discovery_candidates(const struct process *process, struct string_pool *paths)
{
	const unsigned long long namespace = namespace_of(process);
	struct string_pool folders;
	char root[32];

	string_pool_init(&folders);
	discovery_folders(process, &folders);
	process_root(process, root);
	for (size_t i = 0; i < folders.count; i++) {
		const char *const folder = folders.strings[i];
		add_process_sockets(folder, process, namespace, paths);
		/* It may have changed its root after its agent had made the socket. */
		if (root[0] != '\0' && strncmp(folder, root, strlen(root)) == 0)
			add_process_sockets(folder + strlen(root), process, namespace, paths);
	}
	string_pool_deinit(&folders);
}

void discovery_listening(
	struct listening_tables *tables, const struct process *process, struct string_pool *paths)
{
	const size_t before = paths->count;
	char root[32], proc_folder[16];

	snprintf(proc_folder, sizeof proc_folder, "%d", (int)process->pid);
	const struct listening_table *const table = find_table(tables, proc_folder);
	process_root(process, root);
	add_listening(table, process->inner_pid, root, paths);
	if (root[0] != '\0' && paths->count == before)
		add_listening(table, process->inner_pid, "", paths);
}

/* The folders that other users' agents make: PARENT/BEGINNING*TAIL. */
static void add_users_folders(
	const char *parent, const char *beginning, const char *tail, struct string_pool *paths)
{
	DIR *const listing = opendir(parent);

	if (listing == NULL)
		return;
	for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
		char folder[512];
		if (entry->d_name[0] == '.' ||
			strncmp(entry->d_name, beginning, strlen(beginning)) != 0)
			continue;
		snprintf(folder, sizeof folder, "%s/%s%s", parent, entry->d_name, tail);
		add_folder(folder, 0, paths);
	}
	closedir(listing);
}

void discovery_sockets(struct listening_tables *tables, struct string_pool *paths)
{
	const char *const own = getenv("HEAPCTL_DIR");
	const char *const runtime = getenv("XDG_RUNTIME_DIR");

	if (is_absolute(own))
		add_folder(own, 0, paths);
	add_folder(system_folder, 0, paths);
	if (is_absolute(runtime)) {
		char folder[4096];
		snprintf(folder, sizeof folder, "%s/heapctl", runtime);
		add_folder(folder, 0, paths);
	}
	add_users_folders("/run/user", "", "/heapctl", paths);
	add_users_folders("/tmp", "heapctl-", "", paths);
	add_users_folders("/dev/shm", "heapctl-", "", paths);
	add_listening(find_table(tables, "self"), 0, "", paths);
}

/* An entry with a slash is a path of the program, which may have been started by another one. */
static bool is_path_of(const struct process *process, const char *path)
{
	char root[32], seen[4096 + 32], exe[32];
	struct stat named, own;

	if (strcmp(path, process->exe) == 0)
		return true;
	snprintf(seen, sizeof seen, "%s%s", process_root(process, root), path);
	snprintf(exe, sizeof exe, "/proc/%d/exe", (int)process->pid);
	return stat(seen, &named) == 0 && stat(exe, &own) == 0 && named.st_dev == own.st_dev &&
	       named.st_ino == own.st_ino;
}

static bool is_listed(const struct process *process, const char *list)
{
	char entry[4096];

	for (const char *at = list; *at != '\0';) {
		const size_t size = strcspn(at, ":");
		if (size > 0 && size < sizeof entry) {
			memcpy(entry, at, size);
			entry[size] = '\0';
			if (strchr(entry, '/') != NULL ? is_path_of(process, entry)
						       : process_is_called(process, entry))
				return true;
		}
		at += size;
		at += *at == ':';
	}
	return false;
}

enum agent_absence agent_absence(const struct process *process, const struct buffer *environment)
{
	const char *const disable = process_environment_find(environment, "HEAPCTL_DISABLE");
	const char *const exes = process_environment_find(environment, "HEAPCTL_EXE");

	if (disable != NULL && *disable != '\0' && strcmp(disable, "0") != 0)
		return ABSENCE_DISABLED;
	if (exes != NULL && *exes != '\0' && !is_listed(process, exes))
		return ABSENCE_OTHER_PROGRAM;
	return ABSENCE_UNKNOWN;
}

enum agent_absence agent_absence_of(const struct process *process)
{
	enum agent_absence absence = ABSENCE_UNKNOWN;
	CLEANUP(buffer_deinit) struct buffer environment = BUFFER_OR_EXIT;
	struct error ignored;

	if (process_read_environment(process->pid, &environment, &ignored) &&
		process_environment_is_intact(&environment))
		absence = agent_absence(process, &environment);
	return absence;
}
