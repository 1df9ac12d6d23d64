/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches the agent to a process, for the verbs that may do so: attach and record --attach; and
 * what is shown of a process that has no agent.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "analysis/smaps.h"
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

/* Checks the process, loads the agent, and waits until it answers. */
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

/*
 * A process that has no agent, and what the kernel shows of its memory: for account and status.
 * Reads /proc alone. Nothing of the process runs for it, and one that is stopped is read as well.
 */
struct unattached_process {
	struct process process;
	struct process_modules modules;
	struct error absence;	/* why no agent answers */
	bool has_own_allocator; /* in the program's file */
	bool can_attach;
	struct error refusal; /* why not */
	struct smaps smaps;
	int64_t time_ms; /* when that was read */
};

/*
 * Reads the process that `text` names. `err` has the reason why target_resolve() found no agent; it
 * stays where that is all that can be said: no such process, or no operand that names one.
 */
MUST_CHECK bool unattached_process_read(
	const char *text, struct unattached_process *unattached, struct error *err);

/* Its malloc may be glibc's: there is no other, and no runtime with a heap of its own. */
bool unattached_process_has_glibc(const struct unattached_process *unattached);

/* What attaching would tell, or why it would be refused; a sentence. Free with free(). */
char *unattached_process_describe_attach(const struct unattached_process *unattached);

/*
 * Why `heapctl attach` would refuse, without the process in front, which the reader knows; "" for
 * none.
 */
const char *unattached_process_refusal(const struct process *process, const struct error *refusal);

/*
 * Its identity, whether it can be attached to, and why not: the same keys in each command's --json.
 * `refusal` is NULL where it can be. Caller owns the object.
 */
json_t *unattached_process_json(const struct process *process, const struct error *refusal);
