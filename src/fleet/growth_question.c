/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>

#include "analysis/significance.h"
#include "fleet/growth_days.h"
#include "fleet/question_parts.h"
#include "fleet/questions.h"

/* A longer range is answered by the sums of days. */
#define SNAPSHOTS_MAX_MS (7 * QUESTION_DAY_MS)

/* Of the begin of a day. */
#define DAY_HOURS "(toFloat64(toUInt16(day)) * 24 - %" PRId64 ")"

#define PROCESS_OF_VERSION QUESTION_PROCESS_OF_VERSION

/* The whole hours before the range: differences are small, so squares keep their digits. */
static int64_t hours_before(const struct fleet_scope *scope)
{
	return scope->since_ms / (QUESTION_DAY_MS / 24);
}

/* As question_append_processes() by the sums of days, each of which counts from its own begin. */
static void append_processes_of_days(struct buffer *out, const struct fleet_scope *scope)
{
	buffer_printf(out,
		"SELECT " PROCESS_OF_VERSION ", toFloat64(sum(n1)) AS n, sum(h1 + n1 * d) AS st, "
		"sum(q1 + 2 * d * h1 + n1 * d * d) AS stt FROM (SELECT " PROCESS_OF_VERSION
		", max(snapshots) AS n1, argMax(hours, snapshots) AS h1, "
		"argMax(hours_squared, snapshots) AS q1, " DAY_HOURS " AS d",
		hours_before(scope));
	question_append_process_days(out, scope);
	buffer_append_string(
		out, " GROUP BY " PROCESS_OF_VERSION ", day) GROUP BY " PROCESS_OF_VERSION);
}

/* For each process and stack the sum of its bytes, and that of the bytes times the time. */
static void append_stacks(struct buffer *out, const struct fleet_scope *scope)
{
	buffer_printf(out,
		"SELECT " PROCESS_OF_VERSION ", stack, sum(inuse_bytes) AS y1, "
		"sum(inuse_bytes * " QUESTION_HOURS ") AS ty1",
		scope->since_ms);
	question_append_samples(out, scope, false);
	buffer_append_string(out, " GROUP BY " PROCESS_OF_VERSION ", stack");
}

/* A day that was summed twice has equal rows twice; one that was summed again, lower numbers. */
static void append_stacks_of_days(struct buffer *out, const struct fleet_scope *scope)
{
	buffer_printf(out,
		"SELECT " PROCESS_OF_VERSION ", stack, sum(b) AS y1, sum(bh + b * d) AS ty1 FROM "
		"(SELECT " PROCESS_OF_VERSION
		", stack, any(bytes) AS b, any(bytes_hours) AS bh, " DAY_HOURS
		" AS d FROM growth_day WHERE ",
		hours_before(scope));
	question_append_days(out, scope);
	buffer_append_string(out,
		" AND (" QUESTION_PROCESS ", day, snapshots) GLOBAL IN (SELECT " QUESTION_PROCESS
		", day, max(snapshots)");
	question_append_process_days(out, scope);
	buffer_append_string(out,
		" GROUP BY " QUESTION_PROCESS ", day) GROUP BY " PROCESS_OF_VERSION ", stack, day) "
		"GROUP BY " PROCESS_OF_VERSION ", stack");
}

/* Those with enough snapshots. */
static void append_tested(struct buffer *out, const struct fleet_scope *scope, bool is_daily)
{
	buffer_append_string(out, "(");
	if (is_daily)
		append_processes_of_days(out, scope);
	else
		question_append_processes(out, scope);
	buffer_printf(out, " HAVING n >= %d AND n * stt > st * st)", QUESTION_MIN_SNAPSHOTS);
}

static bool ask_slopes(struct clickhouse *clickhouse, const struct fleet_scope *scope,
	bool is_daily, json_t **counts, json_t **slopes, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer query = BUFFER_OR_EXIT;

	buffer_append_string(&query, "SELECT service, version, uniqExact(host) FROM ");
	append_tested(&query, scope, is_daily);
	buffer_append_string(&query, " GROUP BY service, version");
	if (!clickhouse_select(clickhouse, buffer_string(&query), "ssu", counts, err))
		return false;
	buffer_clear(&query);
	buffer_append_string(&query,
		"SELECT service, version, site, sum(x) AS s, sum(x * x) AS ss FROM "
		"(SELECT service, version, host, site, sum(slope) / any(processes) AS x FROM "
		"(SELECT " PROCESS_OF_VERSION ", site, (n * ty - st * y) / (n * stt - st * st) AS "
		"slope FROM (SELECT " PROCESS_OF_VERSION ", site, sum(y1) AS y, sum(ty1) AS ty "
		"FROM (");
	if (is_daily)
		append_stacks_of_days(&query, scope);
	else
		append_stacks(&query, scope);
	buffer_append_string(&query, ") ALL INNER JOIN " QUESTION_SITES " USING stack "
				     "GROUP BY " PROCESS_OF_VERSION ", site) ALL INNER JOIN ");
	append_tested(&query, scope, is_daily);
	buffer_append_string(&query, " USING " PROCESS_OF_VERSION ") ALL INNER JOIN "
				     "(SELECT service, version, host, count() AS processes FROM ");
	append_tested(&query, scope, is_daily);
	buffer_printf(&query,
		" GROUP BY service, version, host) USING service, version, host "
		"GROUP BY service, version, host, site) GROUP BY service, version, site "
		"ORDER BY s / sqrt(ss) DESC LIMIT %d",
		QUESTION_ROWS_MAX);
	return clickhouse_select(clickhouse, buffer_string(&query), "ssuff", slopes, err);
}

static void take_slope(struct fleet_findings *findings, const json_t *row, double hosts)
{
	struct fleet_finding *const finding = question_add_finding(findings);

	finding->service = question_take_text(findings, row, 0);
	finding->version = question_take_text(findings, row, 1);
	finding->site = clickhouse_unsigned(row, 2);
	finding->hosts = hosts;
	finding->value = question_mean_of_sums(
		clickhouse_real(row, 3), clickhouse_real(row, 4), hosts, &finding->variance);
	finding->low = finding->high = NAN;
	if (hosts < 2)
		return;
	const double error = sqrt(finding->variance);
	finding->t = finding->value == 0 ? 0 : finding->value / error;
	finding->p = student_tail(finding->t, hosts - 1);
	finding->low = finding->value - student_width95(hosts - 1) * error;
	finding->high = finding->value + student_width95(hosts - 1) * error;
}

bool fleet_ask_growth(struct clickhouse *clickhouse, const struct fleet_scope *scope, size_t max,
	struct fleet_findings *findings, struct error *err)
{
	CLEANUP(clickhouse_rows_cleanup) json_t *counts = NULL;
	CLEANUP(clickhouse_rows_cleanup) json_t *slopes = NULL;
	size_t index;
	json_t *row;

	findings->is_daily = scope->until_ms - scope->since_ms > SNAPSHOTS_MAX_MS;
	if (findings->is_daily && !growth_days_missing(clickhouse, scope->since_ms, scope->until_ms,
					  &findings->missing_days, err))
		return false;
	if (!ask_slopes(clickhouse, scope, findings->is_daily, &counts, &slopes, err))
		return false;
	json_array_foreach(slopes, index, row)
	{
		const double hosts =
			question_hosts_of(counts, clickhouse_text(row, 0), clickhouse_text(row, 1));
		/* 0: it was added between the two questions. */
		if (hosts != 0)
			take_slope(findings, row, hosts);
	}
	question_adjust(findings, 0);
	return question_finish(clickhouse, findings, max, err);
}
