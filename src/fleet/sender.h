/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends snapshots to a fleet's database: at least once, and counted once.
 *
 * Snapshots are gathered into batches of one host. Before a batch is sent, and before
 * it is sent again, the database is asked which of its snapshots are there: one whose row of
 * `profile` is there is done, one whose samples are there lacks only that row. Samples of a
 * snapshot are one insert, which ClickHouse does as a whole or not at all; and one host has one
 * insert at a time, by its id, so that one whose answer was lost cannot end after the question.
 *
 * For one thread at a time.
 */
#pragma once

#include "fleet/clickhouse.h"
#include "fleet/http.h"
#include "fleet/rows.h"

struct sender_options {
	struct fleet_retry retry;
	/* Called for each snapshot that is in the database for certain, in their order. */
	void (*sent)(void *context, int64_t id, bool was_there);
	void *context;
};

struct sender;

struct sender *sender_new(struct clickhouse *clickhouse, const struct sender_options *options);
void sender_free(struct sender *sender);

DEFINE_CLEANUP(sender_cleanup, struct sender *, sender_free)

/*
 * Adds a snapshot, whose `id` is the caller's, and sends a batch when there is one. On failure the
 * snapshots that were not reported as sent may or may not be in the database.
 */
MUST_CHECK bool sender_add(struct sender *sender, int64_t id, const struct fleet_snapshot *snapshot,
	const struct fleet_rows *rows, struct error *err);

/*
 * Asks again, before the next batch, whether the tables are ours, and sends all stacks again if
 * they were made anew. Between batches.
 */
void sender_recheck(struct sender *sender);

/* Sends the rest, and sums the host's past days if that was not done (fleet/growth_days.h). */
MUST_CHECK bool sender_flush(struct sender *sender, struct error *err);
