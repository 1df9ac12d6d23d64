/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/threads.h"

#include <ctype.h>
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/xalloc.h"

enum { PATH_BYTES = 64 };

bool threads_read(struct thread_list *list, pid_t pid, struct error *err)
{
	char path[PATH_BYTES];

	snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
	DIR *const tasks = opendir(path);
	if (tasks == NULL)
		return error_set(err, ERROR_NOT_FOUND, "process %d has ended", (int)pid);
	list->count = 0;
	for (struct dirent *entry; list->count < THREADS_MAX && (entry = readdir(tasks)) != NULL;) {
		if (isdigit((unsigned char)entry->d_name[0]))
			list->threads[list->count++] = atoi(entry->d_name);
	}
	closedir(tasks);
	return true;
}

bool threads_has(const struct remote_process *remote, pid_t thread)
{
	char path[PATH_BYTES];
	struct stat ignored;

	snprintf(path, sizeof path, "task/%d", (int)thread);
	return fstatat(remote->folder, path, &ignored, 0) == 0;
}

char thread_state(pid_t thread)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (!file_try_read(&text, "/proc/%d/status", (int)thread))
		return 0;
	const char *const state = strstr(buffer_string(&text), "\nState:\t");
	return state == NULL ? 0 : state[strlen("\nState:\t")];
}

enum { USERS_BYTES = 64 };

static bool read_users(pid_t pid, pid_t thread, char users[USERS_BYTES])
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (!file_try_read(&text, "/proc/%d/task/%d/status", (int)pid, (int)thread))
		return false;
	const char *const line = strstr(buffer_string(&text), "\nUid:");
	if (line == NULL || strstr(buffer_string(&text), "\nState:\tZ") != NULL)
		return false;
	snprintf(users, USERS_BYTES, "%.*s", (int)strcspn(line + 1, "\n"), line + 1);
	return true;
}

bool thread_has_users_of_main(pid_t pid, pid_t thread)
{
	char main_users[USERS_BYTES], users[USERS_BYTES];

	return thread == pid || !read_users(pid, pid, main_users) ||
	       !read_users(pid, thread, users) || strcmp(users, main_users) == 0;
}

/*
 * Where a thread waits, without stopping it: /proc/PID/task/TID/syscall has the number of its
 * system call, six arguments, the stack and the instruction pointer; "running" of one that runs.
 */
bool thread_read_waiting(pid_t pid, pid_t thread, struct stack_registers *registers, long *number)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	*number = -1;
	*registers = (struct stack_registers){ .is_in_call = true };
	const bool waits =
		file_try_read(&text, "/proc/%d/task/%d/syscall", (int)pid, (int)thread) &&
		sscanf(buffer_string(&text), "%ld %*s %*s %*s %*s %*s %*s %" SCNx64 " %" SCNx64,
			number, &registers->sp, &registers->pc) == 3 &&
		*number >= 0;
	registers->call = *number;
	return waits;
}

/* The last number of NSpid is the one by which the thread knows itself (pid_namespaces(7)). */
static bool is_called(pid_t pid, pid_t thread, pid_t own_number)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (!file_try_read(&text, "/proc/%d/task/%d/status", (int)pid, (int)thread))
		return false;
	const char *at = strstr(buffer_string(&text), "\nNSpid:");
	long number = thread;
	for (at = at == NULL ? "" : at + strlen("\nNSpid:"); *at == '\t';) {
		char *end;
		number = strtol(at, &end, 10);
		at = end;
	}
	return number == own_number;
}

pid_t threads_find(pid_t pid, pid_t own_number)
{
	struct thread_list list;
	struct error ignored;

	if (!threads_read(&list, pid, &ignored))
		return 0;
	for (size_t i = 0; i < list.count; i++) {
		if (is_called(pid, list.threads[i], own_number))
			return list.threads[i];
	}
	return 0;
}
