/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/trampoline.h"

#include <string.h>

_Static_assert(sizeof(struct trampoline_exchange) <= TRAMPOLINE_EXCHANGE_BYTES, "one page");

#if defined(__x86_64__)
#include <cpuid.h>

_Static_assert(offsetof(struct trampoline_exchange, result) == 4, "see below");
_Static_assert(offsetof(struct trampoline_exchange, thread) == 8, "see below");
_Static_assert(offsetof(struct trampoline_exchange, error) == 16, "see below");
_Static_assert(offsetof(struct trampoline_exchange, dlopen) == 24, "see below");
_Static_assert(offsetof(struct trampoline_exchange, dlsym) == 32, "see below");
_Static_assert(offsetof(struct trampoline_exchange, dlerror) == 40, "see below");
_Static_assert(offsetof(struct trampoline_exchange, function) == 48, "see below");
_Static_assert(offsetof(struct trampoline_exchange, descriptor) == 56, "see below");
_Static_assert(offsetof(struct trampoline_exchange, path) == 64, "see below");
_Static_assert(offsetof(struct trampoline_exchange, name) == 1088, "see below");
_Static_assert(offsetof(struct trampoline_exchange, settings) == 1152, "see below");
_Static_assert(offsetof(struct trampoline_exchange, answer) == 2688, "see below");
_Static_assert(sizeof(struct trampoline_request) == 9 * 8, "see below");
_Static_assert(
	TRAMPOLINE_MAPPED_BYTES == 0x45000 && TRAMPOLINE_EXCHANGE_BYTES == 0x1000, "see below");
_Static_assert(TRAMPOLINE_WAIT_S == 10, "see below");

extern const char trampoline_begin[], trampoline_end[], trampoline_values[];

/*
 * System calls: close 3, mmap 9, munmap 11, rt_sigaction 13, rt_sigprocmask 14, nanosleep 35,
 * rt_sigpending 127, gettid 186, clock_gettime 228, openat 257, memfd_create 319. The values that a
 * request contains are words at the end.
 *
 * The borrowed thread. It is entered with the registers that it continues with, but for the
 * instruction pointer. 128 bytes below its stack pointer are its own (the ABI's red zone). What it
 * has saved begins at rbx: 15 registers of which rax is the last, the flags. Its signal mask is a
 * word of the request.
 */
