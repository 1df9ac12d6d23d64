/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/on_demand.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "base/memory.h"

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
#if defined(SYS_accept)
		SYS_accept,
#endif
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

enum { FILTERS_UNKNOWN = (1 << ON_DEMAND_FILTERS_BITS) - 1 };

/* The process' seccomp filters when the handler was installed; a child begins with its parent's. */
static unsigned filters_at_start;
static void (*begin_agent)(void);

int on_demand_signal(void)
{
	return SIGRTMAX - 3;
}

static unsigned count_filters(void)
{
	static const char label[] = "\nSeccomp_filters:\t";
	char text[4096];

	if (prctl(PR_GET_SECCOMP, 0, 0, 0, 0) <= 0)
		return 0;
	CLEANUP(fd_cleanup) const int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	const ssize_t got = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	text[got < 0 ? 0 : got] = '\0';
	const char *const at = strstr(text, label);
	const unsigned long count = at == NULL ? 0 : strtoul(at + sizeof label - 1, NULL, 10);
	return count < FILTERS_UNKNOWN ? (unsigned)count : 0;
}

/*
 * A mapping whose name in /proc/PID/maps says that the process, and each child of it, has the
 * handler, and with how many filters it began. Without it a client cannot tell our handler from one
 * of the program, of a language's runtime, or of an emulator that passes signals on.
 */
static void *mark;

static bool show_mark(struct error *err)
{
	char name[64];

	snprintf(name, sizeof name, "heapctl.filters.%u", filters_at_start);
	CLEANUP(fd_cleanup) const int fd = memfd_create(name, MFD_CLOEXEC);
	void *const page = fd < 0 ? MAP_FAILED : mmap(NULL, 1, PROT_READ, MAP_PRIVATE, fd, 0);
	if (page == MAP_FAILED)
		return error_system(
			err, errno, "mapping %s, which shows clients the handler", name);
	mark = page;
	return true;
}

#if defined(__x86_64__)
static unsigned bits(uint64_t value, unsigned shift, unsigned count)
{
	return (unsigned)(value >> shift & ((UINT64_C(1) << count) - 1));
}

static bool is_sandboxed_since_start(uint64_t value)
{
	const unsigned filters = bits(value, ON_DEMAND_FILTERS_SHIFT, ON_DEMAND_FILTERS_BITS);

	return filters == FILTERS_UNKNOWN || filters > filters_at_start;
}

/* The bytes around the pointer on its page; the neighbouring pages may not be mapped. */
static void read_code(uint64_t pointer, uint8_t code[SAFE_POINT_BEFORE + SAFE_POINT_BEHIND])
{
	enum { PAGE_SHIFT = 12 };

	for (int i = 0; i < SAFE_POINT_BEFORE + SAFE_POINT_BEHIND; i++) {
		const uint64_t at = pointer - SAFE_POINT_BEFORE + (uint64_t)i;
		code[i] = 0;
		if (at >> PAGE_SHIFT == pointer >> PAGE_SHIFT)
			memcpy(&code[i], (const void *)(uintptr_t)at, 1);
	}
}

/* Calls the function on the stack that ends at `top`. */
void on_demand_call(void (*function)(void), void *top);
__asm__(".pushsection .text\n"
	".globl on_demand_call\n"
	".hidden on_demand_call\n"
	".type on_demand_call, @function\n"
	"on_demand_call:\n"
	"	.cfi_startproc\n"
	"	endbr64\n"
	"	pushq %rbp\n"
	"	.cfi_def_cfa_offset 16\n"
	"	.cfi_offset %rbp, -16\n"
	"	movq %rsp, %rbp\n"
	"	.cfi_def_cfa_register %rbp\n"
	"	movq %rsi, %rsp\n"
	"	call *%rdi\n"
	"	leave\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	"	.cfi_endproc\n"
	".size on_demand_call, . - on_demand_call\n"
	".popsection");

/*
 * The kernel would take the alternate stack for unused, and put the signal of a fault over what was
 * interrupted. The return of the handler sets it again.
 */
static void begin_without_alternate_stack(void)
{
	const stack_t none = { .ss_flags = SS_DISABLE };

	sigaltstack(&none, NULL);
	begin_agent();
}

/* The program's stack, or its alternate one, may be too small: Rust's has 8 KiB. */
static void begin_on_own_stack(void)
{
	enum { STACK_BYTES = 256 * 1024 };
	char *const stack = memory_resize(&memory_pages, NULL, 0, STACK_BYTES);

	if (stack == NULL)
		return;
	on_demand_call(begin_without_alternate_stack, stack + STACK_BYTES);
	memory_resize(&memory_pages, stack, STACK_BYTES, 0);
}

