/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/borrow.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/thread_namespaces.h"
#include "inject/raw_code.h"
#include "inject/stopped_process.h"
#include "inject/threads.h"
#include "inject/tracee.h"

enum {
	STOP_MS = BORROW_EXTRA_MS,
	LOOK_AGAIN_US = 300, /* between two stops */
	LEFT_POLL_US = 1000,
	END_POLL_US = 200,
	LOOKS_BEFORE_STOP = 20,
	STOPS_MAX_US = 2000000, /* that the process stands still for, in all */
};

/* --- Which thread --- */

/*
 * A look from outside: NULL when the thread could be used. Without its frame pointer, which is not
 * shown, a walk may end early; but a waiting function of the C library needs none.
 */
static const char *look_at(const struct injection *injection, pid_t thread, long *number)
{
	struct stack_registers registers;
	struct thread_stack stack;

	if (!thread_read_waiting(injection->remote.pid, thread, &registers, number))
		return "runs";
	if (injection->is_raw)
		return NULL;
	stack_walk(&stack, &injection->remote, &injection->waiting, &registers);
	return stack_refusal(&stack);
}

/* The agent's thread, which it would start, could do for the process only what that user may. */
static const char other_user[] = "is of another user than the main thread";
static const char other_namespace[] =
	"may start none, as its children belong to another namespace (unshare, setns)";

/* Whatever it does; NULL: none. */
static const char *refuse_thread(const struct injection *injection, pid_t thread)
{
	if (!thread_has_users_of_main(injection->remote.pid, thread))
		return other_user;
	return thread_may_start_threads(thread) ? NULL : other_namespace;
}

const char *borrow_look(const struct injection *injection, pid_t thread)
{
	const char *const refusal = refuse_thread(injection, thread);
	long ignored;

	/* A raw one at any instruction. */
	return refusal != NULL || injection->is_raw ? refusal
						    : look_at(injection, thread, &ignored);
}

static void swap_threads(struct thread_list *list, size_t a, size_t b)
{
	const pid_t thread = list->threads[a];

	list->threads[a] = list->threads[b];
	list->threads[b] = thread;
}

/*
 * Those that could be used as they wait come first; not always the same one, as any may be unlucky.
 * Before others come those whose system calls the kernel itself begins anew. The main thread comes
 * last: while it is traced, the kernel wakes threads for signals that the program ignores
 * (SIGCHLD), and some waits end with EINTR by that.
 */
static void sort_threads(const struct injection *injection, struct thread_list *list)
{
	size_t best = 0, good = 0;

	for (size_t i = list->count; i > 1; i--)
		swap_threads(list, i - 1, (size_t)random() % i);
	for (size_t i = 0; i + 1 < list->count; i++) {
		if (list->threads[i] == injection->remote.pid)
			swap_threads(list, i, list->count - 1);
	}
	for (size_t i = 0; i < list->count; i++) {
		long number;
		if (look_at(injection, list->threads[i], &number) != NULL)
			continue;
		swap_threads(list, i, good);
		if (!tracee_call_ends(number) && list->threads[good] != injection->remote.pid)
			swap_threads(list, good, best++);
		good++;
	}
}

/* --- The stop --- */

/* Bytes of the code that the thread shall run. */
static size_t make_code(const struct injection *injection, const struct tracee *tracee,
	uint64_t blocked, uint64_t code[TRAMPOLINE_CODE_MAX / 8])
{
	const uint64_t pc = tracee_stack_registers(tracee).pc;
	const struct trampoline_request request = { .resume = pc,
		.memory = injection->memory,
		.pthread_create = injection->pthread_create,
		.pthread_detach = injection->pthread_detach,
		.signals = tracee->signals,
		.flags = tracee->flags,
		.resume_interrupted = pc + 2,
		.blocked = tracee->blocked,
		.blocked_meanwhile = blocked };
	return trampoline_make(&request, code);
}

static size_t make_raw_code(const struct injection *injection, const struct tracee *tracee,
	uint64_t blocked, uint64_t code[TRAMPOLINE_CODE_MAX / 8])
{
	struct raw_request request = { .memory = injection->memory,
		.blocked = tracee->blocked,
		.blocked_meanwhile = blocked,
		.signals = tracee->signals,
		.flags = tracee->flags };

	tracee_fill_registers(tracee, &request);
	return raw_code_make(&request, code);
}

