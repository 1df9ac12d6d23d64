/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/image_libc.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/image_exchange.h"
#include "sampler/thread_states.h"
#include "unwind/modules.h"

/* --- errno --- */

int *__errno_location(void)
{
	return thread_states_errno();
}

/* The library's own code calls it by this name. */
int *___errno_location(void) __attribute__((alias("__errno_location")));

/* --- The loader --- */

extern const ElfW(Ehdr) image_header __asm__("__ehdr_start") __attribute__((visibility("hidden")));

static struct dl_phdr_info program = { .dlpi_name = "", .dlpi_adds = 1 };

/* With one more that stands for .eh_frame. */
static void add_frames(const struct image_exchange *exchange)
{
	enum { HEADERS_MAX = 32 };
	static ElfW(Phdr) headers[HEADERS_MAX];
	const size_t count = program.dlpi_phnum;

	if (exchange->program_frames == 0 || count >= HEADERS_MAX)
		return;
	memcpy(headers, program.dlpi_phdr, count * sizeof *headers);
	headers[count] = (ElfW(Phdr)){ .p_type = UNWIND_PT_FRAMES,
		.p_vaddr = exchange->program_frames - exchange->program_bias,
		.p_memsz = exchange->program_frames_bytes };
	program.dlpi_phdr = headers;
	program.dlpi_phnum++;
}

void image_libc_learn_program(const struct image_exchange *exchange)
{
	program.dlpi_addr = exchange->program_bias;
	program.dlpi_phdr = (const ElfW(Phdr) *)(uintptr_t)exchange->program_headers;
	program.dlpi_phnum = (ElfW(Half))exchange->program_header_count;
	add_frames(exchange);
}

int dl_iterate_phdr(
	int (*visit)(struct dl_phdr_info *info, size_t size, void *context), void *context)
{
	struct dl_phdr_info info = program;
	const int result = visit(&info, sizeof info, context);

	if (result != 0)
		return result;
	info = (struct dl_phdr_info){ .dlpi_addr = (uintptr_t)&image_header,
		.dlpi_name = "libheapctl-static.so",
		.dlpi_phdr = __extension__(const ElfW(Phdr) *)(const void *)(
			(const char *)&image_header + image_header.e_phoff),
		.dlpi_phnum = image_header.e_phnum,
		.dlpi_adds = 1 };
	return visit(&info, sizeof info, context);
}

/* The library's own keep a text with the thread when they fail, in memory of its heap. */
void *dlsym(void *restrict handle, const char *restrict name)
{
	(void)handle;
	(void)name;
	return NULL;
}

void *dlopen(const char *path, int mode)
{
	(void)path;
	(void)mode;
	return NULL;
}

int dladdr(const void *address, Dl_info *info)
{
	(void)address;
	(void)info;
	return 0;
}

/* --- Memory --- */

/* Nothing here takes memory of a heap; the library's own names are defined, so its heap stays out.
 */
void *image_take(size_t size) __asm__("malloc");
void *image_take_zeroed(size_t count, size_t size) __asm__("calloc");
void *image_resize(void *block, size_t size) __asm__("realloc");
void image_give_back(void *block) __asm__("free");

void *image_take(size_t size)
{
	(void)size;
	errno = ENOMEM;
	return NULL;
}

void *image_take_zeroed(size_t count, size_t size)
{
	(void)count;
	return image_take(size);
}

void *image_resize(void *block, size_t size)
{
	(void)block;
	return image_take(size);
}

void image_give_back(void *block)
{
	(void)block;
}

/* --- Signals --- */

enum { MASK_BYTES = 8 };

/*
 * A handler of the program must not run on a thread of this image, whose storage is not what it
 * expects: whatever is set, all signals are blocked. What is unblocked is a signal that ends the
 * process (main_thread_end_process).
 */
int pthread_sigmask(int how, const sigset_t *restrict set, sigset_t *restrict old)
{
	uint64_t before = 0, all = UINT64_MAX;
	const bool unblocks = set != NULL && how == SIG_UNBLOCK;

	if (syscall(SYS_rt_sigprocmask, unblocks ? SIG_UNBLOCK : SIG_SETMASK,
		    unblocks ? (const void *)set : &all, &before, MASK_BYTES) != 0)
		return errno;
	if (old != NULL) {
		sigemptyset(old);
		memcpy(old, &before, sizeof before);
	}
	return 0;
}

/* --- Threads --- */

enum {
	CONTROL_BLOCK_BYTES = 4096, /* musl's is 0.2 KiB */
	STACK_BYTES = 256 * 1024,
	GUARD_BYTES = 4096,
	THREADS_MAX = 4,
	CLONE_FLAGS = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD |
		      CLONE_SYSVSEM | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID,
};

/* musl's: fills a control block, and makes it that of the calling thread. */
int __init_tp(void *block);

/* What the kernel clears when a thread without another such word has ended. */
static _Atomic pid_t unused_number;

static void begin_thread(void *block, _Atomic pid_t *number)
{
	if (__init_tp(block) != 0)
		__builtin_trap();
	/* musl names a lock of its own there. */
	syscall(SYS_set_tid_address, number);
}

void image_libc_begin_first_thread(void)
{
	syscall(SYS_set_tid_address, &unused_number);
}

