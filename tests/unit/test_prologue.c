/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/prologue.h"

#include <string.h>
#include <sys/mman.h>

#include "unit.h"

enum { HERE = 0x10000, THERE = 0x40000000 };

static bool move(struct prologue *prologue, const void *bytes, size_t size, struct error *err)
{
	return prologue_move(prologue, bytes, size, HERE, THERE, err);
}

#define MOVE(prologue, text, err) move(prologue, text, sizeof text - 1, err)

static void refuses(const char *bytes, size_t size, const char *reason)
{
	struct prologue prologue;
	struct error err;

	assert_false(move(&prologue, bytes, size, &err));
	assert_non_null(strstr(err.message, reason));
}

#define REFUSES(text, reason) refuses(text, sizeof text - 1, reason)

static int32_t distance_at(const struct prologue *prologue, size_t at)
{
	int32_t distance;

	memcpy(&distance, prologue->moved + at, sizeof distance);
	return distance;
}

static void plain_instructions_are_copied(void **state)
{
	/* push %rbp; mov %rsp,%rbp; sub $16,%rsp; ret */
	static const char code[] = "\x55\x48\x89\xe5\x48\x83\xec\x10\xc3";
	struct prologue prologue;
	struct error err;

	(void)state;
	assert_true(MOVE(&prologue, code, &err));
	assert_int_equal(prologue.length, 8);
	assert_int_equal(prologue.moved_bytes, 8 + 5);
	assert_memory_equal(prologue.moved, code, 8);
	assert_int_equal(prologue.moved[8], 0xe9);
	assert_int_equal(distance_at(&prologue, 9), HERE + 8 - (THERE + 13));
}

static void an_operand_that_counts_from_here_means_the_same(void **state)
{
	/* mov 0x1234(%rip),%rax; ret */
	static const char code[] = "\x48\x8b\x05\x34\x12\x00\x00\xc3";
	/* cmpl $1,0x1234(%rip): the constant is behind the distance */
	static const char compare[] = "\x83\x3d\x34\x12\x00\x00\x01\xc3";
	struct prologue prologue;
	struct error err;

	(void)state;
	assert_true(MOVE(&prologue, code, &err));
	assert_int_equal(THERE + 7 + distance_at(&prologue, 3), HERE + 7 + 0x1234);
	assert_true(MOVE(&prologue, compare, &err));
	assert_int_equal(THERE + 7 + distance_at(&prologue, 2), HERE + 7 + 0x1234);
	assert_int_equal(prologue.moved[6], 1);
}

static void a_short_branch_becomes_a_long_one(void **state)
{
	/* test %rdi,%rdi; je +0x20; and enough behind it */
	static const char code[] = "\x48\x85\xff\x74\x20\x90\x90\x90\x90\x90\x90\x90\x90\xc3";
	/* the long form of jne */
	static const char far_one[] = "\x0f\x85\x20\x01\x00\x00\xc3";
	/* jmp +0x100 */
	static const char jump[] = "\xe9\x00\x01\x00\x00";
	struct prologue prologue;
	struct error err;

	(void)state;
	assert_true(MOVE(&prologue, code, &err));
	assert_int_equal(prologue.length, 5);
	assert_memory_equal(prologue.moved + 3, "\x0f\x84", 2);
	assert_int_equal(THERE + 9 + distance_at(&prologue, 5), HERE + 5 + 0x20);
	assert_true(MOVE(&prologue, far_one, &err));
	assert_int_equal(THERE + 6 + distance_at(&prologue, 2), HERE + 6 + 0x120);
	assert_true(MOVE(&prologue, jump, &err));
	assert_int_equal(THERE + 5 + distance_at(&prologue, 1), HERE + 5 + 0x100);
}

static void what_would_not_be_the_same_is_refused(void **state)
{
	(void)state;
	REFUSES("", "is too short");
	REFUSES("\xc3", "is too short");
	REFUSES("\x31\xc0\xc3\xcc\xcc\xcc\xcc", "is too short");
	REFUSES("\x90\xeb\x10\x90\x90\x90\x90", "is too short");
	REFUSES("\x90\x90\x90\x90", "is too short");
	REFUSES("\xe8\x00\x00\x00\x00\xc3", "calls another function");
	REFUSES("\xff\xd0\x90\x90\x90\x90\xc3", "calls another function");
	REFUSES("\x0f\x05\x90\x90\x90\x90\xc3", "system call or a trap");
	REFUSES("\xcc\x90\x90\x90\x90\xc3", "system call or a trap");
	REFUSES("\x0f\x0b\x90\x90\x90\x90\xc3", "system call or a trap");
	REFUSES("\xe2\x10\x90\x90\x90\xc3", "no long form");
	REFUSES("\xe3\x10\x90\x90\x90\xc3", "no long form");
	/* xbegin: kind of a conditional branch */
	REFUSES("\xc7\xf8\x00\x01\x00\x00\xc3", "cannot be moved");
	REFUSES("\x06\x90\x90\x90\x90\xc3", "no instruction");
	/* mov 0x10(%eip),%eax */
	REFUSES("\x67\x8b\x05\x10\x00\x00\x00\xc3", "cannot be moved");
}