__asm__(".macro restore\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n"
	"	pop %r11\n	pop %r10\n	pop %r9\n	pop %r8\n"
	"	pop %rbp\n	pop %rdi\n	pop %rsi\n	pop %rdx\n"
	"	pop %rcx\n	pop %rbx\n	pop %rax\n"
	"	popfq\n"
	"	lea 128(%rsp), %rsp\n"
	".endm\n"
	".pushsection .rodata\n"
	".globl trampoline_begin, trampoline_end, trampoline_values\n"
	".hidden trampoline_begin, trampoline_end, trampoline_values\n"
	".balign 16\n"
	"trampoline_begin:\n"
	"	lea -128(%rsp), %rsp\n"
	"	pushfq\n"
	"	cld\n"
	"	push %rax\n	push %rbx\n	push %rcx\n	push %rdx\n"
	"	push %rsi\n	push %rdi\n	push %rbp\n	push %r8\n"
	"	push %r9\n	push %r10\n	push %r11\n	push %r12\n"
	"	push %r13\n	push %r14\n	push %r15\n"
	"	mov %rsp, %rbx\n"
	"	xor %r13d, %r13d\n"
	/* mmap(memory, MAPPED, READ | WRITE, PRIVATE | ANONYMOUS | FIXED_NOREPLACE, -1, 0) */
	"	mov 2f(%rip), %rdi\n"
	"	mov $0x45000, %esi\n	mov $3, %edx\n	mov $0x100022, %r10d\n"
	"	mov $-1, %r8\n	xor %r9d, %r9d\n	mov $9, %eax\n	syscall\n"
	"	mov %rax, %rbp\n"
	"	cmp 2f(%rip), %rax\n	je 10f\n"
	/* Older kernels take the address for a wish. */
	"	cmp $-4096, %rax\n	ja 13f\n"
	"	mov %rax, %rdi\n	mov $0x45000, %esi\n	mov $11, %eax\n	syscall\n"
	"	jmp 13f\n"
	/*
	 * rt_sigprocmask(SIG_SETMASK, blocked, NULL, 8). They are blocked already, unless heapctl
	 * has died just before that.
	 */
	"10:	mov $2, %edi\n	lea 7f(%rip), %rsi\n	xor %edx, %edx\n"
	"	mov $8, %r10d\n	mov $14, %eax\n	syscall\n"
	"	lea 0x1000(%rbp), %rdi\n	mov $-1, %eax\n	mov $-1, %edx\n"
	"	xsave64 (%rdi)\n"
	"	lea 0x45000(%rbp), %rsp\n"
	/* pthread_create(a word that is never read, NULL, thread, exchange) */
	"	lea 0x5000(%rbp), %rdi\n	xor %esi, %esi\n	lea 30f(%rip), %rdx\n"
	"	mov %rbp, %rcx\n	call *3f(%rip)\n"
	"	mov %eax, %r12d\n"
	"	lea 0x1000(%rbp), %rdi\n	mov $-1, %eax\n	mov $-1, %edx\n"
	"	xrstor64 (%rdi)\n"
	"	mov %rbx, %rsp\n"
	/* A signal with a handler that came meanwhile would have ended the system call. */
	"	lea 0x5000(%rbp), %rdi\n	mov $8, %esi\n	mov $127, %eax\n	syscall\n"
	"	mov 0x5000(%rbp), %rdi\n	and 5f(%rip), %rdi\n	jz 11f\n"
	/* rt_sigaction(signal, NULL, action, 8): its second word has the flags */
	"	bsf %rdi, %rdi\n	inc %edi\n	xor %esi, %esi\n"
	"	lea 0x5000(%rbp), %rdx\n	mov $8, %r10d\n	mov $13, %eax\n	syscall\n"
	"	mov 6f(%rip), %rax\n	test %rax, 0x5008(%rbp)\n	jnz 11f\n"
	"	inc %r13d\n"
	"	movq $-4, 112(%rbx)\n" /* rax: EINTR */
	/* The exchange is the new thread's from now on, if there is one. */
	"11:	lea 0x1000(%rbp), %rdi\n	mov $0x44000, %esi\n"
	"	test %r12d, %r12d\n	jz 12f\n"
	"	mov %rbp, %rdi\n	mov $0x45000, %esi\n"
	"12:	mov $11, %eax\n	syscall\n"
	/* Handlers run here, as in the program's own code. */
	"13:	mov $2, %edi\n	lea 9f(%rip), %rsi\n	xor %edx, %edx\n"
	"	mov $8, %r10d\n	mov $14, %eax\n	syscall\n"
	"	test %r13d, %r13d\n	jnz 21f\n"
	"	restore\n"
	"	jmp *1f(%rip)\n"
	"21:	restore\n"
	"	jmp *8f(%rip)\n"

	/*
	 * The new thread. It waits 10 s for its request, looking every ms; by the clock
	 * (CLOCK_MONOTONIC), as on a busy machine a sleep lasts longer.
	 */
	"30:	push %rbx\n	push %r12\n	sub $24, %rsp\n"
	"	mov %rdi, %rbx\n"
	"	mov %fs:0, %rdi\n	call *4f(%rip)\n" /* pthread_detach(itself) */
	"	mov $186, %eax\n	syscall\n	mov %rax, 8(%rbx)\n" /* gettid */
	"	movl $1, (%rbx)\n"
	"	mov $2, %r12d\n	call 50f\n	jnz 34f\n"
	"	mov 48(%rbx), %rax\n	test %rax, %rax\n	jnz 32f\n"
	"	mov 56(%rbx), %esi\n	test %esi, %esi\n	js 35f\n"
	"	lea 64(%rbx), %rdi\n	mov $319, %eax\n	syscall\n" /* memfd_create */
	"	mov %eax, 56(%rbx)\n	movl $3, (%rbx)\n"
	"	mov $4, %r12d\n	call 50f\n	jnz 36f\n"
	/* openat(AT_FDCWD, path, O_CLOEXEC), close: musl's loader may not fail
	   (sampler/interposer.c) */
	"35:	mov $-100, %edi\n	lea 64(%rbx), %rsi\n	mov $0x80000, %edx\n"
	"	mov $257, %eax\n	syscall\n	mov %eax, 4(%rbx)\n"
	"	xor %r12d, %r12d\n	test %eax, %eax\n	js 37f\n"
	"	mov %eax, %edi\n	mov $3, %eax\n	syscall\n"
	"	lea 64(%rbx), %rdi\n	mov $2, %esi\n	call *24(%rbx)\n" /* dlopen, RTLD_NOW */
	"	mov %rax, %r12\n"
	"37:	mov 56(%rbx), %edi\n	mov $3, %eax\n	syscall\n" /* close, if there is one */
	"	test %r12, %r12\n	jz 31f\n"
	"	mov %r12, %rdi\n	lea 1088(%rbx), %rsi\n	call *32(%rbx)\n" /* dlsym */
	"	test %rax, %rax\n	jnz 32f\n"
	"31:	cmpl $0, 4(%rbx)\n	jl 38f\n"
	"	call *40(%rbx)\n	mov %rax, 16(%rbx)\n" /* dlerror */
	"38:	movl $6, (%rbx)\n	jmp 33f\n"
	"32:	lea 1152(%rbx), %rdi\n	lea 2688(%rbx), %rsi\n	mov $1024, %edx\n"
	"	call *%rax\n	mov %eax, 4(%rbx)\n	movl $5, (%rbx)\n"
	"33:	mov $7, %r12d\n	call 50f\n	jmp 34f\n"
	"36:	mov 56(%rbx), %edi\n	mov $3, %eax\n	syscall\n"
	"34:	mov %rbx, %rdi\n	mov $0x1000, %esi\n	mov $11, %eax\n	syscall\n"
	"	xor %eax, %eax\n"
	"	add $24, %rsp\n	pop %r12\n	pop %rbx\n	ret\n"

	/* Waits for the state r12d; the zero flag says whether it came. */
	"50:	push %r13\n"
	"	push $1000000\n	push $0\n	sub $16, %rsp\n"
	"	mov $1, %edi\n	mov %rsp, %rsi\n	mov $228, %eax\n	syscall\n"
	"	mov (%rsp), %r13\n	add $10, %r13\n"
	"51:	cmp (%rbx), %r12d\n	je 52f\n"
	"	lea 16(%rsp), %rdi\n	xor %esi, %esi\n	mov $35, %eax\n	syscall\n"
	"	mov $1, %edi\n	mov %rsp, %rsi\n	mov $228, %eax\n	syscall\n"
	"	cmp %r13, (%rsp)\n	jle 51b\n"
	"	cmp (%rbx), %r12d\n"
	"52:	lea 32(%rsp), %rsp\n	pop %r13\n	ret\n"

	".balign 8\n"
	"trampoline_values:\n"
	"1:	.quad 0\n" /* struct trampoline_request, word by word */
	"2:	.quad 0\n"
	"3:	.quad 0\n"
	"4:	.quad 0\n"
	"5:	.quad 0\n"
	"6:	.quad 0\n"
	"8:	.quad 0\n"
	"9:	.quad 0\n"
	"7:	.quad 0\n"
	"trampoline_end:\n"
	".popsection");

