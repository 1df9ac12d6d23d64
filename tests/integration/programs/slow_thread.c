/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded: the agent's thread takes a second before its first call, and eight before it removes
 * its socket, as where it gets no processor.
 */
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static void wait_seconds(time_t seconds)
{
	const struct timespec time = { .tv_sec = seconds };

	nanosleep(&time, NULL);
}

__attribute__((visibility("default"))) int sched_getscheduler(pid_t pid)
{
	wait_seconds(1);
	return (int)syscall(SYS_sched_getscheduler, pid);
}

__attribute__((visibility("default"))) int unlinkat(int folder, const char *name, int flags)
{
	if (strstr(name, ".sock") != NULL)
		wait_seconds(8);
	return (int)syscall(SYS_unlinkat, folder, name, flags);
}
