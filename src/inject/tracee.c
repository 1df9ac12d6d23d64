/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/tracee.h"

#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "inject/threads.h"

#if defined(__x86_64__)

enum {
	SYSCALL_BYTES = 2,
	DEVICE_MS = 100, /* a wait for a device that lasts longer is one that may last */
};

/* What a system call returns inside the kernel when it is to begin anew; never seen by programs. */
enum {
	ERESTARTSYS = 512,
	ERESTARTNOINTR = 513,
	ERESTARTNOHAND = 514,
	ERESTART_RESTARTBLOCK = 516,
};

/* connect(), which goes on in the background, is not one of them. */
bool tracee_call_ends(long number)
{
	switch (number) {
	case SYS_epoll_wait:
	case SYS_epoll_pwait:
	case SYS_epoll_pwait2:
	case SYS_rt_sigtimedwait:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_msgrcv:
	case SYS_msgsnd:
	case SYS_mq_timedreceive:
	case SYS_mq_timedsend:
	case SYS_io_getevents:
	case SYS_io_pgetevents:
	case SYS_read:
	case SYS_readv:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_accept:
	case SYS_accept4:
		return true;
	default:
		return false;
	}
}

enum { EVERY_HANDLER = 0, UNLESS_SA_RESTART = 0x10000000 };

/*
 * Makes the registers such that the call begins anew, or is continued, by an instruction that the
 * thread executes itself: what the kernel would do on its way out, if we let it.
 */
static void rewind_call(struct tracee *tracee)
{
	struct user_regs_struct *const registers = &tracee->registers;
	const long number = (long)registers->orig_rax;
	const long result = (long)registers->rax;

	tracee->is_in_call = number >= 0;
	tracee->call = number;
	tracee->has_to_rewind = result == -EINTR && tracee_call_ends(number);
	registers->orig_rax = (unsigned long long)-1;
	tracee->flags = result == -ERESTARTSYS ? UNLESS_SA_RESTART : EVERY_HANDLER;
	if (number < 0 ||
		(result != -ERESTARTSYS && result != -ERESTARTNOINTR && result != -ERESTARTNOHAND &&
			result != -ERESTART_RESTARTBLOCK && !tracee->has_to_rewind)) {
		return;
	}
	tracee->may_be_ended = result != -ERESTARTNOINTR;
	registers->rax =
		result == -ERESTART_RESTARTBLOCK ? SYS_restart_syscall : (unsigned long long)number;
	registers->rip -= SYSCALL_BYTES;
}

static uint64_t read_set(const char *status, const char *label)
{
	const char *const at = strstr(status, label);

	return at == NULL ? 0 : strtoull(at + strlen(label), NULL, 16);
}

static void read_signals(struct tracee *tracee)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (!file_try_read(&text, "/proc/%d/status", (int)tracee->thread))
		return;
	const char *const status = buffer_string(&text);
	const uint64_t blocked = read_set(status, "\nSigBlk:");
	const uint64_t pending = read_set(status, "\nSigPnd:") | read_set(status, "\nShdPnd:");
	/* One that is ignored is queued nevertheless while the thread is traced. */
	tracee->signals = read_set(status, "\nSigCgt:") & ~blocked;
	tracee->has_signal = (pending & tracee->signals) != 0;
	/* A call with a mask of its own (sigsuspend) handles the others itself when it begins anew.
	 */
	tracee->signals &= ~tracee->blocked;
	if (!tracee->may_be_ended)
		tracee->signals = 0;
}

static bool read_registers(struct tracee *tracee, struct error *err)
{
	struct iovec area = { &tracee->registers, sizeof tracee->registers };

	if (ptrace(PTRACE_GETREGSET, tracee->thread, NT_PRSTATUS, &area) != 0)
		return error_system(err, errno, "reading the registers");
	if (area.iov_len != sizeof tracee->registers)
		return error_set(err, ERROR_UNSUPPORTED, "it is a 32-bit program");
	return true;
}

