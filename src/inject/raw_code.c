/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/raw_code.h"

#include <string.h>

#include "base/image_exchange.h"

#if defined(__x86_64__)

_Static_assert(offsetof(struct image_exchange, thread) == 8, "see below");
_Static_assert(offsetof(struct image_exchange, is_left) == 16, "see below");
_Static_assert(offsetof(struct image_exchange, call) == 24, "see below");
_Static_assert(offsetof(struct image_exchange, returned) == 80, "see below");
_Static_assert(offsetof(struct image_exchange, entry) == 88, "see below");
_Static_assert(offsetof(struct image_exchange, stack) == 96, "see below");
_Static_assert(IMAGE_MEMORY_BYTES == 0x40000 && IMAGE_BORROWED_STACK_BYTES == 0x1000, "see below");
_Static_assert(IMAGE_WAIT_S == 10, "see below");
_Static_assert(
	IMAGE_READY == 1 && IMAGE_CALL == 2 && IMAGE_ENTER == 3 && IMAGE_READ == 5, "see below");
_Static_assert(sizeof(struct raw_request) == 24 * 8, "see below");

extern const char raw_code_begin[], raw_code_end[], raw_code_values[];

/*
 * System calls: mmap 9, munmap 11, rt_sigaction 13, rt_sigprocmask 14, nanosleep 35, clone 56, exit
 * 60, rt_sigpending 127, gettid 186, clock_gettime 228. The values that a request contains are
 * words at the end.
 *
 * The borrowed thread. A system call keeps all registers but rax, rcx and r11, and the flags. Until
 * its memory is mapped there is no place to restore the flags from, so no instruction changes them
 * before.
 */
