/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/thread_names.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "agent/folder.h"
#include "base/cleanup.h"

static const char *const names[] = {
	[THREAD_NAME_AGENT] = "heapctl",
	[THREAD_NAME_REPLACEMENT] = "heapctl-last",
};

void thread_names_set(enum thread_name name)
{
	prctl(PR_SET_NAME, names[name]);
}

static bool is_named(int tasks, const char *thread, enum thread_name wanted)
{
	char path[FOLDER_NAME_MAX], name[32] = "";

	snprintf(path, sizeof path, "%s/comm", thread);
	CLEANUP(fd_cleanup) const int fd = openat(tasks, path, O_RDONLY | O_CLOEXEC);
	const ssize_t size = fd < 0 ? 0 : read(fd, name, sizeof name - 1);
	if (size > 0 && name[size - 1] == '\n')
		name[size - 1] = '\0';
	return strcmp(name, names[wanted]) == 0;
}

bool thread_names_is_agent(int tasks, const char *thread)
{
	return is_named(tasks, thread, THREAD_NAME_AGENT);
}

struct thread_count {
	int tasks;
	bool with_replacements;
	bool has_main;
	unsigned others; /* than the main thread */
	unsigned agents; /* of these */
};

static bool count_thread(void *context, const char *thread)
{
	struct thread_count *const count = context;

	/* The main thread is the first of the list, also where it has ended. */
	count->others += count->has_main;
	count->agents += count->has_main &&
			 (thread_names_is_agent(count->tasks, thread) ||
				 (count->with_replacements &&
					 is_named(count->tasks, thread, THREAD_NAME_REPLACEMENT)));
	count->has_main = true;
	return count->agents == count->others;
}

bool thread_names_are_agents(bool with_replacements)
{
	struct thread_count count = { .with_replacements = with_replacements };
	struct error ignored;
	CLEANUP(fd_cleanup)
	const int tasks = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	count.tasks = tasks;
	return tasks >= 0 && folder_list(tasks, count_thread, &count, &ignored) &&
	       count.agents == count.others;
}
