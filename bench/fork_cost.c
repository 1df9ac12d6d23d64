/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes children and says what one costs: reads "exit N", "exec N PROGRAM" or "spawn N PROGRAM"
 * line by line and answers each with nanoseconds per child. With an argument it ends at once. With
 * FORK_COST_THREAD in its environment it has a second thread, which sleeps.
 */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static long long now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000LL + now.tv_nsec;
}

static pid_t make_child(const char *kind, char *program)
{
	char *const arguments[] = { program, (char *)"end", NULL };
	pid_t pid = -1;

	if (strcmp(kind, "spawn") == 0)
		return posix_spawn(&pid, program, NULL, NULL, arguments, environ) == 0 ? pid : -1;
	pid = fork();
	if (pid != 0)
		return pid;
	if (strcmp(kind, "exec") == 0)
		execv(program, arguments);
	_exit(strcmp(kind, "exit") == 0 ? 0 : 127);
}

static void *sleep_on(void *nothing)
{
	for (;;)
		pause();
	return nothing;
}

int main(int argc, char **argv)
{
	char kind[16], program[1024];
	pthread_t thread;
	int count;

	(void)argv;
	if (argc > 1)
		return 0;
	if (getenv("FORK_COST_THREAD") != NULL)
		pthread_create(&thread, NULL, sleep_on, NULL);
	while (scanf("%15s %d", kind, &count) == 2) {
		program[0] = '\0';
		if (strcmp(kind, "exit") != 0 && scanf("%1023s", program) != 1)
			return 1;
		const long long begin = now_ns();
		for (int i = 0; i < count; i++) {
			const pid_t pid = make_child(kind, program);
			int status = 0;
			if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
				return 1;
		}
		printf("%lld\n", (now_ns() - begin) / count);
		fflush(stdout);
	}
	return 0;
}
