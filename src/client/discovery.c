/* SPDX-License-Identifier: Apache-2.0 */
#include "client/discovery.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

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
	struct buffer environment;
	struct error err;

	buffer_init(&environment, &memory_or_exit);
	if (process_read_environment(process->pid, &environment, &err)) {
		const char *const own = process_environment_find(&environment, "HEAPCTL_DIR");
		const char *const runtime =
			process_environment_find(&environment, "XDG_RUNTIME_DIR");
		if (is_absolute(own))
			add(folders, "%s%s", root, own);
		if (is_absolute(runtime))
			add(folders, "%s%s/heapctl", root, runtime);
	}
	buffer_deinit(&environment);
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
	/* The agent may have started before the process gave up being root. */
	add(folders, "%s/tmp/heapctl-%u", root, process->uid);
	add(folders, "%s/tmp/heapctl-%u", root, process->effective_uid);
	add(folders, "%s/tmp/heapctl-0", root);
}

static bool is_socket(const char *path)
{
	struct stat status;

	return lstat(path, &status) == 0 && S_ISSOCK(status.st_mode);
}

static bool is_agent_name(const char *name)
{
	const size_t digits = strspn(name, "0123456789");

	return digits > 0 && digits <= 9 && strcmp(name + digits, ".sock") == 0;
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

/*
 * An agent's socket is bound to a name of its own, ".PID.RANDOM", and then renamed to PID.sock,
 * which the kernel's table does not learn. Changes the one name into the other.
 */
static bool is_agent_socket(const char *bound, pid_t pid, char path[4096])
{
	enum { RANDOM_DIGITS = 16 };
	const char *const name = strrchr(bound, '/') + 1;
	const char *const number = name + 1;
	const size_t digits = name[0] == '.' ? strspn(number, "0123456789") : 0;
	const char *const random = number + digits + 1;

	if (digits == 0 || digits > 9 || number[digits] != '.' ||
		strspn(random, "0123456789abcdef") != RANDOM_DIGITS ||
		random[RANDOM_DIGITS] != '\0' || (pid != 0 && atoi(number) != pid))
		return false;
	return snprintf(path, 4096, "%.*s%.*s.sock", (int)(name - bound), bound, (int)digits,
		       number) < 4096;
}

/* The agents' sockets in the network namespace of `proc_folder`. */
static void add_listening(
	const char *proc_folder, pid_t pid, const char *root, struct string_pool *paths)
{
	char path[64];
	struct buffer table;
	struct error err;

	snprintf(path, sizeof path, "/proc/%s/net/unix", proc_folder);
	buffer_init(&table, &memory_or_exit);
	if (!file_read(path, &table, &err))
		buffer_clear(&table);
	buffer_append_char(&table, '\0');
	for (char *line = table.data, *next; line != NULL && *line != '\0'; line = next) {
		char own[4096], seen[4096 + 32];
		next = strchr(line, '\n');
		if (next != NULL)
			*next++ = '\0';
		const char *const bound = listening_path(line);
		if (bound == NULL || !is_agent_socket(bound, pid, own))
			continue;
		snprintf(seen, sizeof seen, "%s%s", root, own);
		if (is_socket(seen))
			string_pool_add(paths, seen);
	}
	buffer_deinit(&table);
}

void discovery_candidates(const struct process *process, struct string_pool *paths)
{
	struct string_pool folders;
	char root[32], proc_folder[16];
	const size_t before = paths->count;

	string_pool_init(&folders);
	discovery_folders(process, &folders);
	for (size_t i = 0; i < folders.count; i++) {
		char path[4096];
		const int size = snprintf(path, sizeof path, "%s/%d.sock", folders.strings[i],
			(int)process->inner_pid);
		if ((size_t)size < sizeof path && is_socket(path))
			string_pool_add(paths, path);
	}
	string_pool_deinit(&folders);
	if (paths->count > before)
		return;
	snprintf(proc_folder, sizeof proc_folder, "%d", (int)process->pid);
	add_listening(proc_folder, process->inner_pid, process_root(process, root), paths);
}

static void add_folder(const char *folder, struct string_pool *paths)
{
	DIR *const listing = opendir(folder);

	if (listing == NULL)
		return;
	for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
		char path[4096];
		const int size = snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
		if ((size_t)size < sizeof path && is_agent_name(entry->d_name) && is_socket(path))
			string_pool_add(paths, path);
	}
	closedir(listing);
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
		add_folder(folder, paths);
	}
	closedir(listing);
}

void discovery_sockets(struct string_pool *paths)
{
	const char *const own = getenv("HEAPCTL_DIR");
	const char *const runtime = getenv("XDG_RUNTIME_DIR");

	if (is_absolute(own))
		add_folder(own, paths);
	add_folder(system_folder, paths);
	if (is_absolute(runtime)) {
		char folder[4096];
		snprintf(folder, sizeof folder, "%s/heapctl", runtime);
		add_folder(folder, paths);
	}
	add_users_folders("/run/user", "", "/heapctl", paths);
	add_users_folders("/tmp", "heapctl-", "", paths);
	add_listening("self", 0, "", paths);
}
