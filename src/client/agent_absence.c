/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent_absence.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/xalloc.h"

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
	struct buffer environment;
	struct error ignored;

	buffer_init(&environment, &memory_or_exit);
	if (process_read_environment(process->pid, &environment, &ignored) &&
		process_environment_is_intact(&environment))
		absence = agent_absence(process, &environment);
	buffer_deinit(&environment);
	return absence;
}