static void a_branch_into_what_is_overwritten_is_refused(void **state)
{
	(void)state;
	/* 1: nop; dec %eax; nop; nop; ...; jne 1b + 1 */
	REFUSES("\x90\xff\xc8\x90\x90\x90\x90\x75\xf8\xc3", "jumps back");
	/* out of the first instructions, into them: je +1 */
	REFUSES("\x74\x01\x90\x90\x90\x90\xc3", "jumps back");
	/* lea -8(%rip): its own second byte */
	REFUSES("\x90\x90\x90\x90\x90\x48\x8d\x05\xf5\xff\xff\xff\xc3", "jumps back");
}

static void what_is_too_far_is_refused(void **state)
{
	static const unsigned char code[] = "\x48\x8b\x05\x34\x12\x00\x00\xc3";
	static const unsigned char plain[] = "\x55\x48\x89\xe5\x48\x83\xec\x10\xc3";
	struct prologue prologue;
	struct error err;
	unsigned char jump[ENTRY_JUMP_BYTES];

	(void)state;
	assert_false(
		prologue_move(&prologue, code, sizeof code - 1, HERE, UINT64_C(0x100000000), &err));
	assert_false(prologue_move(
		&prologue, plain, sizeof plain - 1, HERE, UINT64_C(0x100000000), &err));
	assert_true(prologue_jump(jump, HERE, UINT64_C(5) + HERE + INT32_MAX));
	assert_false(prologue_jump(jump, HERE, UINT64_C(1) + UINT64_C(5) + HERE + INT32_MAX));
	assert_true(prologue_jump(jump, UINT64_C(0x100000000), UINT64_C(0x80000005)));
	assert_false(prologue_jump(jump, UINT64_C(0x100000000), UINT64_C(0x80000004)));
}

#if defined(__x86_64__)
/*
 * Functions that are run where they were moved to: each adds up its argument and a constant, by
 * what is in its first instructions.
 */
extern const unsigned char moved_begin[], moved_plain[], moved_data[], moved_branch[],
	moved_endbr[], moved_end[];

__asm__(".pushsection .text\n"
	".globl moved_begin, moved_plain, moved_data, moved_branch, moved_endbr, moved_end\n"
	".hidden moved_begin, moved_plain, moved_data, moved_branch, moved_endbr, moved_end\n"
	"moved_begin:\n"
	"moved_plain: push %rbp\n mov %rsp, %rbp\n lea 5(%rdi), %rax\n pop %rbp\n ret\n"
	"moved_data: mov 1f(%rip), %eax\n add %rdi, %rax\n ret\n"
	"moved_branch: test %rdi, %rdi\n jz 2f\n lea 7(%rdi), %rax\n ret\n"
	"2: mov $77, %eax\n ret\n"
	"moved_endbr: endbr64\n push %rbx\n lea 11(%rdi), %rax\n pop %rbx\n ret\n"
	"1: .long 9\n"
	"moved_end:\n"
	".popsection\n");

typedef uint64_t moved_function(uint64_t argument);

/* Moves the function out of a copy of all of them, and calls it with the copy's beginning
 * overwritten by a jump to a trap. */
static uint64_t call_moved(
	unsigned char *pages, const unsigned char *function, size_t size, uint64_t argument)
{
	enum { PAGE = 4096 };
	const size_t at = (size_t)(function - moved_begin);
	unsigned char *const to = pages + PAGE;
	struct prologue prologue;
	struct error err;

	assert_int_equal(mprotect(pages, 2 * PAGE, PROT_READ | PROT_WRITE), 0);
	memcpy(pages, moved_begin, (size_t)(moved_end - moved_begin));
	assert_true(prologue_move(
		&prologue, pages + at, size, (uintptr_t)(pages + at), (uintptr_t)to, &err));
	memcpy(to, prologue.moved, prologue.moved_bytes);
	memset(pages + at, 0xcc, prologue.length);
	assert_int_equal(mprotect(pages, 2 * PAGE, PROT_READ | PROT_EXEC), 0);
	return __extension__((moved_function *)(void *)to)(argument);
}

static void a_moved_function_returns_what_it_did(void **state)
{
	unsigned char *const pages =
		mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_true(pages != MAP_FAILED);
	assert_int_equal(call_moved(pages, moved_plain, (size_t)(moved_data - moved_plain), 1), 6);
	assert_int_equal(call_moved(pages, moved_data, (size_t)(moved_branch - moved_data), 1), 10);
	assert_int_equal(
		call_moved(pages, moved_branch, (size_t)(moved_endbr - moved_branch), 1), 8);
	assert_int_equal(
		call_moved(pages, moved_branch, (size_t)(moved_endbr - moved_branch), 0), 77);
	assert_int_equal(
		call_moved(pages, moved_endbr, (size_t)(moved_end - moved_endbr) - 4, 1), 12);
	munmap(pages, 8192);
}
#endif

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(plain_instructions_are_copied),
	cmocka_unit_test(an_operand_that_counts_from_here_means_the_same),
	cmocka_unit_test(a_short_branch_becomes_a_long_one),
	cmocka_unit_test(what_would_not_be_the_same_is_refused),
	cmocka_unit_test(a_branch_into_what_is_overwritten_is_refused),
	cmocka_unit_test(what_is_too_far_is_refused),
#if defined(__x86_64__)
	cmocka_unit_test(a_moved_function_returns_what_it_did),
#endif
};

UNIT_MAIN(tests)