static bool read_blocked(struct tracee *tracee, struct error *err)
{
	return ptrace(PTRACE_GETSIGMASK, tracee->thread, (void *)(uintptr_t)sizeof tracee->blocked,
		       &tracee->blocked) == 0 ||
	       error_system(err, errno, "reading the signal mask");
}

static bool write_registers(const struct tracee *tracee, struct error *err)
{
	struct user_regs_struct registers = tracee->registers;
	struct iovec area = { &registers, sizeof registers };

	return ptrace(PTRACE_SETREGSET, tracee->thread, NT_PRSTATUS, &area) == 0 ||
	       error_system(err, errno, "setting the registers");
}

/*
 * Nothing comes before the writing: from then on we may die without a call that ends with EINTR.
 * But such a call shall end so where a handler is to be called.
 */
static bool read_state(struct tracee *tracee, struct error *err)
{
	if (!read_registers(tracee, err))
		return false;
	struct tracee before = *tracee;
	rewind_call(tracee);
	if ((tracee->has_to_rewind && !write_registers(tracee, err)) || !read_blocked(tracee, err))
		return false;
	read_signals(tracee);
	return !tracee->has_to_rewind || !tracee->has_signal || write_registers(&before, err);
}

/* The thread's place for the critical section that it is in, as it has registered it. */
static bool read_sequence(const struct tracee *tracee)
{
	struct {
		uint64_t rseq_abi_pointer;
		uint32_t rseq_abi_size, signature, flags, pad;
	} configuration;
	struct {
		uint32_t version, flags;
		uint64_t start, length, abort;
	} section;
	uint64_t address = 0;
	const pid_t thread = tracee->thread;
	enum { RSEQ_CS = 8 };
	/* PTRACE_GET_RSEQ_CONFIGURATION, since Linux 5.13. */
	const int get_configuration = 0x420f;

	if (ptrace(get_configuration, thread, sizeof configuration, &configuration) <= 0 ||
		configuration.rseq_abi_pointer == 0)
		return false;
	const struct iovec address_to = { &address, sizeof address };
	const struct iovec address_from = {
		(void *)(uintptr_t)(configuration.rseq_abi_pointer + RSEQ_CS), sizeof address
	};
	if (process_vm_readv(thread, &address_to, 1, &address_from, 1, 0) != sizeof address ||
		address == 0)
		return false;
	const struct iovec section_to = { &section, sizeof section };
	const struct iovec section_from = { (void *)(uintptr_t)address, sizeof section };
	return process_vm_readv(thread, &section_to, 1, &section_from, 1, 0) != sizeof section ||
	       tracee->registers.rip - section.start < section.length;
}

