/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program in a seccomp sandbox that forks:
 *
 *	forks_in_sandbox kill     enters a filter that kills for every call but those that it needs
 *	                          itself; its children end by _exit, by exit, and one stays
 *	forks_in_sandbox allocate [thread|coroutine]
 *	                          enters a filter that kills for every call but those of malloc; its
 *	                          main thread, another one, or the main thread on a stack of
 *	                          the program's own making, and their children allocate
 *	forks_in_sandbox end      enters that filter and returns from main
 *	forks_in_sandbox COMMAND  enters a filter that allows all calls and becomes the command
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "seccomp_filter.h"
#include "wait_to_begin.h"

static int enter_killing(void)
{
	struct sock_filter code[] = {
		FILTER_LOAD_NUMBER,
		FILTER_ALLOW(clone),
		FILTER_ALLOW(set_robust_list),
		FILTER_ALLOW(wait4),
		FILTER_ALLOW(write),
		FILTER_ALLOW(pause),
		FILTER_ALLOW(exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};

	return filter_enter(code, sizeof code / sizeof *code);
}

static int enter_allocating(void)
{
	struct sock_filter code[] = {
		FILTER_LOAD_NUMBER,
		FILTER_ALLOW(clone),
		FILTER_ALLOW(set_robust_list),
		FILTER_ALLOW(wait4),
		FILTER_ALLOW(write),
		FILTER_ALLOW(exit),
		FILTER_ALLOW(exit_group),
		FILTER_ALLOW(futex),
		FILTER_ALLOW(brk),
		FILTER_ALLOW(mmap),
		FILTER_ALLOW(munmap),
		FILTER_ALLOW(mremap),
		FILTER_ALLOW(mprotect),
		FILTER_ALLOW(madvise),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};

	return filter_enter(code, sizeof code / sizeof *code);
}

static int enter_permissive(void)
{
	struct sock_filter code[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };

	return filter_enter(code, sizeof code / sizeof *code);
}

static int end_of(pid_t pid)
{
	int status = -1;

	if (pid < 0)
		return -errno;
	waitpid(pid, &status, 0);
	return status;
}

static void say(const char *what, int number)
{
	char line[64];
	const int size = snprintf(line, sizeof line, "%s %d\n", what, number);

	if (write(STDOUT_FILENO, line, (size_t)size) != size)
		_exit(1);
}

static void allocate(void)
{
	enum { BLOCKS = 2000 };
	static __thread void *blocks[BLOCKS];

	for (int round = 0; round < 2; round++) {
		for (size_t i = 0; i < BLOCKS; i++)
			blocks[i] = malloc(i * 37 % 20000);
		for (size_t i = 0; i < BLOCKS; i++) {
			blocks[i] = realloc(blocks[i], i * 53 % 30000 + 1);
			memset(blocks[i], 1, 1);
		}
		for (size_t i = 0; i < BLOCKS; i++)
			free(blocks[i]);
	}
}

static void allocate_in_child(const char *where)
{
	const pid_t pid = fork();

	if (pid == 0) {
		allocate();
		_exit(0);
	}
	say(where, end_of(pid));
}

/* What malloc calls the first time in a thread is not forbidden. */
static void *allocate_in_sandbox(void *ignored)
{
	allocate();
	if (enter_allocating() != 0)
		_exit(1);
	allocate();
	allocate_in_child("child");
	say("end", 0);
	_exit(0);
	return ignored;
}

static int allocate_in_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, allocate_in_sandbox, NULL) == 0)
		pthread_join(thread, NULL);
	return 1;
}

static void allocate_in_coroutine(void)
{
	allocate_in_sandbox(NULL);
}

static int start_coroutine(void)
{
	enum { STACK_BYTES = 256 * 1024 };
	static ucontext_t context, before;

	getcontext(&context);
	context.uc_stack.ss_sp = malloc(STACK_BYTES);
	context.uc_stack.ss_size = STACK_BYTES;
	makecontext(&context, allocate_in_coroutine, 0);
	return swapcontext(&before, &context);
}

int main(int argc, char **argv)
{
	if (argc < 2)
		return 2;
	wait_to_begin();
	if (argc > 2 && strcmp(argv[2], "coroutine") == 0)
		return start_coroutine();
	if (strcmp(argv[1], "allocate") == 0)
		return argc > 2 ? allocate_in_thread() : allocate_in_sandbox(NULL) != NULL;
	if (strcmp(argv[1], "end") == 0)
		return enter_killing() == 0 ? 9 : 1;
	if (strcmp(argv[1], "kill") != 0) {
		if (enter_permissive() != 0)
			return 1;
		execvp(argv[1], argv + 1);
		return 127;
	}
	if (enter_killing() != 0)
		return 1;
	for (int i = 0; i < 5; i++) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(0);
		say("_exit", end_of(pid));
		pid = fork();
		if (pid == 0)
			exit(0);
		say("exit", end_of(pid));
	}
	const pid_t pid = fork();
	for (;;) {
		if (pid > 0)
			say("stays", pid);
		pause();
	}
}
