/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says how many page faults a child costs, which does not depend on what else the machine does:
 *
 *	fork_faults none|thread exit             a child that ends at once
 *	fork_faults none|thread PROGRAM          a child that executes the program
 *
 * Where the kernel put files and libraries decides about some of them: the least of many is said.
 * With "thread" the program has a second one, which sleeps, as with an agent.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 60 };

static void *sleep_on(void *ignored)
{
	pause();
	return ignored;
}

static long faults_of_child(char *program)
{
	char *const arguments[] = { program, NULL };
	struct rusage usage;
	int status = -1;
	const pid_t pid = fork();

	if (pid == 0) {
		if (strcmp(program, "exit") != 0)
			execv(program, arguments);
		_exit(strcmp(program, "exit") != 0);
	}
	return wait4(pid, &status, 0, &usage) == pid && status == 0 ? usage.ru_minflt : -1;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	long least = -1;

	if (argc != 3)
		return 2;
	if (strcmp(argv[1], "thread") == 0)
		pthread_create(&thread, NULL, sleep_on, NULL);
	for (int i = 0; i < CHILDREN; i++) {
		const long faults = faults_of_child(argv[2]);
		if (faults < 0)
			return 1;
		least = least < 0 || faults < least ? faults : least;
	}
	printf("%ld\n", least);
	return 0;
}
