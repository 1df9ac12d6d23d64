/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "agent/on_demand.h"
#include "unit.h"

#if defined(__x86_64__)
static const struct safe_point_hint no_hint = { .number = -1 };

/* The bytes before the instruction pointer, ending with `before`, and those at it. */
static enum safe_point_kind find(const char *before, size_t size, const char *at,
	const struct safe_point_hint *hint, struct safe_point_registers *registers)
{
	uint8_t code[SAFE_POINT_BEFORE + SAFE_POINT_BEHIND] = { 0 };

	memcpy(code + SAFE_POINT_BEFORE - size, before, size);
	memcpy(code + SAFE_POINT_BEFORE, at, SAFE_POINT_BEHIND);
	return safe_point_find(code, hint, registers);
}

#define CALL "\x0f\x05"
#define ELSEWHERE "\x48\x3d"
#define LOAD(number) "\x89\xb8" number "\x00\x00\x00" CALL
#define EPOLL_WAIT LOAD("\xe8")
#define NANOSLEEP LOAD("\x23")
#define CLOCK_NANOSLEEP LOAD("\xe6")
#define FUTEX LOAD("\xca")

static struct safe_point_registers interrupted(void)
{
	return (struct safe_point_registers){ .rax = (uint64_t)-EINTR, .rip = 0x401007 };
}

static enum safe_point_kind find_result(const char *before, const char *at, int64_t result)
{
	struct safe_point_registers registers = { .rax = (uint64_t)result };

	return find(before, strlen(before), at, &no_hint, &registers);
}

static void a_thread_is_started_only_out_of_a_waiting_call(void **state)
{
	(void)state;
	assert_int_equal(find_result(CALL, ELSEWHERE, -EINTR), SAFE_POINT_WAITING);
	assert_int_equal(find_result(CALL, ELSEWHERE, 0), SAFE_POINT_NONE);
	assert_int_equal(find_result(CALL, ELSEWHERE, -EAGAIN), SAFE_POINT_NONE);
	assert_int_equal(find_result("\x90\x90", CALL, SYS_ppoll), SAFE_POINT_WAITING);
	assert_int_equal(find_result("\x90\x90", CALL, SYS_clock_nanosleep), SAFE_POINT_WAITING);
	assert_int_equal(find_result("\x90\x90", CALL, SYS_futex), SAFE_POINT_NONE);
	assert_int_equal(find_result("\x90\x90", CALL, SYS_mmap), SAFE_POINT_NONE);
	assert_int_equal(find_result("\x90\x90", CALL, SYS_madvise), SAFE_POINT_NONE);
	assert_int_equal(find_result("\x90\x90", CALL, -EINTR), SAFE_POINT_NONE);
	assert_int_equal(find_result("\x90\x90", ELSEWHERE, -EINTR), SAFE_POINT_NONE);
}

static void a_wait_for_a_condition_is_none_for_a_lock(void **state)
{
	(void)state;
	enum { WAIT = 0, WAIT_BITSET = 9, PRIVATE = 128, CLOCK = 256 };
	struct safe_point_registers registers = { .rax = SYS_futex,
		.rsi = WAIT_BITSET | PRIVATE | CLOCK };

	assert_int_equal(find("\x90", 1, CALL, &no_hint, &registers), SAFE_POINT_WAITING);
	registers.rsi = WAIT | PRIVATE;
	assert_int_equal(find("\x90", 1, CALL, &no_hint, &registers), SAFE_POINT_NONE);
	registers = interrupted();
	registers.rsi = WAIT_BITSET | PRIVATE;
	assert_int_equal(find(FUTEX, 8, ELSEWHERE, &no_hint, &registers), SAFE_POINT_RESTART);
	registers = interrupted();
	registers.rsi = WAIT | PRIVATE;
	assert_int_equal(find(FUTEX, 8, ELSEWHERE, &no_hint, &registers), SAFE_POINT_WAITING);
}

static void an_interrupted_call_is_started_again(void **state)
{
	(void)state;
	struct safe_point_registers registers = interrupted();

	assert_int_equal(find(EPOLL_WAIT, 8, ELSEWHERE, &no_hint, &registers), SAFE_POINT_RESTART);
	assert_int_equal(registers.rax, SYS_epoll_wait);
	assert_int_equal(registers.rip, 0x401005);
	/* read: its number is 0. */
	registers = interrupted();
	assert_int_equal(
		find("\x89\x31\xc0" CALL, 5, ELSEWHERE, &no_hint, &registers), SAFE_POINT_RESTART);
	assert_int_equal(registers.rax, SYS_read);
}

