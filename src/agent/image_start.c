/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent for static programs: a program without an interpreter, with a C library (musl) and all
 * else of its own, which heapctl maps into the process and enters with a thread that belongs to no
 * C library of the process (inject/raw_thread.h).
 *
 * It shares nothing with the program's C library: its threads have storage of their own, it takes
 * no memory but from mmap(), moves no program break, installs no signal handler, and its threads
 * block all signals. What runs on the program's threads are the functions that count alone, which
 * use the sampler's table of threads (sampler/thread_states.h) in the place of thread-local
 * storage. A forked child has these functions and no thread, and continues so.
 *
 * The image stays where it is when the agent ends, and is entered again by the next attach.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "agent/image_libc.h"
#include "base/error.h"
#include "base/image_exchange.h"

int heapctl_attach_agent(const char *settings, char *answer, size_t size);

/* Hidden: the assembler code below addresses them directly. */
#pragma GCC visibility push(hidden)
enum { IMAGE_NEW, IMAGE_STARTING, IMAGE_STARTED };
_Atomic uint32_t image_stage;
_Noreturn void image_begin_again(uintptr_t *stack);
_Noreturn void image_refuse(uintptr_t *stack);
_Noreturn void image_leave(void *memory, size_t size);
#pragma GCC visibility pop

/*
 * Where the kernel's stack for a new program is, with the address of the exchange as the first
 * argument. The C library starts once; image_leave needs no stack when it has unmapped its own.
 */
__asm__(".pushsection .text\n"
	".globl image_entry\n"
	".type image_entry, @function\n"
	"image_entry:\n"
	"	.cfi_startproc\n	.cfi_undefined rip\n"
	"	xor %eax, %eax\n	mov $1, %ecx\n"
	"	lock cmpxchg %ecx, image_stage(%rip)\n"
	"	je _start\n"
	"	mov %rsp, %rdi\n	and $-16, %rsp\n	xor %ebp, %ebp\n"
	"	cmp $2, %eax\n	je 1f\n"
	"	call image_refuse\n"
	"1:	call image_begin_again\n"
	"	hlt\n"
	"	.cfi_endproc\n"
	".size image_entry, . - image_entry\n"
	".globl image_leave\n"
	".hidden image_leave\n"
	".type image_leave, @function\n"
	"image_leave:\n"
	"	mov $11, %eax\n	syscall\n"
	"	xor %edi, %edi\n	mov $60, %eax\n	syscall\n"
	"	hlt\n"
	".size image_leave, . - image_leave\n"
	".popsection\n");

static volatile uint32_t *state_of(struct image_exchange *exchange)
{
	return &exchange->state;
}

/* The C library's functions may set errno, which needs a thread pointer of the image's own. */
static void call_kernel(long number, long first, const void *second)
{
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "a"(number), "D"(first), "S"(second)
			 : "rcx", "r11", "memory");
}

static void wait_a_little(void)
{
	const struct timespec pause = { .tv_nsec = 1000000 };

	call_kernel(SYS_nanosleep, (long)&pause, NULL);
}

static time_t seconds_now(void)
{
	struct timespec now = { 0 };

	call_kernel(SYS_clock_gettime, CLOCK_MONOTONIC, &now);
	return now.tv_sec;
}

/* heapctl reads the answer, unless it was killed; the borrowed thread may wait for a processor. */
static void wait_until_read(struct image_exchange *exchange)
{
	const time_t until = seconds_now() + IMAGE_WAIT_S;

	while (*state_of(exchange) != IMAGE_READ && seconds_now() <= until)
		wait_a_little();
	while (*(volatile uint32_t *)&exchange->is_left == 0)
		wait_a_little();
}

static _Noreturn void answer(struct image_exchange *exchange)
{
	atomic_thread_fence(memory_order_release);
	*state_of(exchange) = IMAGE_RETURNED;
	wait_until_read(exchange);
	image_libc_end_thread();
	image_leave(exchange, IMAGE_MEMORY_BYTES);
}

/*
 * Since Linux 4.14 the kernel can clear a page in forked children, where no fork handler of this
 * image runs: the lock of the samples is there.
 */
static bool check_kernel(struct error *err)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	void *const page =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const bool clears = page != MAP_FAILED && madvise(page, size, MADV_WIPEONFORK) == 0;
	const int errnum = errno;

	if (page != MAP_FAILED)
		munmap(page, size);
	if (!clears && errnum != EINVAL)
		return error_system(err, errnum, "memory that forked children do not inherit");
	return clears || error_set(err, ERROR_UNSUPPORTED,
				 "the agent for static programs needs Linux 4.14 or later");
}

static _Noreturn void serve(struct image_exchange *exchange)
{
	struct error err = { 0 };

	image_libc_learn_program(exchange);
	if (check_kernel(&err)) {
		exchange->result = heapctl_attach_agent(
			exchange->settings, exchange->answer, sizeof exchange->answer);
	} else {
		exchange->result = (int32_t)err.kind;
		snprintf(exchange->answer, sizeof exchange->answer, "%s\n", err.message);
	}
	answer(exchange);
}

static struct image_exchange *exchange_of(const uintptr_t *stack)
{
	enum { FIRST_ARGUMENT = 2 }; /* behind their count, and the name */

	return (struct image_exchange *)stack[FIRST_ARGUMENT];
}

/* Of a thread that was started by the C library's own code. */
int main(int argc, char **argv)
{
	(void)argc;
	image_libc_begin_first_thread();
	atomic_store(&image_stage, IMAGE_STARTED);
	serve(__extension__(struct image_exchange *)(void *) argv[1]);
}

void image_begin_again(uintptr_t *stack)
{
	image_libc_begin_thread();
	serve(exchange_of(stack));
}

/* Without storage of its own: calls nothing. Another attach was killed just now. */
void image_refuse(uintptr_t *stack)
{
	static const char message[] = "another attach is just starting the agent\ntry again";
	struct image_exchange *const exchange = exchange_of(stack);

	for (size_t i = 0; i < sizeof message; i++)
		exchange->answer[i] = message[i];
	exchange->result = ERROR_STATE;
	*state_of(exchange) = IMAGE_RETURNED;
	wait_until_read(exchange);
	image_leave(exchange, IMAGE_MEMORY_BYTES);
}
