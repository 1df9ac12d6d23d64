/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/thread.h"

#include <link.h>
#include <pthread.h>
#include <signal.h>

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

/*
 * The program's signals are not for the agent. pthread_sigmask leaves out those that the C library
 * needs itself (setuid() would hang without them); faults of our own must stay what they are.
 */
static void agent_signals(sigset_t *blocked)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };

	sigfillset(blocked);
	for (size_t i = 0; i < sizeof own / sizeof own[0]; i++)
		sigdelset(blocked, own[i]);
}

int thread_start(pthread_t *thread, void *(*function)(void *), void *argument, size_t stack_bytes)
{
	pthread_attr_t attributes;
	sigset_t blocked, before;

	pthread_attr_init(&attributes);
	if (stack_bytes > 0)
		pthread_attr_setstacksize(&attributes, stack_bytes);
	agent_signals(&blocked);
	pthread_sigmask(SIG_SETMASK, &blocked, &before);
	const int errnum = pthread_create(thread, &attributes, function, argument);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return errnum;
}
