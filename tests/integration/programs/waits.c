/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that waits in one system call and says what came of it: waits KIND. It prints a line
 * before, and then the call's result, errno and how long it took, in tenths of a second.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { SECONDS = 3 };

/* As Rust's library makes it for each thread; below it, memory that is not there. */
static long sleep_with_small_stack(void)
{
	enum { STACK_BYTES = 8192 };
	char *const memory = mmap(
		NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const stack_t stack = { .ss_sp = memory + STACK_BYTES, .ss_size = STACK_BYTES };

	if (memory == MAP_FAILED || mprotect(memory, STACK_BYTES, PROT_NONE) != 0 ||
		sigaltstack(&stack, NULL) != 0)
		return -4;
	return sleep(SECONDS);
}

static long wait_in(const char *kind)
{
	const struct timespec whole = { .tv_sec = SECONDS },
			      part = { .tv_nsec = 900 * 1000 * 1000 };
	const struct timeval limit = { .tv_sec = SECONDS };
	struct timespec until, rest;
	struct epoll_event event;
	int pair[2];
	char byte;

	if (strcmp(kind, "sleep") == 0)
		return sleep(SECONDS);
	if (strcmp(kind, "small-alternate-stack") == 0)
		return sleep_with_small_stack();
	if (strcmp(kind, "usleep") == 0)
		return usleep(900 * 1000);
	if (strcmp(kind, "nanosleep-rest") == 0)
		return nanosleep(&whole, &rest);
	if (strcmp(kind, "nanosleep-short") == 0)
		return nanosleep(&part, NULL);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += SECONDS;
	if (strcmp(kind, "clock_nanosleep") == 0)
		return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	if (strcmp(kind, "poll") == 0)
		return poll(NULL, 0, SECONDS * 1000);
	if (strcmp(kind, "ppoll") == 0)
		return ppoll(NULL, 0, &whole, NULL);
	if (strcmp(kind, "select") == 0) {
		struct timeval time = limit;
		return select(0, NULL, NULL, NULL, &time);
	}
	if (strcmp(kind, "pselect") == 0)
		return pselect(0, NULL, NULL, NULL, &whole, NULL);
	if (strcmp(kind, "epoll_wait") == 0)
		return epoll_wait(epoll_create1(0), &event, 1, SECONDS * 1000);
	if (strcmp(kind, "sem_timedwait") == 0) {
		sem_t none;
		sem_init(&none, 0, 0);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += SECONDS;
		return sem_timedwait(&none, &until);
	}
	if (strcmp(kind, "pause") == 0 || strcmp(kind, "sigsuspend") == 0) {
		sigset_t set;
		sigemptyset(&set);
		alarm(SECONDS);
		return strcmp(kind, "pause") == 0 ? pause() : sigsuspend(&set);
	}
	if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
		return -2;
	setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
	if (strcmp(kind, "recv") == 0)
		return recv(pair[0], &byte, 1, 0);
	if (strcmp(kind, "read") == 0)
		return read(pair[0], &byte, 1);
	return -3;
}

static void ignore(int number)
{
	(void)number;
}

int main(int argc, char **argv)
{
	struct timespec begin, end;

	if (argc != 2)
		return 2;
	signal(SIGALRM, ignore);
	puts("waits");
	fflush(stdout);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	errno = 0;
	const long result = wait_in(argv[1]);
	const int errnum = errno;
	clock_gettime(CLOCK_MONOTONIC, &end);
	const double seconds =
		(double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	printf("%ld %d %.3f\n", result, errnum, seconds);
	return 0;
}
