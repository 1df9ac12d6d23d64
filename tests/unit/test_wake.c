/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <sys/syscall.h>

#include "agent/on_demand.h"
#include "client/wake.h"
#include "unit.h"

enum { SIGNAL = 61 };

#define STATUS(state, blocked, seccomp)                             \
	"Name:\tx\nState:\t" state " (sleeping)\nSigBlk:\t" blocked \
	"\nSigCgt:\t1000000000000000\n" seccomp "voluntary_ctxt_switches:\t17\n"
#define NO_SIGNALS "0000000000000000"

static enum wake_rank rank_of(long call, const char *arguments)
{
	char line[200];

	snprintf(line, sizeof line, "%ld %s 0x7ffe0000 0x7f0000001234\n", call, arguments);
	return wake_choose(STATUS("S", NO_SIGNALS, ""), line, SIGNAL).rank;
}

static void endless_waits_continue_exactly_and_others_wait_anew(void **state)
{
	(void)state;
	assert_int_equal(rank_of(SYS_epoll_pwait, "0x5 0x1 0x80 0xffffffff 0x0 0x8"), WAKE_EXACT);
	assert_int_equal(rank_of(SYS_epoll_pwait, "0x5 0x1 0x80 0x64 0x0 0x8"), WAKE_ANEW);
#if defined(__x86_64__)
	assert_int_equal(rank_of(SYS_epoll_wait, "0x5 0x1 0x80 0xffffffff 0x0 0x8"), WAKE_EXACT);
	assert_int_equal(rank_of(SYS_epoll_wait, "0x5 0x1 0x80 0x64 0x0 0x8"), WAKE_ANEW);
	assert_int_equal(rank_of(SYS_poll, "0x5 0x1 0xffffffffffffffff 0x0 0x0 0x0"), WAKE_EXACT);
	assert_int_equal(rank_of(SYS_poll, "0x5 0x1 0x1388 0x0 0x0 0x0"), WAKE_ANEW);
	assert_int_equal(rank_of(SYS_pause, "0x0 0x0 0x0 0x0 0x0 0x0"), WAKE_EXACT);
#endif
	/* clock_nanosleep: with a rest, without, until a moment */
	assert_int_equal(rank_of(SYS_clock_nanosleep, "0x0 0x0 0x7ff0 0x7ff0 0x0 0x0"), WAKE_EXACT);
	assert_int_equal(rank_of(SYS_clock_nanosleep, "0x0 0x0 0x7ff0 0x0 0x0 0x0"), WAKE_ANEW);
	assert_int_equal(rank_of(SYS_clock_nanosleep, "0x0 0x1 0x7ff0 0x0 0x0 0x0"), WAKE_EXACT);
}

static void neither_locks_nor_waits_for_signals_are_interrupted(void **state)
{
	(void)state;
	/* futex: for a lock, for a condition; rt_sigtimedwait; connect; not in a call */
	assert_int_equal(rank_of(SYS_futex, "0x7f00 0x80 0x2 0x0 0x0 0x0"), WAKE_NEVER);
	assert_int_equal(rank_of(SYS_futex, "0x7f00 0x189 0x2 0x0 0x0 0xffffffff"), WAKE_EXACT);
	assert_int_equal(rank_of(SYS_rt_sigtimedwait, "0x7f00 0x0 0x0 0x8 0x0 0x0"), WAKE_NEVER);
	assert_int_equal(rank_of(SYS_connect, "0x3 0x7f00 0x10 0x0 0x0 0x0"), WAKE_NEVER);
	assert_int_equal(
		wake_choose(STATUS("S", NO_SIGNALS, ""), "-1 0x7ffe0000 0x7f0000001234\n", SIGNAL)
			.rank,
		WAKE_NEVER);
	assert_int_equal(
		wake_choose(STATUS("S", NO_SIGNALS, ""), "running\n", SIGNAL).rank, WAKE_NEVER);
}

static void calls_that_return_a_part_are_not_interrupted(void **state)
{
	(void)state;
	/* recvfrom and recvmsg: MSG_WAITALL, without */
	assert_int_equal(rank_of(SYS_recvfrom, "0x3 0x7f00 0x64 0x100 0x0 0x0"), WAKE_NEVER);
	assert_int_equal(rank_of(SYS_recvfrom, "0x3 0x7f00 0x64 0x0 0x0 0x0"), WAKE_EXACT);
	assert_int_equal(rank_of(SYS_recvmsg, "0x3 0x7f00 0x100 0x0 0x0 0x0"), WAKE_NEVER);
	assert_int_equal(rank_of(SYS_recvmsg, "0x3 0x7f00 0x0 0x0 0x0 0x0"), WAKE_EXACT);
	/* recvmmsg: two messages, one, at least one of two */
	assert_int_equal(rank_of(SYS_recvmmsg, "0x3 0x7f00 0x2 0x0 0x0 0x0"), WAKE_NEVER);
	assert_int_equal(rank_of(SYS_recvmmsg, "0x3 0x7f00 0x1 0x0 0x0 0x0"), WAKE_ANEW);
	assert_int_equal(rank_of(SYS_recvmmsg, "0x3 0x7f00 0x2 0x10000 0x0 0x0"), WAKE_ANEW);
	/* io_getevents: two events, one; io_uring_enter: submits, two events, one */
	assert_int_equal(rank_of(SYS_io_getevents, "0x7f00 0x2 0x2 0x7f00 0x0 0x0"), WAKE_NEVER);
	assert_int_equal(rank_of(SYS_io_getevents, "0x7f00 0x1 0x2 0x7f00 0x0 0x0"), WAKE_ANEW);
	assert_int_equal(rank_of(SYS_io_uring_enter, "0x3 0x1 0x1 0x1 0x0 0x8"), WAKE_NEVER);
	assert_int_equal(rank_of(SYS_io_uring_enter, "0x3 0x0 0x2 0x1 0x0 0x8"), WAKE_NEVER);
	assert_int_equal(rank_of(SYS_io_uring_enter, "0x3 0x0 0x1 0x1 0x0 0x8"), WAKE_ANEW);
}

