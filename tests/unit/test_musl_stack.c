/* SPDX-License-Identifier: Apache-2.0 */
/* What musl's code and the words of a stack show. The process that is read is this one. */
#include "inject/musl_stack.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit.h"

enum { WAIT = 0x1000, RESTORER = 0x2000, SPARE = 0x3000, SPARE_BYTES = 0x100, WORDS = 512 };

static const struct musl_code code = { .wait = WAIT, .restorer = RESTORER };

static void a_thread_waits_at_one_instruction(void **state)
{
	const struct musl_code none = { 0 };

	(void)state;
	assert_true(musl_is_waiting(&code, WAIT, SYS_futex));
	assert_true(musl_is_waiting(&code, WAIT - 2, SYS_ppoll)); /* begins anew */
	assert_false(musl_is_waiting(&code, WAIT + 1, SYS_futex));
	assert_false(musl_is_waiting(&code, WAIT, SYS_fsync));
	assert_false(musl_is_waiting(&none, 0, SYS_futex));
}

static void a_start_calls_exit_with_the_result(void **state)
{
	static unsigned char bytes[64];
	const uint64_t begin = (uint64_t)(uintptr_t)bytes;
	struct remote_module module = {
		.begin = begin, .end = begin + sizeof bytes, .role = REMOTE_LIBC
	};
	struct remote_process remote = {
		.memory = open("/proc/self/mem", O_RDONLY), .modules = &module, .count = 1
	};
	const struct musl_code ends = { .exit = begin + 32, .pthread_exit = begin + 48 };

	(void)state;
	memcpy(bytes, "\x89\xc7\xe8\x19\x00\x00\x00", 7); /* exit(result) */
	assert_true(musl_is_start(&ends, &remote, begin));
	memcpy(bytes, "\x48\x89\xc7\xe8\x28\x00\x00\x00", 8); /* pthread_exit(result) */
	assert_true(musl_is_start(&ends, &remote, begin));
	memcpy(bytes, "\x48\x63\xf8\xe8\x28\x00\x00\x00", 8);
	assert_true(musl_is_start(&ends, &remote, begin));
	bytes[4] = 0x29; /* another function */
	assert_false(musl_is_start(&ends, &remote, begin));
	memcpy(bytes, "\x89\xc7\xe8\x29\x00\x00\x00", 7); /* pthread_exit with an int */
	assert_false(musl_is_start(&ends, &remote, begin));
	memcpy(bytes, "\x89\xc7\xe8\x19\x00\x00\x00", 7);
	module.role = REMOTE_LIBRARY;
	assert_false(musl_is_start(&ends, &remote, begin));
	close(remote.memory);
}

static void a_fork_that_waits_for_a_lock_is_on_the_stack(void **state)
{
	static unsigned char bytes[64];
	const uint64_t begin = (uint64_t)(uintptr_t)bytes;
	uint64_t stack[64] = { 0 };
	const uint64_t sp = (uint64_t)(uintptr_t)stack;
	const struct musl_code forks = {
		.wait = WAIT, .restorer = RESTORER, .fork = { begin, begin + sizeof bytes }
	};
	struct remote_process remote = { .memory = open("/proc/self/mem", O_RDONLY) };

	(void)state;
	bytes[10] = 0xe8; /* a call returns behind it */
	assert_false(musl_is_forking(&forks, &remote, sp, 1, SYS_futex));
	stack[5] = begin + 14;
	assert_false(musl_is_forking(&forks, &remote, sp, 1, SYS_futex));
	stack[5] = begin + 15;
	assert_true(musl_is_forking(&forks, &remote, sp, 1, SYS_futex));
	assert_false(musl_is_forking(&forks, &remote, sp, 1, SYS_read));
	/* At a cancellation point it waits for the program. */
	assert_false(musl_is_forking(&forks, &remote, sp, WAIT, SYS_futex));
	close(remote.memory);
}

static void words_of_a_stack(void **state)
{
	struct remote_module module = {
		.begin = 0x100, .end = SPARE, .spare = SPARE, .spare_bytes = SPARE_BYTES
	};
	struct remote_process remote = {
		.memory = open("/proc/self/mem", O_RDONLY), .modules = &module, .count = 1
	};
	static uint64_t stack[WORDS];
	const uint64_t sp = (uint64_t)(uintptr_t)stack;
	uint64_t words[4];
	bool is_whole = false;

	(void)state;
	stack[3] = RESTORER;
	stack[5] = SPARE - 1;
	stack[7] = SPARE + SPARE_BYTES - 1;
	stack[9] = SPARE + SPARE_BYTES;
	stack[WORDS - 1] = SPARE;
	assert_int_equal(
		musl_find_words(&code, &remote, sp, sp + sizeof stack, words, 4, &is_whole), 3);
	assert_true(is_whole);
	assert_int_equal(words[0], RESTORER);
	assert_int_equal(words[1], SPARE + SPARE_BYTES - 1);
	assert_int_equal(words[2], SPARE);
	/* No room for the last one. */
	assert_int_equal(
		musl_find_words(&code, &remote, sp, sp + sizeof stack, words, 2, &is_whole), 2);
	assert_false(is_whole);
	/* Not beyond its top. */
	assert_int_equal(musl_find_words(&code, &remote, sp, sp + 16, words, 4, &is_whole), 0);
	assert_true(is_whole);
	close(remote.memory);
}

static void a_stack_that_is_too_long(void **state)
{
	enum { STACK_BYTES = 9 * 1024 * 1024 };
	struct remote_process remote = { .memory = open("/proc/self/mem", O_RDONLY) };
	bool is_whole = true;
	uint64_t words[1];
	void *const stack =
		mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(stack, MAP_FAILED);
	assert_int_equal(
		musl_find_words(&code, &remote, (uint64_t)(uintptr_t)stack, 0, words, 1, &is_whole),
		0);
	assert_false(is_whole);
	munmap(stack, STACK_BYTES);
	close(remote.memory);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_thread_waits_at_one_instruction),
	cmocka_unit_test(a_start_calls_exit_with_the_result),
	cmocka_unit_test(a_fork_that_waits_for_a_lock_is_on_the_stack),
	cmocka_unit_test(words_of_a_stack),
	cmocka_unit_test(a_stack_that_is_too_long),
};

UNIT_MAIN(tests)
