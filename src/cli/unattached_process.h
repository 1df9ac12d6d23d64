/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process that has no agent, or one that cannot answer, and what the kernel shows of its memory:
 * for account and status. Reads /proc alone. Nothing of the process runs for it, and one that is
 * stopped is read as well.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "analysis/smaps.h"
#include "base/error.h"
#include "client/process.h"

struct unattached_process {
	struct process process;
	struct process_modules modules;
	struct error absence;	/* why no agent answers */
	bool is_silent;		/* it has one, as far as may be seen */
	bool has_own_allocator; /* in the program's file */
	bool can_attach;
	struct error refusal; /* why not */
	struct smaps smaps;
	int64_t time_ms; /* when that was read */
};

/*
 * Reads the process that `text` names. `err` has the reason why target_resolve() found no agent, or
 * its agent did not answer; it stays where that is all that can be said: no such process, or no
 * operand that names one.
 */
MUST_CHECK bool unattached_process_read(
	const char *text, struct unattached_process *unattached, struct error *err);

/*
 * Whether `err`, of a request to the agent of the process, is that it is stopped or frozen: then it
 * can be read as if it had none.
 */
bool unattached_process_is_stopped(const struct process *process, const struct error *err);

/* Its malloc may be glibc's: there is no other, and no runtime with a heap of its own. */
bool unattached_process_has_glibc(const struct unattached_process *unattached);

/* What attaching would tell, or why it would be refused; a sentence. Free with free(). */
char *unattached_process_describe_attach(const struct unattached_process *unattached);

/*
 * Why `heapctl attach` would refuse, without the process in front, which the reader knows; "" for
 * none.
 */
const char *unattached_process_refusal(const struct process *process, const struct error *refusal);

/* As in `ps --json`. */
const char *unattached_process_state(const struct unattached_process *unattached);

/*
 * Its identity, whether it can be attached to, and why not: the same keys in each command's --json.
 * `refusal` is NULL where it can be. Caller owns the object.
 */
json_t *unattached_process_json(const struct process *process, const struct error *refusal);
