/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches the agent to a process, for the verbs that may do so: attach and record --attach.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "client/doctor.h"
#include "client/process.h"
#include "cli/control.h"
#include "client/target.h"
#include "inject/entry_patch.h"

/* How the calls of the allocator are seen where jemalloc does not profile itself. */
enum attach_method {
	ATTACH_AUTO,  /* ENTRY where the program brings its allocator, else GOT */
	ATTACH_GOT,   /* by the tables through which modules call each other */
	ATTACH_ENTRY, /* by jumps in the functions of the allocator */
};

struct attach_request {
	enum attach_method method;
	int lg_sample;	   /* SAMPLE_LG_KEEP: the default */
	bool wants_mapped; /* sample what the program maps itself, too; not by ATTACH_ENTRY */
	bool is_active;	   /* switch sampling on */
	bool is_forced;	   /* as attach_check() */
};

struct attachment {
	struct target target;
	/* How long the thread stood still that was used; the longest stop, and all of them. */
	int64_t stop_us, max_stop_us, total_stop_us;
	int stops; /* how many threads were stopped until one could be used */
	/* Of ATTACH_ENTRY; else no functions. */
	struct entry_result entries;
	char entries_in[256]; /* the file of the functions */
	/* Why sampling could not be switched on, where that was not requested; else ERROR_NONE. */
	struct error problem;
};

/* Whether attaching could work, as far as it shows while nothing is stopped. */
MUST_CHECK bool attachment_check(const struct process *process, struct error *err);

/*
 * Checks the process, loads the agent, and waits until it answers. Calls terminal_catch_interrupts:
 * at an interrupt the agent is taken out again, which is an error.
 */
MUST_CHECK bool attachment_make(const struct process *process, const struct attach_request *request,
	struct attachment *attachment, struct error *err);

/* For heapctl doctor: whether the process could be attached to, by looks only. */
void attachment_examine(struct diagnosis *diagnosis, const struct process *process);

/*
 * Restores patched functions, ends the agent of the process, and waits until its socket and its
 * thread are gone. `answer` is the agent's, `entries` what was restored.
 */
MUST_CHECK bool attachment_end(const struct target *target, json_t **answer,
	struct entry_result *entries, struct error *err);
