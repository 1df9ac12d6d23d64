/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/thread.h"

#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <time.h>

enum {
	STACK_BYTES = 128 * 1024,
	SANITIZER_STACK_BYTES = 1024 * 1024,
};

static int add_thread_storage(struct dl_phdr_info *object, size_t size, void *total)
{
	(void)size;
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		if (object->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)total +=
				object->dlpi_phdr[i].p_memsz + object->dlpi_phdr[i].p_align;
	}
	return 0;
}

size_t thread_stack_bytes(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	size_t total = SANITIZER_STACK_BYTES;
#else
	size_t total = STACK_BYTES;
#endif
	dl_iterate_phdr(add_thread_storage, &total);
	return (total + 4095) & ~(size_t)4095;
}

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };

/*
 * A blocked fault ends the process by its default action, so blocking one that the program does not
 * handle changes nothing but this: sent from outside, it waits for a thread that takes it. SIGSYS
 * stays open without a handler, too: a filter on system calls may come at any time, together with
 * the handler that stands in for them.
 */
static bool is_for_agent(int fault)
{
	struct sigaction action;

	if (fault == SIGSYS)
		return true;
	return sigaction(fault, NULL, &action) == 0 && action.sa_handler != SIG_DFL &&
	       action.sa_handler != SIG_IGN;
}

/*
 * The program's signals are not for the agent. pthread_sigmask leaves out those that the C library
 * needs itself (setuid() would hang without them), and abort() opens SIGABRT itself.
 */
static void agent_signals(const sigset_t *program_blocks, sigset_t *blocked)
{
	sigfillset(blocked);
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
		if (sigismember(program_blocks, faults[i]) == 0 && is_for_agent(faults[i]))
			sigdelset(blocked, faults[i]);
	}
}

void thread_follow_signals(uint64_t main_blocked)
{
	sigset_t program_blocks, blocked;

	sigemptyset(&program_blocks);
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
		if ((main_blocked >> (faults[i] - 1) & 1) != 0)
			sigaddset(&program_blocks, faults[i]);
	}
	agent_signals(&program_blocks, &blocked);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
}

void thread_leave_real_time(void)
{
	const struct sched_param none = { 0 };
	const int policy = sched_getscheduler(0) & ~SCHED_RESET_ON_FORK;

	if (policy == SCHED_FIFO || policy == SCHED_RR)
		sched_setscheduler(0, SCHED_OTHER, &none);
}

int thread_start(pthread_t *thread, void *(*function)(void *), void *argument, size_t stack_bytes)
{
	pthread_attr_t attributes;
	sigset_t blocked, before;

	pthread_attr_init(&attributes);
	if (stack_bytes > 0)
		pthread_attr_setstacksize(&attributes, stack_bytes);
	pthread_sigmask(SIG_SETMASK, NULL, &before);
	agent_signals(&before, &blocked);
	pthread_sigmask(SIG_SETMASK, &blocked, NULL);
	const int errnum = pthread_create(thread, &attributes, function, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return errnum;
}

static const int held_numbers[] = { SIGPIPE, SIGXFSZ };

void held_signals_begin(struct held_signals *held)
{
	sigset_t ours;

	sigemptyset(&ours);
	for (size_t i = 0; i < sizeof held_numbers / sizeof held_numbers[0]; i++)
		sigaddset(&ours, held_numbers[i]);
	pthread_sigmask(SIG_BLOCK, &ours, &held->before);
}

void held_signals_end(const struct held_signals *held)
{
	const struct timespec at_once = { 0 };
	sigset_t pending, ours;

	sigpending(&pending);
	sigemptyset(&ours);
	for (size_t i = 0; i < sizeof held_numbers / sizeof held_numbers[0]; i++) {
		/* One that was blocked before is the program's matter. */
		if (sigismember(&pending, held_numbers[i]) &&
			!sigismember(&held->before, held_numbers[i]))
			sigaddset(&ours, held_numbers[i]);
	}
	while (sigtimedwait(&ours, NULL, &at_once) > 0)
		continue;
	pthread_sigmask(SIG_SETMASK, &held->before, NULL);
}
