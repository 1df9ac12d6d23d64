/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that are hard on a sampler within malloc, by name. Each says what it did, the same in
 * every run.
 *
 *	sampled_cases NAME
 */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "seccomp_filter.h"
#include "wait_to_begin.h"

enum { DEPTH_MAX = 40 };

static void say(const char *what, long number)
{
	char line[80];
	const int size = snprintf(line, sizeof line, "%s %ld\n", what, number);

	if (write(STDOUT_FILENO, line, (size_t)size) != size)
		_exit(1);
}

/* A block from a stack of `depth` frames, so that each depth is a site of its own. */
__attribute__((noinline)) static void *allocate_deep(unsigned depth, size_t size)
{
	void *volatile block = depth == 0 ? malloc(size) : allocate_deep(depth - 1, size);

	return block;
}

/* Blocks from many sites; returns how many there were. */
static long use_heap(unsigned rounds)
{
	enum { BLOCKS = 64 };
	void *blocks[BLOCKS] = { 0 };
	long count = 0;

	for (unsigned i = 0; i < rounds; i++) {
		void **const slot = &blocks[i * 7 % BLOCKS];
		free(*slot);
		*slot = allocate_deep(i % DEPTH_MAX, 16 + i * 13 % 3000);
		if (*slot == NULL)
			continue;
		memset(*slot, (int)i, 16);
		count++;
		if (i % 5 == 0) {
			void *const moved = realloc(*slot, 40 + i % 5000);
			*slot = moved == NULL ? *slot : moved;
		}
	}
	for (int i = 0; i < BLOCKS; i++)
		free(blocks[i]);
	return count;
}

static int end_of(pid_t pid)
{
	int status = -1;

	if (pid < 0)
		return -errno;
	waitpid(pid, &status, 0);
	return status;
}

/* --- Sandboxes --- */

/* What malloc itself needs, and write and exit; all else ends in `action`. */
static int enter_sandbox(uint32_t action)
{
	struct sock_filter code[] = {
		FILTER_LOAD_NUMBER,
		FILTER_ALLOW(brk),
		FILTER_ALLOW(mmap),
		FILTER_ALLOW(munmap),
		FILTER_ALLOW(mremap),
		FILTER_ALLOW(madvise),
		FILTER_ALLOW(mprotect),
		FILTER_ALLOW(futex),
		FILTER_ALLOW(write),
		FILTER_ALLOW(exit),
		FILTER_ALLOW(exit_group),
		BPF_STMT(BPF_RET | BPF_K, action),
	};

	return filter_enter(code, sizeof code / sizeof *code);
}

/* In a child, as a server makes one for work on foreign bytes. */
static int run_sandbox(uint32_t action)
{
	use_heap(100);
	const pid_t pid = fork();
	if (pid == 0) {
		if (enter_sandbox(action) != 0)
			_exit(99);
		say("used", use_heap(20000));
		_exit(5);
	}
	return end_of(pid);
}

static int seccomp_kill(void)
{
	return run_sandbox(SECCOMP_RET_KILL_PROCESS);
}

static int seccomp_errno(void)
{
	return run_sandbox(SECCOMP_RET_ERRNO | EPERM);
}

/* --- Children --- */

/* As shells do it, and posix_spawn(): the child allocates in the parent's memory. */
static int end_of_vforked(void)
{
	static char *words[] = { (char *)"true", NULL };
	const pid_t pid = vfork();

	if (pid == 0) {
		void *volatile block = malloc(5000);
		free(block);
		execv("/bin/true", words);
		_exit(127);
	}
	return end_of(pid);
}

static int vfork_and_exec(void)
{
	long good = 0;

	for (int i = 0; i < 50; i++) {
		use_heap(100);
		good += end_of_vforked() == 0;
	}
	say("executed", good);
	return 0;
}

static _Atomic bool is_done;

static void *make_noise(void *argument)
{
	while (!atomic_load(&is_done))
		use_heap(200);
	return argument;
}

static long count_good_children(pid_t (*make)(void), int rounds)
{
	long good = 0;

	for (int i = 0; i < rounds; i++) {
		const pid_t pid = make();
		if (pid == 0) {
			_exit(5);
		}
		good += end_of(pid) == 5 << 8;
	}
	return good;
}