__asm__(".macro take\n"
	"	pop %r15\n	pop %r14\n	pop %r13\n	pop %r12\n"
	"	pop %r11\n	pop %r10\n	pop %r9\n	pop %r8\n"
	"	pop %rbp\n	pop %rdi\n	pop %rsi\n	pop %rdx\n"
	"	pop %rcx\n	pop %rbx\n	pop %rax\n"
	"	lea 128(%rsp), %rsp\n"
	".endm\n"
	".pushsection .rodata\n"
	".globl raw_code_begin, raw_code_end, raw_code_values\n"
	".hidden raw_code_begin, raw_code_end, raw_code_values\n"
	".balign 16\n"
	"raw_code_begin:\n"
	/*
	 * rt_sigprocmask(SIG_SETMASK, blocked_meanwhile, NULL, 8). They are blocked already, unless
	 * heapctl has died just before that.
	 */
	"	mov $2, %edi\n	lea 103f(%rip), %rsi\n	mov $0, %edx\n"
	"	mov $8, %r10d\n	mov $14, %eax\n	syscall\n"
	"	mov $0, %r13d\n"
	/* mmap(memory, MEMORY, READ | WRITE, PRIVATE | ANONYMOUS | FIXED_NOREPLACE, -1, 0) */
	"	mov 101f(%rip), %rdi\n"
	"	mov $0x40000, %esi\n	mov $3, %edx\n	mov $0x100022, %r10d\n"
	"	mov $-1, %r8\n	mov $0, %r9d\n	mov $9, %eax\n	syscall\n"
	/* rcx: the difference between the address and the wish. */
	"	mov %rdi, %rcx\n	not %rcx\n	lea 1(%rcx, %rax), %rcx\n"
	"	jrcxz 10f\n"
	/* Not there: munmap() refuses an error for an address. */
	"	mov %rax, %rdi\n	mov $0x40000, %esi\n	mov $11, %eax\n	syscall\n"
	"	jmp 20f\n"
	"10:	mov %rax, %rbp\n"
	"	lea 0x40000(%rbp), %rsp\n"
	/* clone(VM | FS | FILES | SIGHAND | THREAD | SYSVSEM, the stack below ours) */
	"	mov $0x50f00, %edi\n	lea 0x3f000(%rbp), %rsi\n	xor %edx, %edx\n"
	"	xor %r10d, %r10d\n	xor %r8d, %r8d\n	mov $56, %eax\n	syscall\n"
	"	test %rax, %rax\n	jz 30f\n"
	"	mov %rax, %r12\n"
	/* A signal with a handler that came meanwhile would have ended the system call. */
	"	lea -16(%rsp), %rdi\n	mov $8, %esi\n	mov $127, %eax\n	syscall\n"
	"	mov -16(%rsp), %rdi\n	and 105f(%rip), %rdi\n	jz 11f\n"
	/* rt_sigaction(signal, NULL, action, 8): its second word has the flags */
	"	bsf %rdi, %rdi\n	inc %edi\n	xor %esi, %esi\n"
	"	lea -64(%rsp), %rdx\n	mov $8, %r10d\n	mov $13, %eax\n	syscall\n"
	"	mov 106f(%rip), %rax\n	test %rax, -56(%rsp)\n	jnz 11f\n"
	"	inc %r13d\n"
	/* Without a new thread the memory is of no use. */
	"11:	push 108f(%rip)\n"
	"	test %r12, %r12\n	js 12f\n"
	"	popfq\n"
	"	movl $1, 16(%rbp)\n"
	"	jmp 20f\n"
	"12:	popfq\n"
	"	mov %rbp, %rdi\n	mov $0x40000, %esi\n	mov $11, %eax\n	syscall\n"
	/*
	 * Handlers run on the program's own stack, as in its own code. What it had in its registers
	 * is there, below the 128 bytes that are its own (the ABI's red zone): a handler may be
	 * that of a garbage collector, which looks for addresses.
	 */
	"20:	mov 116f(%rip), %rsp\n	lea -128(%rsp), %rsp\n"
	"	push 109f(%rip)\n	push 110f(%rip)\n	push 111f(%rip)\n	push "
	"112f(%rip)\n"
	"	push 113f(%rip)\n	push 114f(%rip)\n	push 115f(%rip)\n	push "
	"117f(%rip)\n"
	"	push 118f(%rip)\n	push 119f(%rip)\n	push 120f(%rip)\n	push "
	"121f(%rip)\n"
	"	push 122f(%rip)\n	push 123f(%rip)\n	push 124f(%rip)\n"
	"	mov $2, %edi\n	lea 102f(%rip), %rsi\n	mov $0, %edx\n"
	"	mov $8, %r10d\n	mov $14, %eax\n	syscall\n"
	"	mov %r13, %rcx\n"
	"	jrcxz 21f\n"
	"	take\n"
	"	mov $-4, %rax\n" /* EINTR */
	"	jmp *107f(%rip)\n"
	"21:	take\n"
	"	jmp *104f(%rip)\n"

	/*
	 * The new thread: rbp is the exchange. It waits 10 s for each request, looking every ms; by
	 * the clock (CLOCK_MONOTONIC), as on a busy machine a sleep lasts longer.
	 */
	"30:	mov %rbp, %rbx\n"
	"	mov $186, %eax\n	syscall\n	mov %rax, 8(%rbx)\n" /* gettid */
	"	push $1000000\n	push $0\n	sub $16, %rsp\n"
	"31:	movl $1, (%rbx)\n"
	"	mov $1, %edi\n	mov %rsp, %rsi\n	mov $228, %eax\n	syscall\n"
	"	mov (%rsp), %r12\n	add $10, %r12\n"
	"32:	mov (%rbx), %eax\n"
	"	cmp $2, %eax\n	je 33f\n"
	"	cmp $3, %eax\n	je 34f\n"
	"	cmp $5, %eax\n	je 35f\n" /* it is not needed */
	"	lea 16(%rsp), %rdi\n	xor %esi, %esi\n	mov $35, %eax\n	syscall\n"
	"	mov $1, %edi\n	mov %rsp, %rsi\n	mov $228, %eax\n	syscall\n"
	"	cmp %r12, (%rsp)\n	jle 32b\n"
	/* The borrowed thread is to have left this memory. */
	"35:	cmpl $0, 16(%rbx)\n	jne 36f\n"
	"	lea 16(%rsp), %rdi\n	xor %esi, %esi\n	mov $35, %eax\n	syscall\n"
	"	jmp 35b\n"
	"36:	mov %rbx, %rdi\n	mov $0x40000, %esi\n	mov $11, %eax\n	syscall\n"
	"	xor %edi, %edi\n	mov $60, %eax\n	syscall\n"
	"33:	mov 24(%rbx), %rax\n	mov 32(%rbx), %rdi\n	mov 40(%rbx), %rsi\n"
	"	mov 48(%rbx), %rdx\n	mov 56(%rbx), %r10\n	mov 64(%rbx), %r8\n"
	"	mov 72(%rbx), %r9\n	syscall\n"
	"	mov %rax, 80(%rbx)\n"
	"	jmp 31b\n"
	"34:	mov 96(%rbx), %rsp\n"
	"	jmp *88(%rbx)\n"

	".balign 8\n"
	"raw_code_values:\n"
	"101:	.quad 0\n" /* struct raw_request, word by word */
	"102:	.quad 0\n"
	"103:	.quad 0\n"
	"104:	.quad 0\n"
	"105:	.quad 0\n"
	"106:	.quad 0\n"
	"107:	.quad 0\n"
	"108:	.quad 0\n"
	"109:	.quad 0\n" /* rax */
	"110:	.quad 0\n" /* rbx */
	"111:	.quad 0\n" /* rcx */
	"112:	.quad 0\n" /* rdx */
	"113:	.quad 0\n" /* rsi */
	"114:	.quad 0\n" /* rdi */
	"115:	.quad 0\n" /* rbp */
	"116:	.quad 0\n" /* rsp */
	"117:	.quad 0\n" /* r8 */
	"118:	.quad 0\n"
	"119:	.quad 0\n"
	"120:	.quad 0\n"
	"121:	.quad 0\n"
	"122:	.quad 0\n"
	"123:	.quad 0\n"
	"124:	.quad 0\n" /* r15 */
	"raw_code_end:\n"
	".popsection");

size_t raw_code_make(const struct raw_request *request, uint64_t code[TRAMPOLINE_CODE_MAX / 8])
{
	const size_t size = (size_t)(raw_code_end - raw_code_begin);

	if (size > TRAMPOLINE_CODE_MAX)
		return 0;
	memset(code, 0, TRAMPOLINE_CODE_MAX);
	memcpy(code, raw_code_begin, size);
	memcpy((char *)code + (raw_code_values - raw_code_begin), request, sizeof *request);
	return size;
}

bool raw_code_is_in(const char *bytes, uint64_t *memory)
{
	const size_t size = (size_t)(raw_code_values - raw_code_begin);
	struct raw_request request;

	memcpy(&request, bytes + size, sizeof request);
	*memory = request.memory;
	return memcmp(bytes, raw_code_begin, size) == 0;
}
#else
size_t raw_code_make(const struct raw_request *request, uint64_t code[TRAMPOLINE_CODE_MAX / 8])
{
	(void)request;
	(void)code;
	return 0;
}

bool raw_code_is_in(const char *bytes, uint64_t *memory)
{
	(void)bytes;
	*memory = 0;
	return false;
}
#endif
