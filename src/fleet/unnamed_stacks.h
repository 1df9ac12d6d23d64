/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of a fleet's database whose functions were not all known when they were sent. They are
 * read as a profile, whose addresses get their names like those of any other, and written back;
 * samples have the number of their stack and stay as they are.
 *
 * Only what is in a file with a build-id can get a name: any other file may be another one by now.
 */
#pragma once

#include "fleet/clickhouse.h"
#include "profile/profile.h"

struct unnamed_stack {
	uint64_t stack;
	size_t unnamed;		     /* addresses that can get a name */
	json_t *build_ids, *offsets; /* as they were read; of the batch */
};

/* Starts as { 0 }. */
struct unnamed_stacks {
	struct profile *profile; /* its stacks are those of the items, in their order */
	struct unnamed_stack *items;
	size_t count, capacity;
	json_t *rows;
	uint64_t last;	/* the stack that was read last */
	bool is_at_end; /* there are none behind it */
};

void unnamed_stacks_deinit(struct unnamed_stacks *stacks);

/* Reads the next ones after a number, at most some thousand. */
MUST_CHECK bool unnamed_stacks_read(struct clickhouse *clickhouse, uint64_t after,
	struct unnamed_stacks *stacks, struct error *err);

/* What of the database's stacks was named. */
struct unnamed_counts {
	size_t completed; /* have all of the names that they can have */
	size_t improved;  /* some */
	size_t unchanged;
};

/* Writes those that got names. The same again changes nothing. Adds to `counts`. */
MUST_CHECK bool unnamed_stacks_write(struct clickhouse *clickhouse,
	const struct unnamed_stacks *stacks, struct unnamed_counts *counts, struct error *err);
