/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of one thread that computes without a system call, and notices when a register, a flag
 * or a byte below its stack pointer changes. Prints "ready", and at SIGUSR1 "ok" and a count, or
 * what went wrong.
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>

static volatile sig_atomic_t is_ending;

static void end(int number)
{
	(void)number;
	is_ending = 1;
}

/* 1000 steps of 3; each but the first adds the carry that the one before has set. */
static uint64_t compute(uint64_t *kept)
{
	uint64_t sum = 0;

	__asm__ volatile("	mov $0x1111, %%r8\n	mov $0x2222, %%r9\n"
			 "	mov $0x3333, %%r10\n	mov $0x4444, %%r11\n"
			 "	mov $0x5555, %%r12\n	mov $0x6666, %%r13\n"
			 "	mov $0x7777, %%r14\n	mov $0x8888, %%r15\n"
			 "	movq %%r8, %%xmm7\n"
			 "	xor %%eax, %%eax\n"
			 "	mov $1000, %%ecx\n"
			 "	clc\n"
			 "1:	adc $3, %%rax\n"
			 "	lea -1(%%rcx), %%rcx\n"
			 "	jrcxz 2f\n"
			 "	mov %%rax, -64(%%rsp)\n"
			 "	mov $0, %%eax\n"
			 "	mov -64(%%rsp), %%rax\n"
			 "	cmc\n"
			 "	jmp 1b\n"
			 "2:	movq %%xmm7, %%rdx\n"
			 "	add %%r8, %%rdx\n	add %%r9, %%rdx\n	add %%r10, %%rdx\n"
			 "	add %%r11, %%rdx\n	add %%r12, %%rdx\n	add %%r13, %%rdx\n"
			 "	add %%r14, %%rdx\n	add %%r15, %%rdx\n"
			 : "=&a"(sum), "=&d"(*kept)
			 :
			 : "rcx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm7",
			 "cc", "memory");
	return sum;
}

int main(void)
{
	const uint64_t sum = 3 * 1000 + 999, numbers = 0x1111 * 37;
	uint64_t kept = 0;
	unsigned long rounds = 0;

	signal(SIGUSR1, end);
	puts("ready");
	fflush(stdout);
	for (; !is_ending; rounds++) {
		const uint64_t now = compute(&kept);
		if (now != sum || kept != numbers) {
			printf("changed: %llu %llx\n", (unsigned long long)now,
				(unsigned long long)kept);
			return 1;
		}
	}
	printf("ok %lu\n", rounds);
	return 0;
}
