/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the agent may be loaded into a running process, as far as /proc shows: looks only.
 */
#pragma once

#include <stdbool.h>

#include "client/process.h"

/*
 * False, with the reason and what to do, when it must not be tried or cannot work: no permission,
 * another tracer, a process that is stopped or that was built with a sanitizer.
 * ERROR_STATE where the user may insist (`is_forced`): a program with more rights than its user, a
 * seccomp filter, a module whose file was cut, too little memory in its control group or its
 * limits.
 */
MUST_CHECK bool attach_check(const struct process *process, bool is_forced, struct error *err);

enum attach_advice {
	ATTACH_NOW,	/* heapctl attach loads an agent */
	ATTACH_AFTER,	/* the same after what the hint says first */
	ATTACH_REFUSED, /* not by default */
	ATTACH_NEVER,
};

/* How a process without an agent gets one: sets the hint, which may be empty for ATTACH_NEVER. */
enum attach_advice attach_advise(
	const struct process *process, const struct process_modules *modules, struct error *err);

/*
 * Our HEAPCTL_DIR, for the agent of the process; NULL when it is not set, or is no folder that the
 * process sees. attach_check() fails with ERROR_INPUT where the agent would not use it.
 */
const char *attach_folder(const struct process *process);

/*
 * Sets the hint of an error about a process without an agent: the command that loads one where
 * attach_check() finds nothing against it. Returns false.
 */
bool attach_offer(
	const struct process *process, const struct process_modules *modules, struct error *err);

/*
 * Whether the process sees the file `library`, which is ours, under the same path. Where it does
 * not, the library gets to it as a file in memory, which it opens by /proc: ERROR_UNSUPPORTED
 * without.
 */
MUST_CHECK bool attach_check_library(
	const struct process *process, const char *library, bool *is_visible, struct error *err);

/* Whether /proc is mounted where the process sees it. */
bool attach_has_proc(const struct process *process);
