/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/main_thread.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "agent/process_mark.h"
#include "agent/thread.h"
#include "base/cleanup.h"

enum { COUNT_INTERVAL_MS = 1000 };

static pthread_key_t key;
static bool has_key;
static uintptr_t noted; /* the thread that has a value for the key */
static struct main_thread_agent agent;
static sigset_t main_signals;
static _Atomic bool has_ended;
static _Atomic bool is_replaced;

/* All threads of the process; a main thread that has ended counts while other threads run. 0:
 * unknown. */
static unsigned long count_threads(void)
{
	static const char label[] = "\nThreads:\t";
	char text[4096];
	CLEANUP(fd_cleanup) const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	const ssize_t got = fd < 0 ? -1 : read(fd, text, sizeof text - 1);

	text[got < 0 ? 0 : got] = '\0';
	const char *const at = strstr(text, label);
	return at == NULL ? 0 : strtoul(at + sizeof label - 1, NULL, 10);
}

static void *run_replacement(void *ignored)
{
	unsigned long others = 0;

	(void)ignored;
	prctl(PR_SET_NAME, "heapctl-last");
	do {
		poll(NULL, 0, COUNT_INTERVAL_MS);
		/* The main thread, this one and the agent's. */
		others = 2 + agent.count_threads();
	} while (count_threads() > others);
	agent.end();
	/* A signal that waits for a thread to take it now has one, as it has without the agent. */
	pthread_sigmask(SIG_SETMASK, &main_signals, NULL);
	return NULL;
}

static bool replace_main(void)
{
	pthread_t thread;

	if (atomic_exchange(&is_replaced, true))
		return true;
	if (thread_start(&thread, run_replacement, NULL, 0) == 0)
		return true;
	atomic_store(&is_replaced, false);
	return false;
}

static void main_thread_ends(void *ignored)
{
	(void)ignored;
	/* Without an agent's thread nothing is called: the process may be in a sandbox. */
	atomic_store(&has_ended, true);
	if (agent.end == NULL || agent.count_threads() == 0)
		return;
	pthread_sigmask(SIG_BLOCK, NULL, &main_signals);
	if (count_threads() <= 1 + agent.count_threads() || !replace_main())
		agent.end();
}

/* Identifies the thread without a call. */
static uintptr_t own_thread(void)
{
#if defined(__x86_64__)
	uintptr_t self;

	__asm__("mov %%fs:0x10, %0" : "=r"(self));
	return self;
#else
	return (uintptr_t)pthread_self();
#endif
}

static void note(void)
{
	if (!has_key)
		has_key = pthread_key_create(&key, main_thread_ends) == 0;
	if (has_key && pthread_setspecific(key, &agent) == 0)
		noted = own_thread();
}

void main_thread_note(void)
{
	if (syscall(SYS_gettid) == getpid())
		note();
}

FORK_HANDLER void main_thread_note_child(void)
{
	/* The child's main thread has what the thread that forked had. */
	if (own_thread() != noted)
		note();
}

void main_thread_reset(void)
{
	atomic_store(&has_ended, false);
	atomic_store(&is_replaced, false);
}

bool main_thread_allow_agent(void)
{
	return !atomic_load(&has_ended) || replace_main();
}

void main_thread_watch(const struct main_thread_agent *watched)
{
	agent = *watched;
}

void main_thread_end_process(int status)
{
	const int number = WTERMSIG(status);
	sigset_t signals;

	if (number != 0) {
		signal(number, SIG_DFL);
		sigemptyset(&signals);
		sigaddset(&signals, number);
		pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
		raise(number);
	}
	for (;;)
		syscall(SYS_exit, WEXITSTATUS(status));
}

void main_thread_forget(void)
{
	if (has_key)
		pthread_key_delete(key);
	has_key = false;
	noted = 0;
}
