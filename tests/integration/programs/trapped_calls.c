/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that waits for its input in a signal handler, which has interrupted a system call that
 * its C library makes with a lock (Linux 5.11: syscall user dispatch).
 *
 * usage: trapped_calls joining|hidden|restoring
 *
 * "joining": thrd_join() releases a stack. "hidden": malloc() extends the heap, and the handler
 * has no unwind information. "restoring": the handler returns to code of the program without any.
 *
 * Prints "ready" in the handler, and "ok 1" at the end; or what went wrong.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <threads.h>
#include <ucontext.h>
#include <unistd.h>

enum {
	PR_SET_DISPATCH = 59,
	DISPATCH_ON = 1,
	RESTORER = 0x04000000, /* SA_RESTORER */
	RESTORER_BYTES = 16,
	STACK_BYTES = 64 * 1024 * 1024, /* more than the C library keeps of ended threads */
	BLOCKS = 1000,
	BLOCK_BYTES = 3000,
	MASK_BYTES = 8,
};

/* As the kernel has it. */
struct action {
	void (*handler)(int, siginfo_t *, void *);
	uint64_t flags;
	void (*restorer)(void);
	uint64_t mask;
};

void handle(int number, siginfo_t *info, void *context);
void handle_hidden(int number, siginfo_t *info, void *context);
void return_hidden(void);

__asm__(".pushsection .text\n"
	"	ret\n"
	"handle_hidden:\n"
	"	sub $8, %rsp\n	call handle\n	add $8, %rsp\n	ret\n"
	"return_hidden:\n"
	"	mov $15, %eax\n	syscall\n"
	".popsection");

static volatile char is_trapping;
static long trapped_call;
static volatile int is_done;

static _Noreturn void fault(const char *what)
{
	printf("%s: %s\n", what, strerror(errno));
	fflush(stdout);
	_exit(1);
}

static void wait_for_input(void)
{
	struct pollfd input = { .fd = STDIN_FILENO, .events = POLLIN };

	is_done = 1;
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		_exit(1);
	while (poll(&input, 1, -1) < 0) {
	}
}

/* What it has interrupted is done here. */
void handle(int number, siginfo_t *info, void *context)
{
	greg_t *const registers = ((ucontext_t *)context)->uc_mcontext.gregs;

	(void)number;
	is_trapping = 0;
	if (info->si_syscall == trapped_call && !is_done)
		wait_for_input();
	const long result = syscall(info->si_syscall, registers[REG_RDI], registers[REG_RSI],
		registers[REG_RDX], registers[REG_R10], registers[REG_R8], registers[REG_R9]);
	registers[REG_RAX] = result < 0 ? -errno : result;
	is_trapping = 1;
}

static void begin(void (*handler)(int, siginfo_t *, void *), void (*restorer)(void))
{
	const struct sigaction usual = { .sa_sigaction = handler,
		.sa_flags = SA_SIGINFO | SA_NODEFER };
	struct action action;

	if (sigaction(SIGSYS, &usual, NULL) != 0 ||
		syscall(SYS_rt_sigaction, SIGSYS, NULL, &action, MASK_BYTES) != 0)
		fault("sigaction");
	if (restorer != NULL) {
		action.restorer = restorer;
		action.flags |= RESTORER;
		if (syscall(SYS_rt_sigaction, SIGSYS, &action, NULL, MASK_BYTES) != 0)
			fault("rt_sigaction");
	}
	if (prctl(PR_SET_DISPATCH, DISPATCH_ON, action.restorer, RESTORER_BYTES, &is_trapping) != 0)
		fault("prctl");
}

static void *end_at_once(void *argument)
{
	return argument;
}

static void join(void)
{
	pthread_attr_t attributes;
	pthread_t thread;

	if (pthread_attr_init(&attributes) != 0 ||
		pthread_attr_setstacksize(&attributes, STACK_BYTES) != 0 ||
		pthread_create(&thread, &attributes, end_at_once, NULL) != 0)
		fault("pthread_create");
	is_trapping = 1;
	/* It calls what pthread_join() jumps to. */
	const int number = thrd_join(thread, NULL);
	is_trapping = 0;
	if (number != thrd_success)
		fault("thrd_join");
}

static void allocate(void)
{
	static unsigned char *volatile blocks[BLOCKS];

	for (int i = 0; i < BLOCKS; i++) {
		is_trapping = 1;
		blocks[i] = malloc(BLOCK_BYTES);
		is_trapping = 0;
		if (blocks[i] == NULL)
			fault("malloc");
		memset(blocks[i], i, BLOCK_BYTES);
	}
	for (int i = 0; i < BLOCKS; i++) {
		for (int j = 0; j < BLOCK_BYTES; j++) {
			if (blocks[i][j] != (unsigned char)i)
				fault("a block has changed");
		}
		free(blocks[i]);
	}
}

int main(int count, char **words)
{
	const char *const mode = count > 1 ? words[1] : "";
	const int is_joining = strcmp(mode, "joining") == 0;
	const int is_restoring = strcmp(mode, "restoring") == 0;

	if (!is_joining && !is_restoring && strcmp(mode, "hidden") != 0)
		return 2;
	trapped_call = is_joining ? SYS_munmap : SYS_brk;
	begin(is_joining || is_restoring ? handle : handle_hidden,
		is_restoring ? return_hidden : NULL);
	if (is_joining)
		join();
	else
		allocate();
	puts(is_done ? "ok 1" : "nothing was trapped");
	return 0;
}
