/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/held_signals.h"

#include <stddef.h>
#include <time.h>

static const int numbers[] = { SIGPIPE, SIGXFSZ };

void held_signals_begin(struct held_signals *held)
{
	sigset_t ours;

	sigemptyset(&ours);
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		sigaddset(&ours, numbers[i]);
	pthread_sigmask(SIG_BLOCK, &ours, &held->before);
}

void held_signals_end(const struct held_signals *held)
{
	const struct timespec at_once = { 0 };
	sigset_t pending, ours;

	sigpending(&pending);
	sigemptyset(&ours);
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
		/* One that was blocked before is the program's matter. */
		if (sigismember(&pending, numbers[i]) && !sigismember(&held->before, numbers[i]))
			sigaddset(&ours, numbers[i]);
	}
	while (sigtimedwait(&ours, NULL, &at_once) > 0)
		continue;
	pthread_sigmask(SIG_SETMASK, &held->before, NULL);
}