static void begin(uint64_t value, ucontext_t *context)
{
	greg_t *const registers = context->uc_mcontext.gregs;
	const struct safe_point_hint hint = {
		.number = (int)bits(value, ON_DEMAND_NUMBER_SHIFT, ON_DEMAND_NUMBER_BITS) - 1,
		.check = bits(value, ON_DEMAND_CHECK_SHIFT, SAFE_POINT_CHECK_BITS),
	};
	struct safe_point_registers point = {
		.rax = (uint64_t)registers[REG_RAX],
		.rdi = (uint64_t)registers[REG_RDI],
		.rsi = (uint64_t)registers[REG_RSI],
		.rdx = (uint64_t)registers[REG_RDX],
		.r10 = (uint64_t)registers[REG_R10],
		.rip = (uint64_t)registers[REG_RIP],
		.rsp = (uint64_t)registers[REG_RSP],
	};
	uint8_t code[SAFE_POINT_BEFORE + SAFE_POINT_BEHIND];

	read_code(point.rip, code);
	const enum safe_point_kind kind = safe_point_find(code, &hint, &point);
	if (kind != SAFE_POINT_NONE && !is_sandboxed_since_start(value))
		begin_on_own_stack();
	if (kind != SAFE_POINT_RESTART)
		return;
	registers[REG_RAX] = (greg_t)point.rax;
	registers[REG_RDI] = (greg_t)point.rdi;
	registers[REG_RDX] = (greg_t)point.rdx;
	registers[REG_RIP] = (greg_t)point.rip;
}

bool on_demand_is_possible(void)
{
	return true;
}
#else
static void begin(uint64_t value, ucontext_t *context)
{
	(void)value;
	(void)context;
}

bool on_demand_is_possible(void)
{
	return false;
}
#endif

/*
 * The kernel lets only root and the process' own user send it a signal. A thread that is cancelled
 * ends after the handler, not inside it with a lock.
 */
static void handle_signal(int number, siginfo_t *info, void *context)
{
	const int errnum = errno;
	int state = PTHREAD_CANCEL_ENABLE;

	(void)number;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	if (info->si_code == SI_QUEUE && info->si_value.sival_int == ON_DEMAND_WORD)
		begin((uint64_t)(uintptr_t)info->si_value.sival_ptr, context);
	errno = errnum;
	pthread_setcancelstate(state, NULL);
}

/*
 * The program's signals wait until the handler has ended: one that is handled within it would not
 * end the call that is resumed, and sigsuspend or ppoll would never return. Faults cannot wait.
 */
static void block_for_handler(sigset_t *mask)
{
	static const int faults[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGABRT };

	sigfillset(mask);
	for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++)
		sigdelset(mask, faults[i]);
}

bool on_demand_install(void (*begin_function)(void), struct error *err)
{
	struct sigaction action = { .sa_sigaction = handle_signal,
		.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK };
	struct sigaction before;

	if (!on_demand_is_possible()) {
		error_set(err, ERROR_UNSUPPORTED, "starting on demand works on x86-64 only");
		return error_hint(err, "leave HEAPCTL_THREAD and HEAPCTL_CHILDREN unset");
	}
	if (sigaction(on_demand_signal(), NULL, &before) != 0)
		return error_system(
			err, errno, "reading the handler of signal %d", on_demand_signal());
	if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN &&
		before.sa_sigaction != handle_signal) {
		error_set(err, ERROR_STATE, "the program uses signal %d", on_demand_signal());
		return error_hint(err, "leave HEAPCTL_THREAD unset");
	}
	begin_agent = begin_function;
	filters_at_start = count_filters();
	block_for_handler(&action.sa_mask);
	if (sigaction(on_demand_signal(), &action, NULL) != 0)
		return error_system(
			err, errno, "installing the handler of signal %d", on_demand_signal());
	/* A client that sees it sends the signal. */
	return mark != NULL || show_mark(err);
}

void on_demand_hide(void)
{
	if (mark != NULL)
		munmap(mark, 1);
	mark = NULL;
}

void on_demand_remove(void)
{
	struct sigaction now;

	on_demand_hide();
	if (sigaction(on_demand_signal(), NULL, &now) == 0 && now.sa_sigaction == handle_signal)
		signal(on_demand_signal(), SIG_DFL);
}
