/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that waits in one system call and says what came of it: waits KIND SECONDS. It prints a
 * line before, and then the call's result, errno and how many seconds it took. The kinds of a short
 * sleep repeat it. In the last kind other threads read the signal that wakes the agent, if it is
 * sent to the process, and mostly before the main thread.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const struct timespec short_time = { .tv_nsec = 900 * 1000 * 1000 };

static int usleep_shortly(void)
{
	return usleep(900 * 1000);
}

static int nanosleep_shortly(void)
{
	return nanosleep(&short_time, NULL);
}

static long repeat(int (*sleeps)(void), int count)
{
	for (int i = 0; i < count; i++) {
		const int result = sleeps();
		if (result != 0)
			return result;
	}
	return 0;
}

/* As Rust's library makes it for each thread; below it, memory that is not there. */
static long sleep_with_small_stack(int seconds)
{
	enum { STACK_BYTES = 8192 };
	char *const memory = mmap(
		NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const stack_t stack = { .ss_sp = memory + STACK_BYTES, .ss_size = STACK_BYTES };

	if (memory == MAP_FAILED || mprotect(memory, STACK_BYTES, PROT_NONE) != 0 ||
		sigaltstack(&stack, NULL) != 0)
		return -4;
	return sleep((unsigned)seconds);
}

static void *read_wake_signal(void *argument)
{
	struct signalfd_siginfo info;
	const int fd = *(const int *)argument;

	while (read(fd, &info, sizeof info) == sizeof info)
		continue;
	return NULL;
}

/* On the main thread's processor, where the kernel has them run first. */
static bool start_signal_readers(void)
{
	enum { READERS = 8 };
	static int fd;
	sigset_t wake, before;
	cpu_set_t here;
	pthread_t thread;
	bool started = true;

	sigemptyset(&wake);
	sigaddset(&wake, SIGRTMAX - 3);
	CPU_ZERO(&here);
	CPU_SET((size_t)sched_getcpu(), &here);
	fd = signalfd(-1, &wake, SFD_CLOEXEC);
	if (fd < 0 || sched_setaffinity(0, sizeof here, &here) != 0)
		return false;
	pthread_sigmask(SIG_BLOCK, &wake, &before);
	for (int i = 0; i < READERS && started; i++)
		started = pthread_create(&thread, NULL, read_wake_signal, &fd) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return started;
}

static long wait_in(const char *kind, int seconds)
{
	const struct timespec whole = { .tv_sec = seconds };
	const struct timeval limit = { .tv_sec = seconds };
	struct timespec until, rest;
	struct epoll_event event;
	int pair[2];
	char byte;

	if (strcmp(kind, "sleep") == 0)
		return sleep((unsigned)seconds);
	if (strcmp(kind, "small-alternate-stack") == 0)
		return sleep_with_small_stack(seconds);
	if (strcmp(kind, "usleep") == 0)
		return repeat(usleep_shortly, seconds);
	if (strcmp(kind, "nanosleep-rest") == 0)
		return nanosleep(&whole, &rest);
	if (strcmp(kind, "nanosleep-short") == 0)
		return repeat(nanosleep_shortly, seconds);
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += seconds;
	if (strcmp(kind, "clock_nanosleep") == 0)
		return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	if (strcmp(kind, "poll") == 0)
		return poll(NULL, 0, seconds * 1000);
	if (strcmp(kind, "ppoll") == 0)
		return ppoll(NULL, 0, &whole, NULL);
	if (strcmp(kind, "select") == 0) {
		struct timeval time = limit;
		return select(0, NULL, NULL, NULL, &time);
	}
	if (strcmp(kind, "pselect") == 0)
		return pselect(0, NULL, NULL, NULL, &whole, NULL);
	if (strcmp(kind, "epoll_wait") == 0)
		return epoll_wait(epoll_create1(0), &event, 1, seconds * 1000);
	if (strcmp(kind, "epoll_wait-signal-readers") == 0)
		return start_signal_readers()
			       ? epoll_wait(epoll_create1(0), &event, 1, seconds * 1000)
			       : -5;
	if (strcmp(kind, "sem_timedwait") == 0) {
		sem_t none;
		sem_init(&none, 0, 0);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_sec += seconds;
		return sem_timedwait(&none, &until);
	}
	if (strcmp(kind, "pause") == 0 || strcmp(kind, "sigsuspend") == 0) {
		sigset_t set;
		sigemptyset(&set);
		/* A signal that comes before the call on a busy machine is followed by another. */
		const struct itimerval alarms = { .it_value = limit, .it_interval = limit };
		setitimer(ITIMER_REAL, &alarms, NULL);
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

	if (argc != 3)
		return 2;
	signal(SIGALRM, ignore);
	puts("waits");
	fflush(stdout);
	clock_gettime(CLOCK_MONOTONIC, &begin);
	errno = 0;
	const long result = wait_in(argv[1], atoi(argv[2]));
	const int errnum = errno;
	clock_gettime(CLOCK_MONOTONIC, &end);
	const double seconds =
		(double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) / 1e9;
	printf("%ld %d %.3f\n", result, errnum, seconds);
	return 0;
}