static void only_a_sleeping_thread_that_takes_the_signal_is_chosen(void **state)
{
	(void)state;
	char pause[100];

	snprintf(pause, sizeof pause, "%d 0x0 0x0 0x0 0x0 0x0 0x0 0x7ffe0000 0x7f0000001234\n",
		SYS_rt_sigsuspend);
	struct wake_choice choice = wake_choose(STATUS("S", NO_SIGNALS, ""), pause, SIGNAL);
	assert_int_equal(choice.rank, WAKE_EXACT);
	assert_int_equal(choice.switches, 17);
	choice = wake_choose(STATUS("R", NO_SIGNALS, ""), pause, SIGNAL);
	assert_int_equal(choice.rank, WAKE_NEVER);
	assert_false(choice.blocks_signal);
	choice = wake_choose(STATUS("S", "1000000000000000", ""), pause, SIGNAL);
	assert_int_equal(choice.rank, WAKE_NEVER);
	assert_true(choice.blocks_signal);
	assert_int_equal(wake_choose(STATUS("S", NO_SIGNALS, ""), NULL, SIGNAL).rank, WAKE_UNKNOWN);
}

static void the_signal_carries_what_the_agent_checks(void **state)
{
	(void)state;
	const struct safe_point_registers registers = { .rdi = 5,
		.rsi = 1,
		.rdx = 128,
		.r10 = 0xffffffff,
		.rip = 0x7f0000001234,
		.rsp = 0x7ffe0000 };
	const uint64_t value =
		wake_choose(STATUS("S", NO_SIGNALS, "Seccomp:\t2\nSeccomp_filters:\t3\n"),
			"232 0x5 0x1 0x80 0xffffffff 0x0 0x8 0x7ffe0000 0x7f0000001234\n", SIGNAL)
			.value;

	assert_int_equal((uint32_t)value, 0x6c746368);
	assert_int_equal(value >> 32 & 1023, 233);
	assert_int_equal(value >> 42 & 255, 3);
	assert_int_equal(value >> 50, safe_point_check(&registers));
}

static void filters_are_counted(void **state)
{
	(void)state;
	assert_int_equal(wake_filters("Seccomp:\t0\nSeccomp_filters:\t0\n"), 0);
	assert_int_equal(wake_filters("Seccomp:\t2\nSeccomp_filters:\t2\n"), 2);
	assert_int_equal(wake_filters("Seccomp:\t2\n"), -1);
	assert_int_equal(wake_filters("Seccomp:\t1\nSeccomp_filters:\t0\n"), -1);
	assert_int_equal(wake_filters("Name:\tx\n"), 0);
}

static bool permits(const char *uid, const char *capabilities, const char *limit, bool is_first)
{
	char status[200], limits[100];

	snprintf(status, sizeof status, "Name:\tx\nUid:\t%s\nThreads:\t3\nCapEff:\t%s\n", uid,
		capabilities);
	snprintf(limits, sizeof limits, "Limit  Soft Limit\nMax processes    %s   99   processes\n",
		limit);
	return wake_limit_permits_thread(status, limits, is_first, is_first);
}

static void a_limit_of_processes_counts_as_in_the_kernel(void **state)
{
	static const char sys_admin[] = "0000000000200000", sys_resource[] = "0000000001000000",
			  all_others[] = "000001fffedfffff", none[] = "0000000000000000";

	(void)state;
	assert_true(permits("33\t33\t33\t33", none, "4", true));
	assert_false(permits("33\t33\t33\t33", none, "3", true));
	assert_true(permits("33\t33\t33\t33", none, "unlimited", true));
	/* the real user 0, not the effective one */
	assert_true(permits("0\t33\t33\t33", none, "0", true));
	assert_false(permits("33\t0\t33\t33", none, "0", true));
	/* two rights, and no other */
	assert_true(permits("33\t33\t33\t33", sys_admin, "0", true));
	assert_true(permits("33\t33\t33\t33", sys_resource, "0", true));
	assert_false(permits("33\t33\t33\t33", all_others, "0", true));
	/* user 0 of a container, with all its rights */
	assert_false(permits("0\t0\t0\t0", "000001ffffffffff", "0", false));
	assert_true(wake_limit_permits_thread("", "", true, true));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(endless_waits_continue_exactly_and_others_wait_anew),
	cmocka_unit_test(neither_locks_nor_waits_for_signals_are_interrupted),
	cmocka_unit_test(calls_that_return_a_part_are_not_interrupted),
	cmocka_unit_test(only_a_sleeping_thread_that_takes_the_signal_is_chosen),
	cmocka_unit_test(the_signal_carries_what_the_agent_checks),
	cmocka_unit_test(filters_are_counted),
	cmocka_unit_test(a_limit_of_processes_counts_as_in_the_kernel),
};
UNIT_MAIN(tests)
