/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/growth_days.h"

#include <inttypes.h>

#include "base/xalloc.h"
#include "fleet/clickhouse_text.h"

#define DAY_MS INT64_C(86400000)
#define DAY_S INT64_C(86400)

/* What is summed at once: a million samples take the server some 200 MB; a query, 256 KiB. */
enum { HOSTS_MAX = 100, SAMPLES_MAX = 1000000 };

#define PROCESS "service, host, pid, started"
#define DAY "toDate(toUInt16(intDiv(snapshot, 86400000)))"
#define HOUR "(snapshot % 86400000) / 3600000"

/* Days since 1970; all hosts where it has none. */
struct day_range {
	const char **hosts;
	size_t host_count;
	int64_t first, end; /* the one after the last */
};

static void append_host(struct buffer *out, const struct day_range *range)
{
	if (range->host_count == 0)
		return;
	buffer_append_string(out, " AND host IN (");
	for (size_t i = 0; i < range->host_count; i++) {
		buffer_append_string(out, i == 0 ? "" : ",");
		clickhouse_append_quoted(out, range->hosts[i]);
	}
	buffer_append_char(out, ')');
}

/* Of `profile` and `sample`. */
static void append_times(struct buffer *out, const struct day_range *range)
{
	buffer_printf(out, " WHERE ts BETWEEN toDateTime(%" PRId64 ") AND toDateTime(%" PRId64 ")",
		range->first * DAY_S, range->end * DAY_S - 1);
	append_host(out, range);
}

/* Of the sums. */
static void append_days(struct buffer *out, const struct day_range *range)
{
	buffer_printf(out,
		" WHERE day BETWEEN toDate(toUInt16(%" PRId64 ")) AND toDate(toUInt16(%" PRId64
		"))",
		range->first, range->end - 1);
	append_host(out, range);
}

/*
 * Days of processes that are not in the sums: `day`, their version `v`, the number `n` of their
 * snapshots, and that of all rows of these.
 */
static void append_unsummed(struct buffer *out, const struct day_range *range)
{
	buffer_append_string(out,
		"(SELECT " PROCESS ", day, v, n, all_rows FROM (SELECT " PROCESS ", day, max(v1) "
		"AS v, toUInt32(count()) AS n, sum(rows1) AS all_rows FROM (SELECT " PROCESS
		", " DAY " AS day, max(version) AS v1, max(stacks) AS rows1 FROM profile");
	append_times(out, range);
	buffer_append_string(out,
		" GROUP BY " PROCESS ", snapshot) GROUP BY " PROCESS ", day HAVING all_rows > 0) "
		"ALL LEFT JOIN "
		"(SELECT " PROCESS ", day, max(snapshots) AS done FROM process_day");
	append_days(out, range);
	buffer_append_string(
		out, " GROUP BY " PROCESS ", day) USING " PROCESS ", day WHERE n > done)");
}

/*
 * Each stack of each snapshot once, however often its row is there; and no day of which rows are
 * missing, which is so on a replica that has not got them yet.
 */
static void append_growth(struct buffer *out, const struct day_range *range)
{
	buffer_append_string(out,
		"INSERT INTO growth_day (service, version, host, pid, started, day, stack, "
		"snapshots, bytes, bytes_hours) SELECT service, v, host, pid, started, day, "
		"stack, n, y, uy FROM (SELECT " PROCESS ", day, all_rows, stacks1, ys, uys, v, n "
		"FROM (SELECT " PROCESS ", day, sum(c) AS all_rows, groupArray(stack) AS stacks1, "
		"groupArray(y1) AS ys, groupArray(uy1) AS uys FROM "
		"(SELECT " PROCESS ", day, stack, count() AS c, sum(b) AS y1, sum(b * u) AS uy1 "
		"FROM (SELECT " PROCESS ", stack, " DAY " AS day, " HOUR " AS u, "
		"any(inuse_bytes) AS b FROM sample");
	append_times(out, range);
	buffer_append_string(out, " AND (" PROCESS ", snapshot) GLOBAL IN (SELECT " PROCESS
				  ", snapshot FROM profile");
	append_times(out, range);
	buffer_append_string(out,
		") GROUP BY " PROCESS ", snapshot, stack) GROUP BY " PROCESS ", day, stack) "
		"GROUP BY " PROCESS ", day) ALL INNER JOIN ");
	append_unsummed(out, range);
	buffer_append_string(out, " USING " PROCESS ", day, all_rows) "
				  "ARRAY JOIN stacks1 AS stack, ys AS y, uys AS uy");
}

