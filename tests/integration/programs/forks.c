/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forks again and again until its input ends; each child takes the loader's lock. Prints "ready",
 * and at the end "ok" and the number of children, or how the first one that failed has ended.
 */
#include <link.h>
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_SECONDS = 30 };

static int pass_over(struct dl_phdr_info *info, size_t size, void *ignored)
{
	(void)info;
	(void)size;
	(void)ignored;
	return 0;
}

/* Returns the child's status; one that has to wait for the lock would wait for ever. */
static int fork_once(void)
{
	int status = 0;
	const pid_t child = fork();

	if (child == 0) {
		alarm(CHILD_SECONDS);
		dl_iterate_phdr(pass_over, NULL);
		_exit(0);
	}
	return child < 0 || waitpid(child, &status, 0) != child ? -1 : status;
}

int main(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
	long children = 0;
	int status = 0;

	puts("ready");
	fflush(stdout);
	while (status == 0 && poll(&input, 1, 0) == 0) {
		status = fork_once();
		children++;
	}
	printf("%s %ld\n", status == 0 ? "ok" : "has failed: child", children);
	return status != 0;
}
