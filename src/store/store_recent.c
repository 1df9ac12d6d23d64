/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_recent.h"

#include "store/store_index.h"

bool store_each_recent(struct store *store, int64_t from_ms, int64_t step_ms, size_t max,
	void (*take)(void *context, const struct store_recent *recent), void *context,
	struct error *err)
{
	STORE_HOLD(store);
	CLEANUP(statement_cleanup) sqlite3_stmt *row = NULL;
	int step;

	/* Of a row with max() SQLite takes the other columns from the row that has it. */
	if (!store_prepare(store,
		    "SELECT target, pid, started_ms, max(time_ms), allocated, rss, reason FROM "
		    "snapshot "
		    "WHERE time_ms >= ?1 GROUP BY target, pid, started_ms, (time_ms - ?1) / ?2 "
		    "ORDER BY target, pid, started_ms, 4 LIMIT ?3",
		    &row, err))
		return false;
	sqlite3_bind_int64(row, 1, from_ms);
	sqlite3_bind_int64(row, 2, step_ms);
	sqlite3_bind_int64(row, 3, (sqlite3_int64)max);
	while ((step = sqlite3_step(row)) == SQLITE_ROW) {
		const struct store_recent recent = {
			.target = (const char *)sqlite3_column_text(row, 0),
			.pid = sqlite3_column_int64(row, 1),
			.started_ms = sqlite3_column_int64(row, 2),
			.time_ms = sqlite3_column_int64(row, 3),
			.allocated = (uint64_t)sqlite3_column_int64(row, 4),
			.rss = (uint64_t)sqlite3_column_int64(row, 5),
			.reason = (const char *)sqlite3_column_text(row, 6),
		};
		take(context, &recent);
	}
	return step == SQLITE_DONE || store_fail(store, err);
}
