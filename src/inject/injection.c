/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/injection.h"

#include <string.h>
#include <sys/file.h>

#include "base/clock.h"
#include "inject/raw_code.h"
#include "inject/remote_needs.h"
#include "inject/stopped_process.h"

enum {
	START_MS = 500, /* for a program to load its libraries */
	START_POLL_US = 10000,
	STOP_MS = 500, /* until all stand still */
	PAGE_BYTES = 4096,
};

static bool find_functions(struct injection *injection, struct error *err)
{
	const struct remote_process *const remote = &injection->remote;

	if (!remote->has_libc && remote->has_interpreter)
		return error_set(err, ERROR_STATE, "it has not loaded its C library yet");
	injection->is_raw = !remote->has_libc;
	if (injection->is_raw)
		return true;
	injection->pthread_create = remote_function(remote, REMOTE_LIBC, "pthread_create");
	injection->pthread_detach = remote_function(remote, REMOTE_LIBC, "pthread_detach");
	injection->dlopen = remote_function(remote, REMOTE_LIBC, "dlopen");
	/* Before glibc 2.34 it is in libdl, which few programs load; this one is there for the
	 * library's own use. */
	if (injection->dlopen == 0)
		injection->dlopen = remote_function(remote, REMOTE_LIBRARY, "dlopen");
	injection->dlsym = remote_function(remote, REMOTE_LIBC, "dlsym");
	if (injection->dlsym == 0)
		injection->dlsym = remote_function(remote, REMOTE_LIBRARY, "dlsym");
	injection->dlerror = remote_function(remote, REMOTE_LIBC, "dlerror");
	if (injection->dlerror == 0)
		injection->dlerror = remote_function(remote, REMOTE_LIBRARY, "dlerror");
	if (injection->pthread_create == 0 || injection->pthread_detach == 0 ||
		injection->dlopen == 0 || injection->dlsym == 0 || injection->dlerror == 0)
		return error_set(err, ERROR_UNSUPPORTED,
			"its C library is older than glibc 2.34, and it has not loaded libpthread "
			"and libdl");
	return true;
}

/* The unused bytes at the end of a module's code, if that is never unloaded. */
enum code_place { PLACE_NONE, PLACE_FREE, PLACE_USED };

/*
 * PLACE_USED: by an attach that was killed, and a thread may still be there. That thread unmaps
 * `memory` last of all.
 */
static enum code_place look_at_place(const struct injection *injection,
	const struct remote_module *module, char bytes[TRAMPOLINE_CODE_MAX], uint64_t *memory)
{
	/* A thread that stands there must not lose its code. */
	if (!module->stays || module->spare_bytes < TRAMPOLINE_CODE_MAX ||
		!remote_copy(&injection->remote, module->spare, bytes, TRAMPOLINE_CODE_MAX))
		return PLACE_NONE;
	return trampoline_is_in(bytes, memory) || raw_code_is_in(bytes, memory) ? PLACE_USED
										: PLACE_FREE;
}

/*
 * Chooses a free one: of a library, not of the C library itself, where there is a choice. False
 * when there is no place at all; injection->code stays 0 when all are used.
 */
static bool find_place(struct injection *injection, struct error *err)
{
	char bytes[TRAMPOLINE_CODE_MAX];
	bool is_any_used = false;
	uint64_t ignored;

	remote_find_needs(&injection->remote);
	for (size_t i = 0; i < injection->remote.count; i++) {
		const struct remote_module *const module = &injection->remote.modules[i];
		const enum code_place place = look_at_place(injection, module, bytes, &ignored);
		is_any_used = is_any_used || place == PLACE_USED;
		if (place != PLACE_FREE)
			continue;
		injection->code = module->spare;
		memcpy(injection->before, bytes, sizeof bytes);
		if (module->role != REMOTE_LIBC && module->role != REMOTE_LOADER)
			break;
	}
	if (injection->code != 0 || is_any_used)
		return true;
	return remote_is_gone(&injection->remote)
		       ? injection_explain_end(err)
		       : error_set(err, ERROR_UNSUPPORTED,
				 "no page of its code has %d unused bytes", TRAMPOLINE_CODE_MAX);
}