/* A stop sends SIGCHLD, which the caller blocks. */
static void wait_for_child(void)
{
	const struct timespec limit = { .tv_nsec = 10 * 1000000 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	if (sigtimedwait(&set, NULL, &limit) < 0) {
		/* The caller looks anyway. */
	}
}

/* Waits for the stop that was asked for; signals that come first are handed on. */
static enum tracee_outcome wait_for_stop(pid_t thread, int wait_ms, struct error *err)
{
	const int64_t begun_ms = clock_monotonic_ms();

	for (int64_t ms = 0; ms <= wait_ms; ms = clock_monotonic_ms() - begun_ms) {
		int status = 0;
		const pid_t got = waitpid(thread, &status, __WALL | WNOHANG);
		if (got < 0 && errno != EINTR)
			return TRACEE_GONE;
		if (got <= 0) {
			wait_for_child();
			if (ms > DEVICE_MS && thread_state(thread) == 'D')
				break;
			continue;
		}
		if (!WIFSTOPPED(status))
			return TRACEE_GONE;
		if (status >> 16 == PTRACE_EVENT_STOP) {
			if (WSTOPSIG(status) == SIGTRAP)
				return TRACEE_STOPPED;
			ptrace(PTRACE_DETACH, thread, NULL, NULL);
			error_set(err, ERROR_STATE, "it is stopped (T)");
			return TRACEE_FAILED;
		}
		if (ptrace(PTRACE_CONT, thread, NULL, (void *)(uintptr_t)WSTOPSIG(status)) != 0)
			return TRACEE_GONE;
	}
	error_set(err, ERROR_TIMEOUT,
		"thread %d did not stop: it waits for a device or for a child (D), or was frozen, "
		"or the machine is too busy",
		thread);
	return TRACEE_STUCK;
}

/* The kernel also says EPERM of a thread that has just ended. */
static bool has_ended(pid_t thread)
{
	const char state = thread_state(thread);

	return state == 0 || state == 'Z' || state == 'X';
}

enum tracee_outcome tracee_seize(pid_t thread, struct error *err)
{
	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) != 0) {
		const int number = errno;
		if (number == ESRCH || (number == EPERM && has_ended(thread)))
			return TRACEE_GONE;
		error_system(err, number, "tracing thread %d", thread);
		err->kind = number == EPERM ? ERROR_DENIED : ERROR_SYSTEM;
		return TRACEE_FAILED;
	}
	return ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) == 0 ? TRACEE_STOPPED : TRACEE_GONE;
}

enum tracee_outcome tracee_wait(struct tracee *tracee, pid_t thread, int wait_ms, struct error *err)
{
	*tracee = (struct tracee){ 0 };
	const enum tracee_outcome outcome = wait_for_stop(thread, wait_ms, err);
	if (outcome != TRACEE_STOPPED)
		return outcome;
	tracee->thread = thread;
	if (!read_state(tracee, err)) {
		tracee->thread = 0;
		ptrace(PTRACE_DETACH, thread, NULL, NULL);
		return TRACEE_FAILED;
	}
	tracee->is_in_sequence = read_sequence(tracee);
	return TRACEE_STOPPED;
}

enum tracee_outcome tracee_stop(struct tracee *tracee, pid_t thread, int wait_ms, struct error *err)
{
	*tracee = (struct tracee){ 0 };
	const enum tracee_outcome outcome = tracee_seize(thread, err);
	return outcome == TRACEE_STOPPED ? tracee_wait(tracee, thread, wait_ms, err) : outcome;
}

struct stack_registers tracee_stack_registers(const struct tracee *tracee)
{
	return (struct stack_registers){ .pc = tracee->registers.rip,
		.sp = tracee->registers.rsp,
		.fp = tracee->registers.rbp,
		.scratch = { [UNWIND_RAX] = tracee->registers.rax,
			[UNWIND_RCX] = tracee->registers.rcx,
			[UNWIND_RSI] = tracee->registers.rsi,
			[UNWIND_RDI] = tracee->registers.rdi,
			[UNWIND_R8] = tracee->registers.r8,
			[UNWIND_R9] = tracee->registers.r9,
			[UNWIND_R10] = tracee->registers.r10,
			[UNWIND_R11] = tracee->registers.r11 },
		.top = tracee_thread_pointer(tracee),
		.is_in_call = tracee->is_in_call,
		.call = tracee->call };
}

uint64_t tracee_thread_pointer(const struct tracee *tracee)
{
	return tracee->registers.fs_base;
}

void tracee_fill_registers(const struct tracee *tracee, struct raw_request *request)
{
	const struct user_regs_struct *const registers = &tracee->registers;

	request->resume = registers->rip;
	request->resume_interrupted = registers->rip + SYSCALL_BYTES;
	request->processor_flags = registers->eflags;
	request->rax = registers->rax;
	request->rbx = registers->rbx;
	request->rcx = registers->rcx;
	request->rdx = registers->rdx;
	request->rsi = registers->rsi;
	request->rdi = registers->rdi;
	request->rbp = registers->rbp;
	request->rsp = registers->rsp;
	request->r8 = registers->r8;
	request->r9 = registers->r9;
	request->r10 = registers->r10;
	request->r11 = registers->r11;
	request->r12 = registers->r12;
	request->r13 = registers->r13;
	request->r14 = registers->r14;
	request->r15 = registers->r15;
}

