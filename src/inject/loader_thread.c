/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/loader_thread.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "inject/threads.h"

enum {
	START_MS = 5000,     /* until the new thread runs */
	LOAD_MS = 10000,     /* until the library has started */
	LEAVE_MS = 5000,     /* until the new thread has ended */
	TAKE_BACK_MS = 1000, /* until it is proven that nothing runs there */
	LOOK_AGAIN_US = 300, /* between two stops */
	POLL_US = 200,
	PATH_BYTES = 64,
};

_Static_assert(START_MS + LOAD_MS + LEAVE_MS == LOADER_MS, "the contract");

static bool write_memory(pid_t pid, uint64_t address, const void *bytes, size_t size)
{
	const struct iovec from = { (void *)(uintptr_t)bytes, size };
	const struct iovec to = { (void *)(uintptr_t)address, size };

	return process_vm_writev(pid, &from, 1, &to, 1, 0) == (ssize_t)size;
}

/* Waits until the state is at least `state`; -1 in time out, or when the memory is not there. */
static int wait_for_state(const struct injection *injection, uint32_t state, int wait_ms)
{
	const int64_t until_ms = clock_monotonic_ms() + wait_ms;
	uint32_t now = 0;

	while (clock_monotonic_ms() < until_ms) {
		if (remote_copy(injection->remote.pid, injection->memory, &now, sizeof now) &&
			now >= state)
			return (int)now;
		if (injection_is_gone(injection))
			return -1;
		clock_sleep_us(POLL_US);
	}
	return -1;
}

/* Whether the borrowed thread, which stands still, is outside, and will not return there. */
static bool has_left_code(const struct injection *injection, const struct tracee *tracee)
{
	return tracee->registers.rip - injection->code >= TRAMPOLINE_CODE_MAX &&
	       borrow_refusal(injection, tracee) == NULL;
}

/*
 * No thread was started: it has no memory of ours then. A new thread that came late would hold its
 * memory longer than this lasts.
 */
static void take_back(const struct injection *injection, const struct borrowed_thread *borrowed)
{
	const int64_t until_ms = borrowed->at_ms + START_MS + TAKE_BACK_MS;
	struct error ignored;
	struct tracee tracee;
	bool has_left = false;
	char byte;

	while (!has_left && clock_monotonic_ms() < until_ms &&
		!remote_copy(injection->remote.pid, injection->memory, &byte, sizeof byte) &&
		tracee_stop(&tracee, borrowed->thread, TAKE_BACK_MS, &ignored) == TRACEE_STOPPED) {
		has_left = has_left_code(injection, &tracee) && clock_monotonic_ms() < until_ms;
		if (has_left)
			injection_write_unused_bytes(injection);
		if (!tracee_resume(&tracee, &ignored)) {
			/* It has ended. */
		}
		clock_sleep_us(LOOK_AGAIN_US);
	}
}

static bool explain_no_start(const struct injection *injection,
	const struct borrowed_thread *borrowed, struct error *err)
{
	if (injection_is_gone(injection))
		return injection_explain_end(err);
	take_back(injection, borrowed);
	error_set(err, ERROR_STATE,
		"it could not start a thread: no memory, or a limit of processes (RLIMIT_NPROC, "
		"pids.max)");
	return error_hint(err, "raise the limit, then try again; nothing was changed");
}

static void copy_text(char *to, size_t size, const char *from)
{
	snprintf(to, size, "%s", from);
}

static bool send_request(
	const struct injection *injection, const struct loader_request *request, struct error *err)
{
	struct trampoline_exchange exchange = { .dlopen = injection->dlopen,
		.dlsym = injection->dlsym,
		.dlerror = injection->dlerror };
	const uint32_t state = TRAMPOLINE_REQUESTED;
	const size_t first = offsetof(struct trampoline_exchange, dlopen);

	if (strlen(request->path) >= sizeof exchange.path ||
		strlen(request->settings) >= sizeof exchange.settings)
		return error_set(err, ERROR_USAGE,
			"the path of the agent's library or HEAPCTL_DIR is too long");
	copy_text(exchange.path, sizeof exchange.path, request->path);
	copy_text(exchange.name, sizeof exchange.name, request->function);
	copy_text(exchange.settings, sizeof exchange.settings, request->settings);
	return (write_memory(injection->remote.pid, injection->memory + first,
			(char *)&exchange + first, sizeof exchange - first) &&
		       write_memory(
			       injection->remote.pid, injection->memory, &state, sizeof state)) ||
	       injection_explain_end(err);
}

static bool read_answer(const struct injection *injection, int state, int *returned, char *answer,
	size_t size, struct error *err)
{
	const pid_t pid = injection->remote.pid;
	struct trampoline_exchange exchange;
	char text[300] = "";

	if (injection_is_gone(injection))
		return injection_explain_end(err);
	if (state < 0)
		return error_set(err, ERROR_TIMEOUT,
			"the library did not start in %d s: another thread may hold the loader's "
			"lock",
			LOAD_MS / 1000);
	if (!remote_copy(pid, injection->memory, &exchange, sizeof exchange))
		return injection_explain_end(err);
	if (state == TRAMPOLINE_NOT_LOADED) {
		const size_t got = remote_copy_some(pid, exchange.error, text, sizeof text - 1);
		text[got] = '\0';
		return error_set(err, ERROR_INPUT, "its loader says: %s", text);
	}
	*returned = exchange.result;
	copy_text(answer, size, exchange.answer);
	return true;
}

/* Puts back the unused bytes once nothing runs there. */
static void leave(const struct injection *injection, pid_t own_number)
{
	const pid_t thread = threads_find(injection->remote.pid, own_number);
	const int64_t until_ms = clock_monotonic_ms() + LEAVE_MS;
	const uint32_t state = TRAMPOLINE_READ;
	char path[PATH_BYTES];

	if (!write_memory(injection->remote.pid, injection->memory, &state, sizeof state))
		return;
	snprintf(path, sizeof path, "/proc/%d/task/%d", (int)injection->remote.pid, (int)thread);
	while (access(path, F_OK) == 0 && clock_monotonic_ms() < until_ms)
		clock_sleep_us(POLL_US);
	if (thread != 0 && access(path, F_OK) != 0)
		injection_write_unused_bytes(injection);
}

bool loader_thread_run(const struct injection *injection, const struct borrowed_thread *borrowed,
	const struct loader_request *request, int *returned, char *answer, size_t size,
	struct error *err)
{
	uint64_t thread = 0;

	if (wait_for_state(injection, TRAMPOLINE_STARTED, START_MS) < 0 ||
		!remote_copy(injection->remote.pid,
			injection->memory + offsetof(struct trampoline_exchange, thread), &thread,
			sizeof thread))
		return explain_no_start(injection, borrowed, err);
	if (!send_request(injection, request, err))
		return false;
	const int state = wait_for_state(injection, TRAMPOLINE_RETURNED, LOAD_MS);
	const bool done = read_answer(injection, state, returned, answer, size, err);
	leave(injection, (pid_t)thread);
	return done;
}
