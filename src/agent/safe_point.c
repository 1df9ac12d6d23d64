/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/safe_point.h"

#include <errno.h>
#include <linux/futex.h>
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

static bool is_system_call(const uint8_t *code)
{
	return code[0] == 0x0f && code[1] == 0x05;
}

/* Calls that a program waits in, without a lock of any library. */
static bool waits(int64_t number)
{
	static const uint16_t calls[] = {
#if defined(__x86_64__)
		SYS_poll,
		SYS_select,
		SYS_epoll_wait,
		SYS_pause,
#endif
		SYS_ppoll,
		SYS_pselect6,
		SYS_epoll_pwait,
		SYS_epoll_pwait2,
		SYS_read,
		SYS_readv,
		SYS_recvfrom,
		SYS_recvmsg,
		SYS_recvmmsg,
		SYS_accept,
		SYS_accept4,
		SYS_nanosleep,
		SYS_clock_nanosleep,
		SYS_rt_sigsuspend,
		SYS_rt_sigtimedwait,
		SYS_wait4,
		SYS_waitid,
		SYS_restart_syscall,
		SYS_io_getevents,
		SYS_io_uring_enter,
		SYS_msgrcv,
		SYS_mq_timedreceive
	};

	for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
		if (number == calls[i])
			return true;
	}
	return false;
}

/* As the C library waits for conditions, semaphores and threads, and never for a lock of its own.
 */
static bool waits_for_condition(int64_t number, const struct safe_point_registers *registers)
{
	return number == SYS_futex && (registers->rsi & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET;
}

/* A prefix makes it another register than %eax. Or it is the end of the instruction before. */
static bool may_be_prefix(uint8_t byte)
{
	return byte >= 0x40 && byte <= 0x4f;
}

/* The number that the instruction before the call loads; -1. */
static int loaded_number(const uint8_t code[SAFE_POINT_BEFORE])
{
	const uint8_t *const call = code + SAFE_POINT_BEFORE - 2;
	uint32_t number;

	/* xor %eax, %eax */
	if (call[-2] == 0x31 && call[-1] == 0xc0 && !may_be_prefix(call[-3]))
		return 0;
	/* mov $NUMBER, %eax */
	if (call[-5] != 0xb8 || may_be_prefix(call[-6]))
		return -1;
	memcpy(&number, call - sizeof number, sizeof number);
	return number < 1024 ? (int)number : -1;
}

unsigned safe_point_check(const struct safe_point_registers *registers)
{
	const uint64_t parts[] = { registers->rdi, registers->rsi, registers->rdx, registers->r10,
		registers->rip, registers->rsp };
	uint64_t hash = 0;

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		hash = (hash ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return (unsigned)(hash >> (64 - SAFE_POINT_CHECK_BITS));
}

static int find_number(const uint8_t code[SAFE_POINT_BEFORE], const struct safe_point_hint *hint,
	const struct safe_point_registers *registers)
{
	const int loaded = loaded_number(code);

	if (loaded >= 0)
		return loaded;
	return hint->number >= 0 && hint->check == safe_point_check(registers) ? hint->number : -1;
}

/*
 * A sleep whose remainder the kernel has written is resumed with that. One without a remainder
 * starts again if it is short; otherwise it ends early, as with any signal.
 */
static bool can_sleep_again(uint64_t *wanted, uint64_t rest)
{
	const struct timespec *const time = (const struct timespec *)(uintptr_t)*wanted;

	if (rest != 0)
		*wanted = rest;
	return rest != 0 || time->tv_sec < 1;
}

/* Whether the call with these registers can be resumed unnoticed. */
static bool can_restart(int number, struct safe_point_registers *registers)
{
	enum { ABSOLUTE = 1 };

	switch (number) {
	case SYS_nanosleep:
		return can_sleep_again(&registers->rdi, registers->rsi);
	case SYS_clock_nanosleep:
		return (registers->rsi & ABSOLUTE) != 0 ||
		       can_sleep_again(&registers->rdx, registers->r10);
	case SYS_futex:
		/* Its timeout is a point in time, not a duration. */
		return waits_for_condition(number, registers);
	case SYS_restart_syscall:
		return false;
	default:
		/* Those with a timeout update it, or wait for all of it again: poll, epoll_wait. */
		return waits(number);
	}
}

enum safe_point_kind safe_point_find(const uint8_t code[SAFE_POINT_BEFORE + SAFE_POINT_BEHIND],
	const struct safe_point_hint *hint, struct safe_point_registers *registers)
{
	const int64_t result = (int64_t)registers->rax;
	struct safe_point_registers again = *registers;

	/*
	 * The kernel restarts it: the pointer is back at the call and the register holds its
	 * number. It is the same before the first start of a call, such as the allocator's own
	 * mmap.
	 */
	if (is_system_call(code + SAFE_POINT_BEFORE) &&
		(waits(result) || waits_for_condition(result, registers)))
		return SAFE_POINT_WAITING;
	/* Else the call has returned EINTR. */
	if (!is_system_call(code + SAFE_POINT_BEFORE - 2) || result != -EINTR)
		return SAFE_POINT_NONE;
	const int number = find_number(code, hint, registers);
	if (number < 0 || !can_restart(number, &again))
		return SAFE_POINT_WAITING;
	again.rax = (uint64_t)number;
	again.rip -= 2;
	*registers = again;
	return SAFE_POINT_RESTART;
}
