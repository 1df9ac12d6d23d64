/* SPDX-License-Identifier: Apache-2.0 */
/* A daemon as `pid=$(daemon)` starts it: prints its pid, closes its output and continues. */
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "wait_to_begin.h"

int main(void)
{
	wait_to_begin();
	const pid_t pid = fork();

	if (pid != 0)
		return pid < 0;
	setsid();
	/* Long enough for a child's agent to be there before stderr is another file. */
	usleep(300000);
	printf("%d\n", getpid());
	fflush(stdout);
	const int null = open("/dev/null", O_RDWR);
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		dup2(null, fd);
	alarm(120);
	for (;;)
		pause();
}
