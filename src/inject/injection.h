/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an attach needs to know of the process that it is about, read before anything is stopped.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "inject/remote.h"
#include "inject/stack_rule.h"
#include "inject/trampoline.h"

struct injection {
	struct remote_process remote;
	struct stack_waiting waiting;
	/* Nothing of a static program is called: inject/raw_code.h instead of the trampoline. */
	bool is_raw;
	uint64_t pthread_create, pthread_detach, dlopen, dlsym, dlerror;
	uint64_t code;			  /* where the trampoline goes, or the other */
	uint64_t memory;		  /* what it maps */
	char before[TRAMPOLINE_CODE_MAX]; /* the unused bytes there */
};

/*
 * Reads the process, and holds it against other attaches, which would write to the same place.
 * ERROR_UNSUPPORTED for one whose C library cannot do it, ERROR_DENIED, ERROR_NOT_FOUND,
 * ERROR_STATE during another attach. Release with injection_deinit, on failure too.
 */
MUST_CHECK bool injection_init(struct injection *injection, pid_t pid, struct error *err);
void injection_deinit(struct injection *injection);

/*
 * The lock alone, for the process that was read: two at a time would write to the same place. It
 * ends with remote_deinit().
 */
MUST_CHECK bool injection_lock(const struct remote_process *remote, struct error *err);

/* Only reads it. The same errors, but for the other attach. */
MUST_CHECK bool injection_init_for_looks(struct injection *injection, pid_t pid, struct error *err);

/* Sets ERROR_NOT_FOUND, for a process that is gone (remote_is_gone); returns false. */
bool injection_explain_end(struct error *err);

/* Puts the unused bytes back once nothing runs there any more. */
void injection_write_unused_bytes(const struct injection *injection);