/* Its malloc may wait for a lock that another thread had, so it does not allocate. */
static pid_t fork_by_system_call(void)
{
	return (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
}

static pid_t fork_and_use_heap(void)
{
	const pid_t pid = fork();

	if (pid == 0)
		use_heap(500);
	return pid;
}

static int fork_storm(void)
{
	enum { THREADS = 4, ROUNDS = 30 };
	pthread_t threads[THREADS] = { 0 };

	for (int i = 0; i < THREADS; i++)
		pthread_create(&threads[i], NULL, make_noise, NULL);
	say("forked", count_good_children(fork_and_use_heap, ROUNDS));
	say("cloned", count_good_children(fork_by_system_call, ROUNDS));
	atomic_store(&is_done, true);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}

static int child_of_clone(void *argument)
{
	(void)argument;
	return use_heap(300) == 300 ? 5 : 6;
}

/* Children by clone() without fork's handlers, from a process with one thread, and such that share
 * its memory. */
static int clone_storm(void)
{
	enum { STACK = 256 * 1024, ROUNDS = 60 };
	char *const stack =
		mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	long good = 0;

	for (int i = 0; i < ROUNDS; i++) {
		const int flags = i % 2 == 0 ? SIGCHLD : SIGCHLD | CLONE_VM | CLONE_VFORK;
		good += end_of(clone(child_of_clone, stack + STACK, flags, NULL)) == 5 << 8;
		use_heap(20);
	}
	say("cloned", good);
	return 0;
}

/* --- Threads --- */

static pthread_key_t key;

static void free_at_end(void *block)
{
	free(block);
	use_heap(50);
}

static void *leave_block(void *argument)
{
	pthread_setspecific(key, calloc(1, 1000));
	use_heap(50);
	return argument;
}

static int thread_storm(void)
{
	enum { ROUNDS = 150, TOGETHER = 8 };

	pthread_key_create(&key, free_at_end);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_t threads[TOGETHER];
		for (int k = 0; k < TOGETHER; k++)
			pthread_create(&threads[k], NULL, leave_block, NULL);
		for (int k = 0; k < TOGETHER; k++)
			pthread_join(threads[k], NULL);
	}
	say("threads", ROUNDS * TOGETHER);
	return 0;
}

static void *end_in_the_middle(void *argument)
{
	pthread_setcanceltype(PTHREAD_CANCEL_DEFERRED, NULL);
	for (;;) {
		use_heap(20);
		pthread_testcancel();
	}
	return argument;
}