static void append_processes(struct buffer *out, const struct day_range *range)
{
	buffer_append_string(out,
		"INSERT INTO process_day (service, version, host, pid, started, day, snapshots, "
		"hours, hours_squared, label_names, label_values) SELECT service, v, host, pid, "
		"started, day, n, su, suu, names, values FROM (SELECT " PROCESS ", day, max(v1) AS "
		"v, toUInt32(count()) AS n, sum(u) AS su, sum(u * u) AS suu, any(names1) AS names, "
		"any(values1) AS values FROM (SELECT " PROCESS ", " DAY " AS day, " HOUR " AS u, "
		"max(version) AS v1, any(label_names) AS names1, any(label_values) AS values1 "
		"FROM profile");
	append_times(out, range);
	buffer_append_string(out,
		" GROUP BY " PROCESS ", snapshot) GROUP BY " PROCESS ", day) ALL INNER JOIN "
		"(SELECT " PROCESS ", day, max(snapshots) AS n FROM growth_day");
	append_days(out, range);
	buffer_append_string(out, " GROUP BY " PROCESS ", day) USING " PROCESS ", day, n");
}

static bool sum(struct clickhouse *clickhouse, const struct day_range *range, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer growth = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer processes = BUFFER_OR_EXIT;

	append_growth(&growth, range);
	append_processes(&processes, range);
	return clickhouse_run(clickhouse, buffer_string(&growth), "", true, err) &&
	       clickhouse_run(clickhouse, buffer_string(&processes), "", true, err);
}

static bool count_unsummed(struct clickhouse *clickhouse, const struct day_range *range,
	uint64_t *count, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer query = BUFFER_OR_EXIT;
	CLEANUP(clickhouse_rows_cleanup) json_t *rows = NULL;

	*count = 0;
	if (range->first >= range->end)
		return true;
	buffer_append_string(&query, "SELECT count() FROM ");
	append_unsummed(&query, range);
	if (!clickhouse_select(clickhouse, buffer_string(&query), "u", &rows, err))
		return false;
	if (json_array_size(rows) == 1)
		*count = clickhouse_unsigned(json_array_get(rows, 0), 0);
	return true;
}

bool growth_days_missing(struct clickhouse *clickhouse, int64_t since_ms, int64_t until_ms,
	uint64_t *count, struct error *err)
{
	const struct day_range range = { .first = since_ms / DAY_MS, .end = until_ms / DAY_MS };

	return count_unsummed(clickhouse, &range, count, err);
}

/* The hosts of a week from a row on, as many as are summed at once; the row after them. */
static size_t take_hosts(
	const json_t *rows, size_t at, const struct day_range *all, struct day_range *range)
{
	const uint64_t week = clickhouse_unsigned(json_array_get(rows, at), 0);
	uint64_t samples = 0;

	range->host_count = 0;
	range->first = 7 * (int64_t)week > all->first ? 7 * (int64_t)week : all->first;
	range->end = 7 * (int64_t)week + 7 < all->end ? 7 * (int64_t)week + 7 : all->end;
	for (; at < json_array_size(rows) && range->host_count < HOSTS_MAX; at++) {
		const json_t *const row = json_array_get(rows, at);
		samples += clickhouse_unsigned(row, 2);
		if (clickhouse_unsigned(row, 0) != week ||
			(range->host_count != 0 && samples > SAMPLES_MAX))
			break;
		range->hosts[range->host_count++] = clickhouse_text(row, 1);
	}
	return at;
}

/* Weeks that have nothing to be summed cost nothing: a wrong clock may have begun in 1970. */
static bool sum_weeks(struct clickhouse *clickhouse, const struct day_range *all, struct error *err)
{
	const char *hosts[HOSTS_MAX];
	struct day_range range = { .hosts = hosts };
	CLEANUP(buffer_deinit) struct buffer query = BUFFER_OR_EXIT;
	CLEANUP(clickhouse_rows_cleanup) json_t *rows = NULL;

	buffer_append_string(&query,
		"SELECT intDiv(toUInt64(toUInt16(day)), 7) AS week, host, sum(all_rows) FROM ");
	append_unsummed(&query, all);
	buffer_append_string(&query, " GROUP BY week, host ORDER BY week, host");
	if (!clickhouse_select(clickhouse, buffer_string(&query), "usu", &rows, err))
		return false;
	for (size_t at = 0; at < json_array_size(rows);) {
		at = take_hosts(rows, at, all, &range);
		if (!sum(clickhouse, &range, err))
			return false;
	}
	return true;
}

bool growth_days_sum(struct clickhouse *clickhouse, const char *host, int64_t since_ms,
	int64_t now_ms, struct error *err)
{
	const struct day_range all = {
		.hosts = &host, .host_count = 1, .first = since_ms / DAY_MS, .end = now_ms / DAY_MS
	};

	return all.first >= all.end || sum_weeks(clickhouse, &all, err);
}

bool growth_days_sum_all(struct clickhouse *clickhouse, int64_t now_ms, struct error *err)
{
	const struct day_range all = { .end = now_ms / DAY_MS };

	clickhouse_begin_writing(clickhouse);
	return sum_weeks(clickhouse, &all, err);
}