/* Whether no thread is there any more, or will come: a thread that starts there has its memory. */
static bool is_left(const struct injection *injection, const struct stopped_process *stopped,
	uint64_t code, uint64_t memory)
{
	const struct address_range range = { code, code + TRAMPOLINE_CODE_MAX };
	char byte;

	return !remote_copy(&injection->remote, memory, &byte, sizeof byte) &&
	       !stopped_process_is_in(stopped, &range, 1, NULL);
}

/* One that was used and left is used again. */
static bool find_left_place(struct injection *injection, struct error *err)
{
	char bytes[TRAMPOLINE_CODE_MAX];
	struct stopped_process stopped;
	uint64_t memory;

	if (!stopped_process_begin(&stopped, &injection->remote, &injection->waiting, STOP_MS, err))
		return false;
	for (size_t i = 0; i < injection->remote.count && injection->code == 0; i++) {
		const struct remote_module *const module = &injection->remote.modules[i];
		if (look_at_place(injection, module, bytes, &memory) == PLACE_USED &&
			is_left(injection, &stopped, module->spare, memory))
			injection->code = module->spare;
	}
	stopped_process_end(&stopped);
	if (injection->code != 0)
		return true;
	error_set(err, ERROR_STATE,
		"attaches that were killed have left code in it, where a thread may still be");
	return error_hint(err, "try again in %d seconds; nothing was changed", TRAMPOLINE_WAIT_S);
}

/* The lock is on a file that every user can open that may trace the process. */
bool injection_lock(const struct remote_process *remote, struct error *err)
{
	return flock(remote->memory, LOCK_EX | LOCK_NB) == 0 ||
	       error_set(err, ERROR_STATE, "another heapctl is just attaching to it");
}

static bool read_target(struct injection *injection, pid_t pid, bool is_locked, struct error *err)
{
	if (!remote_read(&injection->remote, pid, err) ||
		(is_locked && !injection_lock(&injection->remote, err)) ||
		!find_functions(injection, err))
		return false;
	if (injection->remote.gap_bytes < 4 * TRAMPOLINE_MAPPED_BYTES)
		return error_set(err, ERROR_UNSUPPORTED, "it has no free addresses");
	/* In the middle: what the program maps meanwhile begins at the ends. */
	injection->memory = (injection->remote.gap + injection->remote.gap_bytes / 2) &
			    ~(uint64_t)(PAGE_BYTES - 1);
	stack_waiting_find(&injection->waiting, &injection->remote);
	return true;
}

/* A program that has just been executed gets its libraries one after the other. */
static bool read_when_started(
	struct injection *injection, pid_t pid, bool is_locked, struct error *err)
{
	const int64_t until_ms = clock_monotonic_ms() + START_MS;

	for (;;) {
		*injection = (struct injection){ 0 };
		if (read_target(injection, pid, is_locked, err))
			return true;
		const struct remote_process *const remote = &injection->remote;
		const bool may_be_starting =
			remote->memory >= 0 &&
			(remote->has_interpreter || remote_is_gone(remote) || remote->count == 0);
		if (!may_be_starting || clock_monotonic_ms() > until_ms)
			return false;
		remote_deinit(&injection->remote);
		clock_sleep_us(START_POLL_US);
	}
}

bool injection_init(struct injection *injection, pid_t pid, struct error *err)
{
	return read_when_started(injection, pid, true, err) && find_place(injection, err) &&
	       (injection->code != 0 || find_left_place(injection, err));
}

bool injection_init_for_looks(struct injection *injection, pid_t pid, struct error *err)
{
	return read_when_started(injection, pid, false, err) && find_place(injection, err);
}

void injection_deinit(struct injection *injection)
{
	remote_deinit(&injection->remote);
	injection->code = 0;
}

bool injection_explain_end(struct error *err)
{
	return error_set(err, ERROR_NOT_FOUND, "it has ended, or executes another program now");
}

void injection_write_unused_bytes(const struct injection *injection)
{
	if (!remote_write(&injection->remote, injection->code, injection->before,
		    sizeof injection->before)) {
		/* What is left is unused, as it was before. */
	}
}
