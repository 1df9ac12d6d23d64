/* SPDX-License-Identifier: Apache-2.0 */
#include "client/wake_choice.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* docs/protocol.md: the word, and where in the signal's value the rest stands. */
enum {
	WORD = 0x6c746368,
	NUMBER_SHIFT = 32,
	NUMBER_BITS = 10,
	FILTERS_SHIFT = 42,
	FILTERS_UNKNOWN = 255,
	CHECK_SHIFT = 50,
	CHECK_BITS = 14,
};

/* A line of /proc/PID/task/TID/syscall: number, six arguments, stack and instruction pointer. */
struct call {
	int number;
	uint64_t arguments[6], stack, instruction;
};

static const char *field(const char *status, const char *name)
{
	const size_t size = strlen(name);

	for (const char *line = status; line != NULL && *line != '\0';) {
		if (strncmp(line, name, size) == 0 && line[size] == ':')
			return line + size + 1 + strspn(line + size + 1, " \t");
		line = strchr(line, '\n');
		line = line == NULL ? NULL : line + 1;
	}
	return "";
}

int wake_filters(const char *status)
{
	const char *const count = field(status, "Seccomp_filters");
	enum { NONE, STRICT };
	const int mode = atoi(field(status, "Seccomp"));

	if (mode == NONE)
		return 0;
	return mode == STRICT || *count == '\0' ? -1 : atoi(count);
}

bool wake_set_has(const char *status, const char *set, int signal_number)
{
	return (strtoull(field(status, set), NULL, 16) >> (signal_number - 1) & 1) != 0;
}

static bool parse_call(const char *line, struct call *call)
{
	uint64_t *const a = call->arguments;

	return sscanf(line,
		       "%d %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
		       " %" SCNx64 " %" SCNx64,
		       &call->number, &a[0], &a[1], &a[2], &a[3], &a[4], &a[5], &call->stack,
		       &call->instruction) == 9 &&
	       call->number >= 0;
}

static enum wake_rank when_endless(bool is_endless)
{
	return is_endless ? WAKE_EXACT : WAKE_ANEW;
}

/* Interrupted, such a call returns with the part that it has, which cannot be undone. */
static enum wake_rank unless_in_parts(bool waits_for_all, enum wake_rank rank)
{
	return waits_for_all ? WAKE_NEVER : rank;
}

static enum wake_rank rank_call(const struct call *call)
{
	enum { ABSOLUTE = 1 };
	const uint64_t *const a = call->arguments;

	switch (call->number) {
#if defined(__x86_64__)
	case SYS_poll:
		return when_endless((int)a[2] < 0);
	case SYS_epoll_wait:
		return when_endless((int)a[3] < 0);
	case SYS_select:
	case SYS_pause:
		return WAKE_EXACT;
#endif
	case SYS_epoll_pwait:
		return when_endless((int)a[3] < 0);
	case SYS_epoll_pwait2:
		return when_endless(a[3] == 0);
	case SYS_nanosleep:
		return when_endless(a[1] != 0);
	case SYS_clock_nanosleep:
		return when_endless((a[1] & ABSOLUTE) != 0 || a[3] != 0);
	/* The kernel leaves the rest of their time where they find it. */
	case SYS_ppoll:
	case SYS_pselect6:
	case SYS_rt_sigsuspend:
	case SYS_read:
	case SYS_readv:
	case SYS_accept:
	case SYS_accept4:
	case SYS_wait4:
	case SYS_waitid:
		return WAKE_EXACT;
	case SYS_futex:
		return (a[1] & FUTEX_CMD_MASK) == FUTEX_WAIT_BITSET ? WAKE_EXACT : WAKE_NEVER;
	case SYS_recvfrom:
		return unless_in_parts((a[3] & MSG_WAITALL) != 0, WAKE_EXACT);
	case SYS_recvmsg:
		return unless_in_parts((a[2] & MSG_WAITALL) != 0, WAKE_EXACT);
	case SYS_recvmmsg:
		return unless_in_parts(
			(uint32_t)a[2] > 1 && (a[3] & MSG_WAITFORONE) == 0, WAKE_ANEW);
	case SYS_io_getevents:
		return unless_in_parts((int64_t)a[1] > 1, WAKE_ANEW);
	/* Also one that first submits: it returns how many it has. */
	case SYS_io_uring_enter:
		return unless_in_parts((uint32_t)a[1] > 0 || (uint32_t)a[2] > 1, WAKE_ANEW);
	case SYS_msgrcv:
	case SYS_mq_timedreceive:
		return WAKE_ANEW;
	default:
		/* rt_sigtimedwait among them: it would take the signal itself. */
		return WAKE_NEVER;
	}
}

/* The same as safe_point_check of the agent. */
static uint64_t check_call(const struct call *call)
{
	const uint64_t parts[] = { call->arguments[0], call->arguments[1], call->arguments[2],
		call->arguments[3], call->instruction, call->stack };
	uint64_t hash = 0;

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
		hash = (hash ^ parts[i]) * UINT64_C(0x9e3779b97f4a7c15);
	return hash >> (64 - CHECK_BITS);
}

struct wake_choice wake_choose(const char *status, const char *syscall, int signal_number)
{
	const int filters = wake_filters(status);
	struct wake_choice choice = { .rank = WAKE_NEVER,
		.switches = strtoul(field(status, "voluntary_ctxt_switches"), NULL, 10) };
	struct call call;

	choice.blocks_signal = wake_set_has(status, "SigBlk", signal_number);
	if (*field(status, "State") != 'S' || choice.blocks_signal)
		return choice;
	choice.value =
		WORD |
		(uint64_t)(filters < 0 || filters > FILTERS_UNKNOWN ? FILTERS_UNKNOWN : filters)
			<< FILTERS_SHIFT;
	if (syscall == NULL) {
		choice.rank = WAKE_UNKNOWN;
	} else if (parse_call(syscall, &call)) {
		choice.rank = rank_call(&call);
		if (call.number + 1 < 1 << NUMBER_BITS)
			choice.value |= (uint64_t)(call.number + 1) << NUMBER_SHIFT |
					check_call(&call) << CHECK_SHIFT;
	}
	return choice;
}
