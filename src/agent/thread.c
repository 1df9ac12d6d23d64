/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/thread.h"

#include <fcntl.h>
#include <link.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "agent/thread_names.h"
#include "base/cleanup.h"
#include "base/loaded_module.h"
#include "base/loader_use.h"
#include "base/sanitizer.h"
#include "base/wiped_memory.h"

enum {
	NOT_OURS = 0,	  /* what a cleared page says */
	PID_UNKNOWN = -1, /* an adopted child that has not read its number yet */
	NEW_CHILD = -2,
	ADOPTING = -3,
};

typedef _Atomic pid_t mark_t;

static mark_t kept_by_fork;
static mark_t *mark;

void process_mark_open(void)
{
	if (mark == NULL)
		mark = wiped_memory_take(sizeof *mark);
	if (mark == NULL)
		mark = &kept_by_fork;
}

void process_mark_set(void)
{
	atomic_store(mark, getpid());
}

FORK_HANDLER void process_mark_set_new_child(void)
{
	if (mark != NULL)
		atomic_store(mark, NEW_CHILD);
}

bool process_mark_is_new_child(void)
{
	return mark != NULL && atomic_load(mark) == NEW_CHILD;
}

bool process_mark_begin_child(void)
{
	pid_t state = NEW_CHILD;

	if (mark == NULL)
		return false;
	if (atomic_load(mark) == NEW_CHILD &&
		atomic_compare_exchange_strong(mark, &state, ADOPTING))
		return true;
	while (atomic_load(mark) == ADOPTING)
		sched_yield();
	return false;
}

void process_mark_end_child(void)
{
	atomic_store(mark, PID_UNKNOWN);
}

bool process_mark_is_ours(void)
{
	const pid_t pid = mark == NULL ? NOT_OURS : atomic_load(mark);

	if (pid == PID_UNKNOWN)
		atomic_store(mark, getpid());
	/* A child that shares all memory (CLONE_VM) sees the parent's mark. */
	return pid == PID_UNKNOWN || (pid > 0 && pid == getpid());
}

enum {
	STACK_BYTES = 128 * 1024,
	SANITIZER_STACK_BYTES = 1024 * 1024,
};

static int add_thread_storage(struct dl_phdr_info *object, size_t size, void *total)
{
	(void)size;
	if (!loaded_module_has_headers(object))
		return 0;
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		if (object->dlpi_phdr[i].p_type == PT_TLS)
			*(size_t *)total +=
				object->dlpi_phdr[i].p_memsz + object->dlpi_phdr[i].p_align;
	}
	return 0;
}

size_t thread_stack_bytes(void)
{
	size_t total = IS_SANITIZED ? SANITIZER_STACK_BYTES : STACK_BYTES;

	loader_iterate(add_thread_storage, &total);
	return (total + 4095) & ~(size_t)4095;
}

struct own_module {
	uintptr_t address; /* in it */
	size_t bytes;
};

static int measure_own(struct dl_phdr_info *object, size_t size, void *context)
{
	struct own_module *const own = context;
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	bool is_own = false;
	size_t bytes = 0;

	(void)size;
	if (!loaded_module_has_headers(object))
		return 0;
	for (unsigned i = 0; i < object->dlpi_phnum; i++) {
		const ElfW(Phdr) *const segment = &object->dlpi_phdr[i];
		const uintptr_t begin = object->dlpi_addr + segment->p_vaddr;
		if (segment->p_type != PT_LOAD)
			continue;
		is_own = is_own || own->address - begin < segment->p_memsz;
		bytes += ((begin + segment->p_memsz + page - 1) & ~(page - 1)) -
			 (begin & ~(page - 1));
	}
	if (is_own)
		own->bytes = bytes;
	return is_own;
}

size_t thread_own_module_bytes(void)
{
	struct own_module own = { .address = (uintptr_t)measure_own };

	loader_iterate(measure_own, &own);
	return own.bytes;
}

static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS };

/*
 * A blocked fault ends the process by its default action, so blocking one that the program does not
 * handle changes nothing but this: sent from outside, it waits for a thread that takes it. SIGSYS
 * stays open without a handler, too: a filter on system calls may come at any time, together with
 * the handler that replaces them.
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

static void *return_at_once(void *argument)
{
	return argument;
}

void thread_bind_start(size_t stack_bytes)
{
	enum { STACK_IS_NEW, STACK_WAS_KEPT, STACKS };
	pthread_t thread;

	for (int i = STACK_IS_NEW; i < STACKS; i++) {
		if (thread_start(&thread, return_at_once, NULL, stack_bytes) == 0)
			pthread_join(thread, NULL);
	}
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
	thread_names_set(THREAD_NAME_REPLACEMENT);
	do {
		poll(NULL, 0, COUNT_INTERVAL_MS);
		/* The main thread, this one and the agent's. */
		others = 2 + agent.count_threads();
	} while (count_threads() > others && !thread_names_are_agents(true));
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
	if (count_threads() <= 1 + agent.count_threads() || thread_names_are_agents(true) ||
		!replace_main())
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
	if (noted == 0 && syscall(SYS_gettid) == getpid())
		note();
}

FORK_HANDLER void main_thread_note_child(void)
{
	/* The child's main thread has what the thread that forked had. */
	if (own_thread() != noted)
		note();
}

/* The kernel puts these bytes above the main thread's stack; other stacks are far below. */
static bool is_on_main_stack(void)
{
	enum { STACK_MAX = 128 * 1024 * 1024 };
	const uintptr_t top = getauxval(AT_RANDOM);
	const uintptr_t here = (uintptr_t)__builtin_frame_address(0);

	return here < top && top - here < STACK_MAX;
}

void main_thread_note_by_stack(void)
{
	if (is_on_main_stack() && own_thread() != noted)
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
	/* A program that HEAPCTL_EXE leaves out may start one itself. */
	main_thread_note();
}

/*
 * The first process of a pid namespace ignores its own signals, but not the one of a filter, by
 * which its main thread has ended.
 */
static void kill_by_filter(void)
{
	struct sock_filter kill_all = BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL);
	const struct sock_fprog program = { .len = 1, .filter = &kill_all };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
		prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0)
		syscall(SYS_getpid);
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
		if (number == SIGSYS)
			kill_by_filter();
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
