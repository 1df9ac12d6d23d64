/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program whose threads stand in places that are rare: on a stack of makecontext(), or where they
 * cannot be stopped.
 *
 * usage: attached_places waiting|computing|handling|blocked|stacked|cancelled
 *
 * Its only thread waits, or computes, on a stack of makecontext(). "blocked": the main thread waits
 * for a child of vfork(), and another one for the end of the input. "handling" computes, and takes
 * its time for each SIGUSR1. "stacked": the next thread's stack lies just below those of others.
 * "cancelled": the main thread waits for SIGUSR1 and cancels another one, which waits.
 *
 * Prints "ready", then what went wrong, or "ok 1" at the end of its input.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { STACK_BYTES = 256 * 1024, WAIT_MS = 20, INPUT_LOOK_MS = 0, HANDLING_MS = 1500 };

static ucontext_t outer, inner;
static const char *mode;
static int instance; /* of epoll */

static void fault(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

static void end(void)
{
	puts("ok 1");
	fflush(stdout);
	_exit(0);
}

static void compute(void)
{
	static uint64_t expected;
	uint64_t number = 1;

	for (int i = 0; i < 20000000; i++)
		number = number * 6364136223846793005u + 1442695040888963407u;
	if (expected == 0)
		expected = number;
	if (number != expected)
		fault("a register has changed");
}

static void run_inner(void)
{
	struct epoll_event event;

	for (;;) {
		struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };
		if (strcmp(mode, "waiting") != 0)
			compute();
		else if (epoll_wait(instance, &event, 1, WAIT_MS) != 0)
			fault("epoll_wait");
		if (poll(&input, 1, INPUT_LOOK_MS) > 0)
			end();
		if (swapcontext(&inner, &outer) != 0)
			fault("swapcontext");
	}
}

static void handle(int number)
{
	struct timespec left = { .tv_sec = HANDLING_MS / 1000,
		.tv_nsec = HANDLING_MS % 1000 * 1000000L };

	(void)number;
	/* NOLINTNEXTLINE(bugprone-signal-handler): signal-safety(7) has it */
	while (nanosleep(&left, &left) != 0)
		continue;
}

static void run_outer(void)
{
	signal(SIGUSR1, handle);
	if (getcontext(&inner) != 0)
		fault("getcontext");
	inner.uc_stack.ss_sp = malloc(STACK_BYTES);
	inner.uc_stack.ss_size = STACK_BYTES;
	inner.uc_link = &outer;
	makecontext(&inner, run_inner, 0);
	instance = epoll_create1(0);
	puts("ready");
	fflush(stdout);
	for (;;) {
		if (swapcontext(&outer, &inner) != 0)
			fault("swapcontext");
	}
}

static volatile pid_t child;

static void *wait_for_input(void *ignored)
{
	char byte;

	(void)ignored;
	while (child == 0)
		usleep(1000);
	puts("ready");
	fflush(stdout);
	if (read(STDIN_FILENO, &byte, 1) < 0)
		fault("read");
	kill(child, SIGKILL);
	end();
	return NULL;
}

static void *wait_for_ever(void *ignored)
{
	while (pause() != 0)
		continue;
	return ignored;
}

static void *return_at_once(void *ignored)
{
	return ignored;
}

/* The C library gives the stack of a thread that has ended to the next one. */
static void run_stacked(void)
{
	enum { THREADS = 8 };
	pthread_t thread;
	char byte;

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread, NULL, wait_for_ever, NULL);
	pthread_create(&thread, NULL, return_at_once, NULL);
	pthread_join(thread, NULL);
	puts("ready");
	fflush(stdout);
	if (read(STDIN_FILENO, &byte, 1) < 0)
		fault("read");
	end();
}

static int cleanups;

static void clean_up(void *ignored)
{
	(void)ignored;
	cleanups++;
}

static void *wait_to_be_cancelled(void *ignored)
{
	pthread_cleanup_push(clean_up, NULL);
	wait_for_ever(ignored);
	pthread_cleanup_pop(0);
	return NULL;
}

static void run_cancelled(void)
{
	pthread_t thread;
	void *result = NULL;
	sigset_t signals;
	int number = 0;
	char byte;

	sigemptyset(&signals);
	sigaddset(&signals, SIGUSR1);
	if (pthread_sigmask(SIG_BLOCK, &signals, NULL) != 0 ||
		pthread_create(&thread, NULL, wait_to_be_cancelled, NULL) != 0)
		fault("pthread_create");
	puts("ready");
	fflush(stdout);
	if (sigwait(&signals, &number) != 0 || pthread_cancel(thread) != 0 ||
		pthread_join(thread, &result) != 0 || result != PTHREAD_CANCELED || cleanups != 1)
		fault("the thread was not cancelled");
	if (read(STDIN_FILENO, &byte, 1) < 0)
		fault("read");
	end();
}

int main(int argc, char **argv)
{
	pthread_t thread;

	mode = argc > 1 ? argv[1] : "waiting";
	if (strcmp(mode, "stacked") == 0)
		run_stacked();
	if (strcmp(mode, "cancelled") == 0)
		run_cancelled();
	if (strcmp(mode, "blocked") != 0)
		run_outer();
	pthread_create(&thread, NULL, wait_for_input, NULL);
	if (vfork() == 0) {
		child = getpid();
		for (;;)
			pause();
	}
	pthread_exit(NULL);
}