bool tracee_write(const struct tracee *tracee, uint64_t address, const uint64_t *words,
	size_t count, struct error *err)
{
	for (size_t i = 0; i < count; i++) {
		if (ptrace(PTRACE_POKEDATA, tracee->thread, (void *)(uintptr_t)(address + 8 * i),
			    (void *)(uintptr_t)words[i]) != 0)
			return error_system(err, errno, "writing into the process");
	}
	return true;
}

/* The kernel itself begins a call anew, and knows about signals. */
bool tracee_resume(struct tracee *tracee, struct error *err)
{
	const pid_t thread = tracee->thread;

	tracee->thread = 0;
	return ptrace(PTRACE_DETACH, thread, NULL, NULL) == 0 ||
	       error_system(err, errno, "letting thread %d go on", (int)thread);
}

bool tracee_redirect(struct tracee *tracee, uint64_t pc, uint64_t blocked, struct error *err)
{
	struct error ignored;

	tracee->registers.rip = pc;
	/* In this order: the code at `pc` sets the mask back, should we die in between. */
	if (!write_registers(tracee, err)) {
		if (!tracee_resume(tracee, &ignored)) {
			/* It has ended. */
		}
		return false;
	}
	if (ptrace(PTRACE_SETSIGMASK, tracee->thread, (void *)(uintptr_t)sizeof blocked,
		    &blocked) != 0) {
		/* The code does it, too. */
	}
	return tracee_resume(tracee, err);
}

#else

bool tracee_call_ends(long number)
{
	(void)number;
	return false;
}

enum tracee_outcome tracee_stop(struct tracee *tracee, pid_t thread, int wait_ms, struct error *err)
{
	(void)tracee;
	(void)thread;
	(void)wait_ms;
	error_set(err, ERROR_UNSUPPORTED, "heapctl attaches on x86-64 only");
	return TRACEE_FAILED;
}

enum tracee_outcome tracee_seize(pid_t thread, struct error *err)
{
	(void)thread;
	error_set(err, ERROR_UNSUPPORTED, "heapctl attaches on x86-64 only");
	return TRACEE_FAILED;
}

enum tracee_outcome tracee_wait(struct tracee *tracee, pid_t thread, int wait_ms, struct error *err)
{
	return tracee_stop(tracee, thread, wait_ms, err);
}

struct stack_registers tracee_stack_registers(const struct tracee *tracee)
{
	(void)tracee;
	return (struct stack_registers){ 0 };
}

uint64_t tracee_thread_pointer(const struct tracee *tracee)
{
	(void)tracee;
	return 0;
}

void tracee_fill_registers(const struct tracee *tracee, struct raw_request *request)
{
	(void)tracee;
	(void)request;
}

bool tracee_write(const struct tracee *tracee, uint64_t address, const uint64_t *words,
	size_t count, struct error *err)
{
	(void)tracee;
	(void)address;
	(void)words;
	(void)count;
	return error_set(err, ERROR_UNSUPPORTED, "heapctl attaches on x86-64 only");
}

bool tracee_resume(struct tracee *tracee, struct error *err)
{
	(void)tracee;
	return error_set(err, ERROR_UNSUPPORTED, "heapctl attaches on x86-64 only");
}

bool tracee_redirect(struct tracee *tracee, uint64_t pc, uint64_t blocked, struct error *err)
{
	(void)tracee;
	(void)pc;
	(void)blocked;
	return error_set(err, ERROR_UNSUPPORTED, "heapctl attaches on x86-64 only");
}
#endif