static int cancelled_threads(void)
{
	for (int i = 0; i < 200; i++) {
		pthread_t thread;
		pthread_create(&thread, NULL, end_in_the_middle, NULL);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	say("cancelled", 200);
	return 0;
}

/* --- Stacks --- */

#ifdef __GLIBC__
static ucontext_t main_context, coroutine;

static void run_coroutine(void)
{
	for (;;) {
		use_heap(10);
		swapcontext(&coroutine, &main_context);
	}
}

/* Small stacks, one after the other, which are unmapped behind a page that is not there. */
static int coroutines(void)
{
	enum { STACK = 16 * 1024 };

	for (int i = 0; i < 300; i++) {
		char *const stack = mmap(
			NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		getcontext(&coroutine);
		coroutine.uc_stack = (stack_t){ .ss_sp = stack, .ss_size = STACK };
		makecontext(&coroutine, run_coroutine, 0);
		for (int k = 0; k < 3; k++)
			swapcontext(&main_context, &coroutine);
		munmap(stack, STACK);
	}
	say("coroutines", 300);
	return 0;
}
#endif

static volatile sig_atomic_t handled;

static void use_heap_in_handler(int number)
{
	(void)number;
	handled += (int)use_heap(5);
}

/* Signals that the program sends to itself: its malloc is not interrupted by them. */
static int alternate_stack(void)
{
	static char memory[16 * 1024];
	const stack_t stack = { .ss_sp = memory, .ss_size = sizeof memory };
	const struct sigaction action = { .sa_handler = use_heap_in_handler,
		.sa_flags = SA_ONSTACK | SA_NODEFER };

	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	for (int i = 0; i < 500; i++)
		raise(SIGUSR1);
	say("handled", handled);
	return 0;
}

/* At any time, also within malloc: for an allocator that allows that. */
static int interrupted(void)
{
	const struct sigaction action = { .sa_handler = use_heap_in_handler,
		.sa_flags = SA_RESTART };
	const struct itimerval often = { .it_interval.tv_usec = 200, .it_value.tv_usec = 200 };
	const struct itimerval never = { .it_value.tv_usec = 0 };

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	for (int i = 0; i < 400; i++)
		use_heap(1000);
	setitimer(ITIMER_REAL, &never, NULL);
	say("handled at least 50", handled >= 50);
	return 0;
}

/* --- Memory --- */

/* All that the limit allows, three times: what is freed can be had again. */
static int address_space(void)
{
	enum { BLOCKS = 4000, BLOCK = 100000 };
	static void *blocks[BLOCKS];
	struct rlimit limit;

	FILE *const statm = fopen("/proc/self/statm", "r");
	unsigned long pages = 0;
	if (statm == NULL || fscanf(statm, "%lu", &pages) != 1)
		return 1;
	fclose(statm);
	limit.rlim_cur = limit.rlim_max = pages * 4096 + 64 * 1024 * 1024;
	if (setrlimit(RLIMIT_AS, &limit) != 0)
		return 1;
	for (int round = 0; round < 3; round++) {
		int count = 0;
		while (count < BLOCKS &&
			(blocks[count] = allocate_deep((unsigned)count % DEPTH_MAX, BLOCK)) != NULL)
			count++;
		say("refused at last", count < BLOCKS && errno == ENOMEM);
		/* A little may be the sampler's. */
		say("got at least 50 MB", (long)count * BLOCK > 50 * 1000 * 1000);
		say("realloc fails", realloc(blocks[0], (size_t)1 << 40) == NULL);
		while (count > 0)
			free(blocks[--count]);
	}
	return 0;
}

/* Results of the functions in corner cases, on which programs rely. */
static int edges(void)
{
	/* Otherwise the compiler optimizes these calls away. */
	volatile size_t half = SIZE_MAX / 2;
	void *volatile block = NULL;
	void *aligned = NULL;

	errno = 0;
	say("malloc", malloc(half) == NULL);
	say("errno", errno);
	errno = 0;
	say("calloc", calloc(half, 4) == NULL);
	say("errno", errno);
	errno = 0;
	say("reallocarray", reallocarray(NULL, half, 4) == NULL);
	say("errno", errno);
	errno = 77;
	free(malloc(10));
	free(NULL);
	say("errno stays", errno);
	errno = 0;
	say("posix_memalign", posix_memalign(&aligned, 3, 10));
	say("posix_memalign", posix_memalign(&aligned, 64, half));
	say("block", aligned == NULL);
	block = realloc(NULL, 100);
	memset(block, 1, 100);
	block = realloc(block, 50000);
	say("kept", ((char *)block)[99]);
	say("usable", malloc_usable_size(block) >= 50000);
	say("freed by realloc", realloc(block, 0) == NULL);
	block = calloc(10, 100);
	say("zero", memcmp(block, (char *)block + 1, 999) == 0 && *(char *)block == 0);
	free(block);
	block = aligned_alloc(4096, 8192);
	say("aligned", ((uintptr_t)block & 4095) == 0);
	free(block);
	return 0;
}

static const struct {
	const char *name;
	int (*run)(void);
} cases[] = {
	{ "seccomp-kill", seccomp_kill },
	{ "seccomp-errno", seccomp_errno },
	{ "vfork", vfork_and_exec },
	{ "fork-storm", fork_storm },
	{ "clone-storm", clone_storm },
	{ "thread-storm", thread_storm },
	{ "cancelled-threads", cancelled_threads },
#ifdef __GLIBC__
	{ "coroutines", coroutines },
#endif
	{ "alternate-stack", alternate_stack },
	{ "interrupted", interrupted },
	{ "address-space", address_space },
	{ "edges", edges },
};

int main(int argc, char **argv)
{
	wait_to_begin();
	for (size_t i = 0; argc > 1 && i < sizeof cases / sizeof *cases; i++) {
		if (strcmp(argv[1], cases[i].name) == 0)
			return cases[i].run();
	}
	return 2;
}