/*
 * The thread ends with the memory of the exchange, which has room for the block: the page below
 * that of the borrowed thread would be the stack's. So it is mapped, and unmapped at the end.
 */
void image_libc_begin_thread(void)
{
	/* Not by mmap(), which may set errno, which needs a thread pointer of its own. */
	register long flags __asm__("r10") = MAP_PRIVATE | MAP_ANONYMOUS;
	register long file __asm__("r8") = -1;
	register long offset __asm__("r9") = 0;
	long block;

	__asm__ volatile("syscall"
			 : "=a"(block)
			 : "a"((long)SYS_mmap), "D"(0L), "S"((long)CONTROL_BLOCK_BYTES),
			 "d"((long)(PROT_READ | PROT_WRITE)), "r"(flags), "r"(file), "r"(offset)
			 : "rcx", "r11", "memory");
	if (block < 0 && block > -4096)
		__builtin_trap();
	begin_thread((void *)block, &unused_number);
}

void image_libc_end_thread(void)
{
	/* The first thread's block is the library's own, static. */
	void *const block = __builtin_thread_pointer();

	if ((uintptr_t)block % CONTROL_BLOCK_BYTES == 0)
		munmap(block, CONTROL_BLOCK_BYTES);
}

/* Which stays until it is joined, as its number is cleared when it has ended. */
struct image_thread {
	_Atomic bool is_used;
	_Atomic pid_t number;
	void *(*function)(void *);
	void *argument;
	char *memory; /* guard, stack, control block */
	size_t bytes;
};

static struct image_thread threads[THREADS_MAX];

#pragma GCC visibility push(hidden)
void image_leave(void *memory, size_t size);
long image_clone(long flags, void *stack, _Atomic pid_t *number, struct image_thread *thread);
__attribute__((used)) void image_run_thread(struct image_thread *thread);
#pragma GCC visibility pop

/* clone(flags, stack, number, number, 0); the new thread has `thread` in r12. */
__asm__(".pushsection .text\n"
	".globl image_clone\n"
	".hidden image_clone\n"
	".type image_clone, @function\n"
	"image_clone:\n"
	"	push %r12\n"
	"	mov %rcx, %r12\n"
	"	mov %rdx, %r10\n"
	"	xor %r8d, %r8d\n"
	"	mov $56, %eax\n	syscall\n"
	"	test %rax, %rax\n	jz image_begin_thread\n"
	"	pop %r12\n	ret\n"
	".size image_clone, . - image_clone\n"
	/* A walk of the stack ends here. */
	".type image_begin_thread, @function\n"
	"image_begin_thread:\n"
	"	.cfi_startproc\n	.cfi_undefined rip\n"
	"	xor %ebp, %ebp\n"
	"	mov %r12, %rdi\n"
	"	call image_run_thread\n"
	"	hlt\n"
	"	.cfi_endproc\n"
	".size image_begin_thread, . - image_begin_thread\n"
	".popsection\n");

void image_run_thread(struct image_thread *thread)
{
	begin_thread(thread->memory + thread->bytes - CONTROL_BLOCK_BYTES, &thread->number);
	thread->function(thread->argument);
	image_leave(thread->memory, thread->bytes);
}

int pthread_create(pthread_t *restrict result, const pthread_attr_t *restrict attributes,
	void *(*function)(void *), void *restrict argument)
{
	const size_t bytes = GUARD_BYTES + STACK_BYTES + CONTROL_BLOCK_BYTES;
	struct image_thread *thread = NULL;

	(void)attributes;
	for (size_t i = 0; i < THREADS_MAX && thread == NULL; i++) {
		if (!atomic_exchange(&threads[i].is_used, true))
			thread = &threads[i];
	}
	if (thread == NULL)
		return EAGAIN;
	char *const memory =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		atomic_store(&thread->is_used, false);
		return EAGAIN;
	}
	mprotect(memory, GUARD_BYTES, PROT_NONE);
	thread->function = function;
	thread->argument = argument;
	thread->memory = memory;
	thread->bytes = bytes;
	const long number = image_clone(
		CLONE_FLAGS, memory + GUARD_BYTES + STACK_BYTES, &thread->number, thread);
	if (number < 0) {
		munmap(memory, bytes);
		atomic_store(&thread->is_used, false);
		return (int)-number;
	}
	*result = (pthread_t)thread;
	return 0;
}

int pthread_join(pthread_t joined, void **result)
{
	struct image_thread *const thread = (struct image_thread *)joined;

	for (pid_t number; (number = atomic_load(&thread->number)) != 0;)
		syscall(SYS_futex, &thread->number, FUTEX_WAIT, number, NULL, NULL, 0);
	if (result != NULL)
		*result = NULL;
	atomic_store(&thread->is_used, false);
	return 0;
}

int pthread_kill(pthread_t thread, int number)
{
	const pid_t to = atomic_load(&((struct image_thread *)thread)->number);

	return to == 0 || syscall(SYS_tgkill, getpid(), to, number) == 0 ? 0 : errno;
}

/* The program's fork() runs no handlers of this image. */
int pthread_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
	(void)prepare;
	(void)parent;
	(void)child;
	return 0;
}
