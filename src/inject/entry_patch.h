/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patches the functions of an allocator in another process, and restores them, while all of its
 * threads are stopped.
 *
 * A process of ours does it, which may die at any moment: what the functions jump to is complete
 * before the first of them is written, and each is one write of five bytes. Functions that release
 * blocks are patched first and restored last, so that the end of a sampled block is never missed.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "inject/entry_functions.h"

/* Where the agent in the process has what is needed: the answer of its attach function. */
struct entry_agent {
	uint64_t area;	  /* ENTRY_AREA_BYTES of it */
	uint64_t entries; /* its table of functions, by ENTRY_LIST */
	uint64_t count;
};

struct entry_result {
	size_t functions; /* patched, or restored */
	size_t foreign;	  /* not restored: another tool has patched them since, or they are gone */
	bool is_unused;	  /* restored: no thread is in the area any more, or may get there */
	int threads;	  /* that were stopped */
	int64_t stop_us;  /* how long */
	int stops;	  /* until none of them stood in the way */
};

/* ERROR_STATE when a thread stands in the way each time, or a function has changed meanwhile. */
MUST_CHECK bool entry_patch(pid_t pid, const struct entry_functions *found,
	const struct entry_agent *agent, struct entry_result *result, struct error *err);

/*
 * By what the area says; nothing is done where it has nothing. The replacements call the functions
 * themselves again: the program may have kept the address of one, and calls it at any time.
 */
MUST_CHECK bool entry_restore(
	pid_t pid, const struct entry_agent *agent, struct entry_result *result, struct error *err);