static bool start_thread(
	const struct injection *injection, struct tracee *tracee, struct error *err)
{
	uint64_t code[TRAMPOLINE_CODE_MAX / sizeof(uint64_t)];
	/* The new thread inherits the mask, and no handler may run there. */
	const uint64_t blocked = injection->is_raw	      ? UINT64_MAX
				 : injection->remote.has_musl ? TRAMPOLINE_BLOCKED_MUSL
							      : TRAMPOLINE_BLOCKED;
	const size_t size =
		(injection->is_raw ? make_raw_code : make_code)(injection, tracee, blocked, code);
	struct error ignored;

	if (size == 0)
		error_set(
			err, ERROR_UNSUPPORTED, "this processor cannot save its registers (XSAVE)");
	else if (remote_write(&injection->remote, injection->code, code, (size + 7) / 8 * 8) ||
		 tracee_write(tracee, injection->code, code, (size + 7) / 8, err))
		return tracee_redirect(tracee, injection->code, blocked, err);
	if (!tracee_resume(tracee, &ignored)) {
		/* It has ended. */
	}
	return false;
}

static void walk_stopped(
	const struct injection *injection, const struct tracee *tracee, struct thread_stack *stack)
{
	const struct stack_registers registers = tracee_stack_registers(tracee);

	stack_walk(stack, &injection->remote, &injection->waiting, &registers);
}

/* The first word of its storage is its own address: threads are told apart by that. */
static bool has_own_pointer(const struct injection *injection, const struct tracee *tracee)
{
	const uint64_t pointer = tracee_thread_pointer(tracee);
	uint64_t word = 0;

	return pointer != 0 && remote_copy(&injection->remote, pointer, &word, sizeof word) &&
	       word == pointer;
}

static const char *refuse_stop(const struct injection *injection, const struct tracee *tracee)
{
	struct thread_stack stack;

	if (tracee->is_in_sequence)
		return "is in a restartable sequence (rseq)";
	if (tracee->has_signal)
		return "has a signal to handle";
	const char *const refusal = refuse_thread(injection, tracee->thread);
	if (refusal != NULL)
		return refusal;
	if (injection->is_raw)
		return has_own_pointer(injection, tracee)
			       ? NULL
			       : "has no thread pointer as glibc and musl have it";
	walk_stopped(injection, tracee, &stack);
	return stack_refusal(&stack);
}

enum attempt { ATTEMPT_DONE, ATTEMPT_REFUSED, ATTEMPT_FAILED, ATTEMPT_STUCK };

static void note_stop(struct borrow_stops *stops, int64_t begun_us)
{
	stops->used_us = clock_monotonic_ns() / 1000 - begun_us;
	stops->total_us += stops->used_us;
	if (stops->used_us > stops->max_us)
		stops->max_us = stops->used_us;
	stops->count++;
}

static enum attempt try_thread(const struct injection *injection, pid_t thread,
	struct borrow_stops *stops, const char **refusal, struct error *err)
{
	const int64_t begun_us = clock_monotonic_ns() / 1000;
	struct error ignored;
	struct tracee tracee;

	switch (tracee_stop(&tracee, thread, STOP_MS, err)) {
	case TRACEE_GONE:
		return ATTEMPT_REFUSED;
	case TRACEE_FAILED:
		return ATTEMPT_FAILED;
	case TRACEE_STUCK:
		return ATTEMPT_STUCK;
	case TRACEE_STOPPED:
		break;
	}
	const char *const reason = threads_has(&injection->remote, thread)
					   ? refuse_stop(injection, &tracee)
					   : "has ended";
	if (reason == NULL) {
		const bool done = start_thread(injection, &tracee, err);
		note_stop(stops, begun_us);
		return done ? ATTEMPT_DONE : ATTEMPT_FAILED;
	}
	*refusal = reason;
	if (!tracee_resume(&tracee, &ignored)) {
		/* It has ended. */
	}
	note_stop(stops, begun_us);
	return ATTEMPT_REFUSED;
}

