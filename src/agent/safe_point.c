/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/safe_point.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>

static bool is_system_call(const uint8_t code[2])
{
	return code[0] == 0x0f && code[1] == 0x05;
}

/* Calls that a program waits in, outside of any library's lock. */
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

bool safe_point_is_waiting(const uint8_t code[4], int64_t result)
{
	/* Cut short: the call has returned. */
	if (is_system_call(code) && result == -EINTR)
		return true;
	/*
	 * To be started again: the pointer is back at the call and the register holds its number.
	 * So it is before the call's first start, which may be the allocator's own mmap.
	 */
	return is_system_call(code + 2) && waits(result);
}