/* Whether XSAVE is there and what it saves has room. */
static bool can_save_registers(void)
{
	unsigned a = 0, b = 0, c = 0, d = 0;

	if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & bit_OSXSAVE) == 0)
		return false;
	/* All that is enabled now. */
	return __get_cpuid_count(0xd, 0, &a, &b, &c, &d) != 0 && b <= TRAMPOLINE_XSTATE_BYTES;
}

size_t trampoline_make(
	const struct trampoline_request *request, uint64_t code[TRAMPOLINE_CODE_MAX / 8])
{
	const size_t size = (size_t)(trampoline_end - trampoline_begin);

	if (size > TRAMPOLINE_CODE_MAX || !can_save_registers())
		return 0;
	memset(code, 0, TRAMPOLINE_CODE_MAX);
	memcpy(code, trampoline_begin, size);
	memcpy((char *)code + (trampoline_values - trampoline_begin), request, sizeof *request);
	return size;
}

bool trampoline_is_in(const char *bytes, uint64_t *memory)
{
	const size_t size = (size_t)(trampoline_values - trampoline_begin);
	struct trampoline_request request;

	memcpy(&request, bytes + size, sizeof request);
	*memory = request.memory;
	return memcmp(bytes, trampoline_begin, size) == 0;
}
#else
bool trampoline_is_in(const char *bytes, uint64_t *memory)
{
	(void)bytes;
	*memory = 0;
	return false;
}

size_t trampoline_make(
	const struct trampoline_request *request, uint64_t code[TRAMPOLINE_CODE_MAX / 8])
{
	(void)request;
	(void)code;
	return 0;
}
#endif
