/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: the first call of the agent's thread takes a second, as where it gets no processor. */
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

__attribute__((visibility("default"))) int sched_getscheduler(pid_t pid)
{
	const struct timespec second = { .tv_sec = 1 };

	nanosleep(&second, NULL);
	return (int)syscall(SYS_sched_getscheduler, pid);
}
