/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows that a profile is in a fleet's database.
 *
 * A *stack* is known by the build-id of each mapped file and the offset of the address in it, so it
 * is the same wherever the files are loaded. A *site* is known by the names of its functions, root
 * to leaf and without the allocator's own, so it is the same in every build. What has no name is
 * FILE+OFFSET in a site: symbols are resolved before rows are made. Memory without a file is at
 * another place in each process: it has no offset, and the address is known by its name alone.
 *
 * A row has the samples as they were taken, not estimates, whose variance depends on both: the
 * database computes the estimates (fleet/schema.h).
 */
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "store/identity.h"
#include "profile/profile.h"
#include "store/snapshot.h"

struct fleet_row {
	uint64_t stack, site;
	double samples, sampled_bytes;
	/* What the table `stack` has beside the two, three columns of TabSeparated. */
	const char *columns;
};

struct fleet_rows {
	struct fleet_row *items; /* one for each stack */
	size_t count, capacity;
	uint64_t interval_bytes; /* 1 where nothing was left to samples; 0 where it is unknown */
	double inuse_bytes, inuse_variance; /* the variance is NAN where the interval is unknown */
	struct arena texts;
};

/*
 * Of what is in use. ERROR_UNSUPPORTED for profiles other than sampled heaps, and for those of
 * samplers whose counts cannot be added up.
 */
MUST_CHECK bool fleet_rows_make(
	const struct profile *profile, struct fleet_rows *rows, struct error *err);
void fleet_rows_deinit(struct fleet_rows *rows);

/* The key of a snapshot, and what is known of it. */
struct fleet_snapshot {
	struct snapshot_identity identity;
	int64_t pid, started_ms; /* 0: not known */
	int64_t time_ms;
	const char *reason;
	uint64_t bytes[FIGURES]; /* 0: not known */
};

/* Lines of the tables of the same names (fleet/schema.h). */
void fleet_append_stack(struct buffer *out, const struct fleet_row *row);
void fleet_append_samples(
	struct buffer *out, const struct fleet_snapshot *snapshot, const struct fleet_rows *rows);
void fleet_append_profile(
	struct buffer *out, const struct fleet_snapshot *snapshot, const struct fleet_rows *rows);