static bool is_avoided(const struct borrow_limits *limits, pid_t thread)
{
	for (size_t i = 0; i < limits->avoided_count; i++) {
		if (limits->avoided[i] == thread)
			return true;
	}
	return false;
}

/* The threads, one after the other. `failure` is of the last one that could not be stopped. */
static enum attempt try_threads(const struct injection *injection,
	const struct borrow_limits *limits, const struct thread_list *list, int64_t until_ms,
	struct borrowed_thread *borrowed, const char **refusal, struct error *failure)
{
	for (size_t i = 0; i < list->count; i++) {
		const pid_t thread = list->threads[i];
		if (clock_monotonic_ms() >= until_ms || borrowed->stops.total_us > STOPS_MAX_US)
			break;
		if (is_avoided(limits, thread) || thread_state(thread) == 'D') {
			*refusal = "waits for a device or for a child (D)";
			continue;
		}
		const char *const reason = refuse_thread(injection, thread);
		if (reason != NULL) {
			*refusal = reason;
			continue;
		}
		const enum attempt attempt =
			try_thread(injection, thread, &borrowed->stops, refusal, failure);
		borrowed->thread = thread;
		if (attempt == ATTEMPT_DONE || attempt == ATTEMPT_STUCK)
			return attempt;
		if (attempt == ATTEMPT_FAILED)
			*refusal = NULL;
		clock_sleep_us(LOOK_AGAIN_US);
	}
	return ATTEMPT_REFUSED;
}

/*
 * In a program with musl a pthread_create() waits for a fork() of another thread. That may wait for
 * a lock which only the borrowed thread would release, so none is borrowed meanwhile.
 */
static const char forking[] = "waits for a lock in fork()";

static bool has_waiting_fork(const struct injection *injection, const struct thread_list *list)
{
	struct stack_registers registers;
	long number;

	for (size_t i = 0; injection->remote.has_musl && i < list->count; i++) {
		if (thread_read_waiting(
			    injection->remote.pid, list->threads[i], &registers, &number) &&
			musl_is_forking(&injection->waiting.musl, &injection->remote, registers.sp,
				registers.pc, number))
			return true;
	}
	return false;
}

static bool explain_refusal(const struct borrowed_thread *borrowed, size_t threads, int patience_ms,
	const char *refusal, struct error *err)
{
	if (refusal == forking)
		error_set(err, ERROR_STATE,
			"a fork() of it waits for a lock of the C library (%d ms), and with musl a "
			"new thread would wait for that fork()",
			patience_ms);
	else if (borrowed->stops.total_us > STOPS_MAX_US)
		error_set(err, ERROR_STATE,
			"none of its %zu threads could be used, and they have stood still for %d "
			"ms in all: the last one %s",
			threads, (int)(borrowed->stops.total_us / 1000), refusal);
	else
		error_set(err, ERROR_STATE,
			"none of its %zu threads could be used in %d ms: the last one %s", threads,
			patience_ms, refusal);
	if (refusal == other_namespace)
		return error_hint(err, "attach to its children, or start it with heapctl run; "
				       "nothing was changed");
	return error_hint(err, "try again; nothing was changed");
}

bool borrow_some_thread(const struct injection *injection, const struct borrow_limits *limits,
	struct borrowed_thread *borrowed, pid_t *stuck, struct error *err)
{
	const int64_t until_ms = clock_monotonic_ms() + limits->patience_ms;
	const char *refusal = "runs";
	struct error failure = { 0 };
	struct thread_list list;

