/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that gets a signal of its own together with the one that wakes an agent on demand:
 * signal_with_wake KIND. Both are pending when it begins to wait, and the agent's is handled first.
 * Prints whether the wait ended by the program's signal.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WAKE_WORD = 0x6c746368, SECONDS = 5 };

static volatile sig_atomic_t handled;

static void note(int number)
{
	handled = number;
}

static void send_wake(int number)
{
	siginfo_t request = { .si_signo = number, .si_code = SI_QUEUE };

	request.si_pid = getpid();
	request.si_uid = getuid();
	request.si_value.sival_int = WAKE_WORD;
	if (syscall(SYS_rt_sigqueueinfo, getpid(), number, &request) != 0)
		exit(2);
}

int main(int argc, char **argv)
{
	const struct sigaction action = { .sa_handler = note };
	const int wake = SIGRTMAX - 3, own = SIGRTMAX;
	sigset_t both, before;

	sigaction(own, &action, NULL);
	sigaction(SIGALRM, &action, NULL);
	sigemptyset(&both);
	sigaddset(&both, wake);
	sigaddset(&both, own);
	sigprocmask(SIG_BLOCK, &both, &before);
	send_wake(wake);
	kill(getpid(), own);
	alarm(SECONDS);
	const int result = argc > 1 && strcmp(argv[1], "ppoll") == 0 ? ppoll(NULL, 0, NULL, &before)
								     : sigsuspend(&before);
	printf("%s\n", result == -1 && errno == EINTR && handled == own ? "ended" : "missed");
	return 0;
}
