/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sums of whole days, from which growth over months is computed: for each process and day the
 * number and times of its snapshots (process_day), and for each of its stacks the bytes, and the
 * bytes times the hour (growth_day). Days are those of UTC, hours count from their begin.
 *
 * A day is summed after it ended, from the rows that are there, and again when later ones arrived:
 * its rows replace the earlier ones by their number of snapshots. So sums do not depend on how
 * often or by how many a snapshot was sent or a day summed. Rows of process_day come last, and only
 * with the number of snapshots that growth_day has: what was interrupted is done again. A process
 * without a sample on a day has no sums of it.
 */
#pragma once

#include "fleet/clickhouse.h"

/*
 * Sums the days of a host from the day of since_ms until the day before that of now_ms, if any has
 * snapshots that are not in the sums.
 */
MUST_CHECK bool growth_days_sum(struct clickhouse *clickhouse, const char *host, int64_t since_ms,
	int64_t now_ms, struct error *err);

/* The same for all hosts and days, some hosts and a week at a time. */
MUST_CHECK bool growth_days_sum_all(
	struct clickhouse *clickhouse, int64_t now_ms, struct error *err);

/* How many days of processes in a range have snapshots that are not in the sums. */
MUST_CHECK bool growth_days_missing(struct clickhouse *clickhouse, int64_t since_ms,
	int64_t until_ms, uint64_t *count, struct error *err);