static void a_number_is_not_taken_from_another_register(void **state)
{
	(void)state;
	struct safe_point_registers registers = interrupted();

	/* mov $232, %r8d and xor %r8d, %r8d */
	assert_int_equal(find("\x41\xb8\xe8\x00\x00\x00" CALL, 8, ELSEWHERE, &no_hint, &registers),
		SAFE_POINT_WAITING);
	assert_int_equal(
		find("\x45\x31\xc0" CALL, 5, ELSEWHERE, &no_hint, &registers), SAFE_POINT_WAITING);
	assert_int_equal(registers.rax, (uint64_t)-EINTR);
}

static void the_clients_number_counts_only_for_the_same_call(void **state)
{
	(void)state;
	struct safe_point_registers registers = interrupted();
	struct safe_point_hint hint = { .number = SYS_epoll_wait,
		.check = safe_point_check(&registers) };

	assert_int_equal(find("\x90" CALL, 3, ELSEWHERE, &hint, &registers), SAFE_POINT_RESTART);
	registers = interrupted();
	registers.rdi = 1;
	assert_int_equal(find("\x90" CALL, 3, ELSEWHERE, &hint, &registers), SAFE_POINT_WAITING);
	/* What stands in the code is certain. */
	registers = interrupted();
	hint.number = SYS_accept;
	assert_int_equal(find(EPOLL_WAIT, 8, ELSEWHERE, &hint, &registers), SAFE_POINT_RESTART);
	assert_int_equal(registers.rax, SYS_epoll_wait);
}

static void a_connection_is_not_started_again(void **state)
{
	(void)state;
	struct safe_point_registers registers = interrupted();

	assert_int_equal(
		find(LOAD("\x2a"), 8, ELSEWHERE, &no_hint, &registers), SAFE_POINT_WAITING);
}

static void a_sleep_continues_with_its_rest(void **state)
{
	(void)state;
	struct timespec wanted = { 60, 0 }, rest = { 59, 0 };
	struct safe_point_registers registers = interrupted();

	registers.rdi = (uint64_t)(uintptr_t)&wanted;
	registers.rsi = (uint64_t)(uintptr_t)&rest;
	assert_int_equal(find(NANOSLEEP, 8, ELSEWHERE, &no_hint, &registers), SAFE_POINT_RESTART);
	assert_ptr_equal((void *)(uintptr_t)registers.rdi, &rest);
	registers = interrupted();
	registers.rdx = (uint64_t)(uintptr_t)&wanted;
	registers.r10 = (uint64_t)(uintptr_t)&wanted;
	assert_int_equal(
		find(CLOCK_NANOSLEEP, 8, ELSEWHERE, &no_hint, &registers), SAFE_POINT_RESTART);
	assert_ptr_equal((void *)(uintptr_t)registers.rdx, &wanted);
	/* Until a moment. */
	registers = interrupted();
	registers.rsi = 1;
	registers.rdx = (uint64_t)(uintptr_t)&wanted;
	assert_int_equal(
		find(CLOCK_NANOSLEEP, 8, ELSEWHERE, &no_hint, &registers), SAFE_POINT_RESTART);
}

static void a_sleep_whose_rest_is_unknown_begins_anew_when_it_is_short(void **state)
{
	(void)state;
	struct timespec wanted = { 0, 999999999 };
	struct safe_point_registers registers = interrupted();

	registers.rdi = (uint64_t)(uintptr_t)&wanted;
	assert_int_equal(find(NANOSLEEP, 8, ELSEWHERE, &no_hint, &registers), SAFE_POINT_RESTART);
	registers = interrupted();
	registers.rdi = (uint64_t)(uintptr_t)&wanted;
	wanted = (struct timespec){ 1, 0 };
	assert_int_equal(find(NANOSLEEP, 8, ELSEWHERE, &no_hint, &registers), SAFE_POINT_WAITING);
}

#else
static void an_interrupted_call_is_known_by_its_machine_code(void **state)
{
	(void)state;
	skip_because("interrupted calls are recognized on x86-64 only");
}
#endif

static const struct CMUnitTest tests[] = {
#if defined(__x86_64__)
	cmocka_unit_test(a_thread_is_started_only_out_of_a_waiting_call),
	cmocka_unit_test(a_wait_for_a_condition_is_none_for_a_lock),
	cmocka_unit_test(an_interrupted_call_is_started_again),
	cmocka_unit_test(a_number_is_not_taken_from_another_register),
	cmocka_unit_test(the_clients_number_counts_only_for_the_same_call),
	cmocka_unit_test(a_connection_is_not_started_again),
	cmocka_unit_test(a_sleep_continues_with_its_rest),
	cmocka_unit_test(a_sleep_whose_rest_is_unknown_begins_anew_when_it_is_short),
#else
	cmocka_unit_test(an_interrupted_call_is_known_by_its_machine_code),
#endif
};
UNIT_MAIN(tests)
