/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A server that takes signals with sigwait(), as a watchdog's SIGABRT is taken, those of faults
 * too. Says which came; SIGTERM ends it.
 */
#include <signal.h>
#include <stdio.h>

int main(void)
{
	static const int numbers[] = { SIGABRT, SIGSEGV, SIGBUS, SIGTRAP, SIGSYS, SIGILL, SIGFPE,
		SIGUSR1, SIGTERM };
	sigset_t set;
	int number = 0;

	sigemptyset(&set);
	for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		sigaddset(&set, numbers[i]);
	sigprocmask(SIG_BLOCK, &set, NULL);
	puts("ready");
	while (number != SIGTERM) {
		fflush(stdout);
		usleep(100000);
		if (sigwait(&set, &number) != 0)
			return 1;
		printf("%d\n", number);
	}
	return 0;
}