	*borrowed = (struct borrowed_thread){ 0 };
	*stuck = 0;
	do {
		if (remote_is_gone(&injection->remote))
			return injection_explain_end(err);
		if (!threads_read(&list, injection->remote.pid, err))
			return false;
		if (has_waiting_fork(injection, &list)) {
			refusal = forking;
			clock_sleep_us(LOOK_AGAIN_US);
			continue;
		}
		sort_threads(injection, &list);
		const enum attempt attempt = try_threads(
			injection, limits, &list, until_ms, borrowed, &refusal, &failure);
		borrowed->at_ms = clock_monotonic_ms();
		if (attempt == ATTEMPT_DONE)
			return true;
		if (attempt == ATTEMPT_STUCK)
			*stuck = borrowed->thread;
		if (attempt == ATTEMPT_STUCK || refusal == NULL) {
			*err = failure;
			return false;
		}
		clock_sleep_us(LOOK_AGAIN_US);
	} while (clock_monotonic_ms() < until_ms && borrowed->stops.total_us <= STOPS_MAX_US);
	return explain_refusal(borrowed, list.count, limits->patience_ms, refusal, err);
}

/* --- Afterwards --- */

static bool has_left_by_look(const struct injection *injection, pid_t thread)
{
	struct stack_registers registers;
	struct thread_stack stack;
	long ignored;

	if (!thread_read_waiting(injection->remote.pid, thread, &registers, &ignored))
		return false;
	stack_walk(&stack, &injection->remote, &injection->waiting, &registers);
	return stack_is_outside(&stack, injection->code, TRAMPOLINE_CODE_MAX, false);
}

static bool has_left_by_walk(const struct injection *injection, const struct tracee *tracee)
{
	struct thread_stack stack;

	walk_stopped(injection, tracee, &stack);
	return stack_is_outside(&stack, injection->code, TRAMPOLINE_CODE_MAX, true);
}

/* A static program may have no unwind information, and the handler of a signal may run. */
static bool has_left_by_words(const struct injection *injection, struct tracee *tracee)
{
	const struct stopped_process stopped = {
		.remote = &injection->remote, .waiting = &injection->waiting, tracee, 1
	};
	const struct address_range code = { injection->code,
		injection->code + TRAMPOLINE_CODE_MAX };

	return !stopped_process_is_in(&stopped, &code, 1, NULL);
}

static bool has_left_by_stop(const struct injection *injection, pid_t thread, int wait_ms)
{
	struct tracee tracee;
	struct error ignored;

	switch (tracee_stop(&tracee, thread, wait_ms, &ignored)) {
	case TRACEE_GONE:
		return true;
	case TRACEE_FAILED:
	case TRACEE_STUCK:
		return false;
	case TRACEE_STOPPED:
		break;
	}
	const bool has_left = injection->is_raw ? has_left_by_words(injection, &tracee)
						: has_left_by_walk(injection, &tracee);
	if (!tracee_resume(&tracee, &ignored)) {
		/* It has ended. */
	}
	return has_left;
}

bool borrow_wait_until_left(const struct injection *injection, pid_t thread, int64_t until_ms)
{
	int64_t now_ms;

	for (int looks = 1; (now_ms = clock_monotonic_ms()) < until_ms; looks++) {
		if (!threads_has(&injection->remote, thread) ||
			(!injection->is_raw && has_left_by_look(injection, thread)))
			return true;
		/* A thread that never waits. */
		if ((injection->is_raw || looks % LOOKS_BEFORE_STOP == 0) &&
			has_left_by_stop(injection, thread, (int)(until_ms - now_ms)))
			return true;
		clock_sleep_us(LEFT_POLL_US);
	}
	return false;
}

/* Until the new thread has ended. */
static bool wait_for_end(const struct injection *injection, pid_t thread)
{
	const int64_t until_ms = clock_monotonic_ms() + BORROW_LEAVE_MS;
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/task/%d", (int)injection->remote.pid, (int)thread);
	while (access(path, F_OK) == 0 && clock_monotonic_ms() < until_ms)
		clock_sleep_us(END_POLL_US);
	return access(path, F_OK) != 0;
}

void borrow_finish(const struct injection *injection, const struct borrowed_thread *borrowed,
	pid_t own_number, uint32_t state)
{
	/* Once it has the state it may be gone at any time. */
	const pid_t thread = threads_find(injection->remote.pid, own_number);

	if (remote_write(&injection->remote, injection->memory, &state, sizeof state) &&
		thread != 0 && wait_for_end(injection, thread) &&
		borrow_wait_until_left(
			injection, borrowed->thread, clock_monotonic_ms() + BORROW_LEAVE_MS))
		injection_write_unused_bytes(injection);
}
