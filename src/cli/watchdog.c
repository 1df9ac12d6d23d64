/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/watchdog.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "cli/verb.h"

/* Made beforehand, for the handler of a signal. */
static char message[512];

/* As it was before: programs that are started later get the limit of theirs. */
static struct rlimit old_limits;
static bool has_limited;

static void end_process(int number)
{
	(void)number;
	if (write(STDERR_FILENO, message, strlen(message)) < 0)
		_exit(EXIT_FAILED);
	_exit(EXIT_FAILED);
}

/* What is mapped from files does not count: debug files may have gigabytes. */
static void limit_memory(void)
{
	const uint64_t pages = (uint64_t)sysconf(_SC_PHYS_PAGES);
	const uint64_t bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE) / 4 * 3;

	/* Sanitizers reserve terabytes of memory. */
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
	if (has_limited || getrlimit(RLIMIT_DATA, &old_limits) != 0 || old_limits.rlim_cur <= bytes)
		return;
	const struct rlimit limits = { .rlim_cur = bytes, .rlim_max = old_limits.rlim_max };
	has_limited = setrlimit(RLIMIT_DATA, &limits) == 0;
#else
	(void)bytes;
#endif
}

void watchdog_begin(const char *what)
{
	const struct itimerval after = { .it_value.tv_sec = WATCHDOG_CPU_SECONDS };
	struct sigaction action = { .sa_handler = end_process };

	limit_memory();
	snprintf(message, sizeof message,
		"heapctl: %s took more than %d s of processor time: cancelled (its files may be "
		"damaged, or made for that)\n",
		what, WATCHDOG_CPU_SECONDS);
	sigemptyset(&action.sa_mask);
	sigaction(SIGPROF, &action, NULL);
	setitimer(ITIMER_PROF, &after, NULL);
}

void watchdog_end(void)
{
	const struct itimerval none = { .it_value.tv_sec = 0 };

	setitimer(ITIMER_PROF, &none, NULL);
	if (has_limited)
		(void)setrlimit(RLIMIT_DATA, &old_limits);
	has_limited = false;
}
