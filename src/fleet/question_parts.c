/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/question_parts.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/significance.h"
#include "base/xalloc.h"
#include "fleet/clickhouse_text.h"

static void append_equal(struct buffer *out, const char *column, const char *value)
{
	if (value[0] == '\0')
		return;
	buffer_printf(out, " AND %s = ", column);
	clickhouse_append_quoted(out, value);
}

static void append_identity(struct buffer *out, const struct fleet_scope *scope)
{
	append_equal(out, "service", scope->of.service);
	append_equal(out, "version", scope->of.version);
	append_equal(out, "host", scope->of.host);
}

static void append_labels(struct buffer *out, const struct fleet_scope *scope)
{
	for (size_t i = 0; i < scope->of.label_count; i++) {
		buffer_append_string(out, " AND label_values[indexOf(label_names, ");
		clickhouse_append_quoted(out, scope->of.labels[i].name);
		buffer_append_string(out, ")] = ");
		clickhouse_append_quoted(out, scope->of.labels[i].value);
	}
}

void question_append_scope(struct buffer *out, const struct fleet_scope *scope)
{
	buffer_printf(out, "ts BETWEEN toDateTime(%" PRId64 ") AND toDateTime(%" PRId64 ")",
		scope->since_ms / 1000, scope->until_ms / 1000);
	append_identity(out, scope);
}

void question_append_days(struct buffer *out, const struct fleet_scope *scope)
{
	buffer_printf(out,
		"day BETWEEN toDate(toUInt16(%" PRId64 ")) AND toDate(toUInt16(%" PRId64 "))",
		scope->since_ms / QUESTION_DAY_MS, scope->until_ms / QUESTION_DAY_MS);
	append_identity(out, scope);
}

void question_append_profiles(struct buffer *out, const struct fleet_scope *scope)
{
	buffer_append_string(out, " FROM profile WHERE ");
	question_append_scope(out, scope);
	append_labels(out, scope);
}

void question_append_process_days(struct buffer *out, const struct fleet_scope *scope)
{
	buffer_append_string(out, " FROM process_day WHERE ");
	question_append_days(out, scope);
	append_labels(out, scope);
}

void question_append_samples(struct buffer *out, const struct fleet_scope *scope, bool is_last)
{
	buffer_append_string(out, " FROM sample WHERE ");
	question_append_scope(out, scope);
	buffer_printf(out,
		" AND (" QUESTION_PROCESS ", snapshot) GLOBAL IN (SELECT " QUESTION_PROCESS ", %s",
		is_last ? "max(snapshot)" : "snapshot");
	question_append_profiles(out, scope);
	buffer_append_string(out, is_last ? " GROUP BY " QUESTION_PROCESS ")" : ")");
}

void question_append_processes(struct buffer *out, const struct fleet_scope *scope)
{
	buffer_printf(out,
		"SELECT " QUESTION_PROCESS_OF_VERSION ", toFloat64(count()) AS n, sum(t) AS st, "
		"sum(t * t) AS stt FROM (SELECT DISTINCT " QUESTION_PROCESS_OF_VERSION
		", snapshot, " QUESTION_HOURS " AS t",
		scope->since_ms);
	question_append_profiles(out, scope);
	buffer_append_string(out, ") GROUP BY " QUESTION_PROCESS_OF_VERSION);
}

const char *question_take_text(struct fleet_findings *findings, const json_t *row, size_t column)
{
	return string_pool_add(&findings->strings, clickhouse_text(row, column));
}

void question_take_frames(
	struct fleet_findings *findings, struct fleet_finding *finding, const json_t *frames)
{
	size_t index;
	json_t *frame;

	finding->depth = json_array_size(frames);
	finding->frames = arena_alloc(&findings->frames,
		(finding->depth + 1) * sizeof *finding->frames, _Alignof(const char *));
	json_array_foreach(frames, index, frame)
	{
		finding->frames[index] =
			string_pool_add(&findings->strings, json_string_value(frame));
	}
}

struct fleet_finding *question_add_finding(struct fleet_findings *findings)
{
	struct fleet_finding *const finding =
		XAPPEND(findings->items, findings->count, findings->capacity);

	*finding = (struct fleet_finding){
		.service = "", .version = "", .host = "", .p = NAN, .adjusted_p = NAN
	};
	return finding;
}

/* The frames of all findings. */
static bool ask_frames(
	struct clickhouse *clickhouse, struct fleet_findings *findings, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer query = BUFFER_OR_EXIT;
	CLEANUP(clickhouse_rows_cleanup) json_t *rows = NULL;
	size_t index;
	json_t *row;

	if (findings->count == 0)
		return true;
	buffer_append_string(&query, "SELECT site, any(frames) FROM stack WHERE site IN (");
	for (size_t i = 0; i < findings->count; i++)
		buffer_printf(&query, "%s%" PRIu64, i == 0 ? "" : ",", findings->items[i].site);
	buffer_append_string(&query, ") GROUP BY site");
	if (!clickhouse_select(clickhouse, buffer_string(&query), "ua", &rows, err))
		return false;
	json_array_foreach(rows, index, row)
	{
		for (size_t i = 0; i < findings->count; i++)
			if (findings->items[i].site == clickhouse_unsigned(row, 0))
				question_take_frames(
					findings, &findings->items[i], json_array_get(row, 1));
	}
	return true;
}

bool question_finish(struct clickhouse *clickhouse, struct fleet_findings *findings, size_t max,
	struct error *err)
{
	/* A query has a limit of 256 KiB, which is ten thousand sites. */
	enum { SITES_MAX = 5000 };

	max = max > SITES_MAX ? SITES_MAX : max;
	findings->has_more = findings->count > max;
	findings->count = findings->has_more ? max : findings->count;
	return ask_frames(clickhouse, findings, err);
}

/* In ascending order of p; what was not tested comes last. */
static int by_p(const void *a, const void *b)
{
	const struct fleet_finding *const x = a, *const y = b;

	if (isnan(x->p) || isnan(y->p))
		return isnan(x->p) - isnan(y->p);
	if (x->p != y->p)
		return (x->p > y->p) - (x->p < y->p);
	if (fabs(x->t) != fabs(y->t))
		return fabs(x->t) < fabs(y->t) ? 1 : -1;
	return (x->site > y->site) - (x->site < y->site);
}

void question_adjust(struct fleet_findings *findings, size_t tests)
{
	CLEANUP(free_cleanup) double *p = xcalloc(findings->count + 1, sizeof *p);
	size_t count = 0;

	if (findings->count == 0)
		return;
	qsort(findings->items, findings->count, sizeof *findings->items, by_p);
	while (count < findings->count && !isnan(findings->items[count].p)) {
		p[count] = findings->items[count].p;
		count++;
	}
	holm_adjust(p, count, tests > count ? tests : count);
	for (size_t i = 0; i < count; i++)
		findings->items[i].adjusted_p = p[i];
}

double question_mean_of_sums(double sum, double squares, double hosts, double *variance)
{
	const double mean = sum / hosts;
	const double spread = squares - sum * mean;

	*variance = hosts < 2 || spread <= 0 ? 0 : spread / (hosts - 1) / hosts;
	return mean;
}

double question_hosts_of(const json_t *counts, const char *service, const char *version)
{
	size_t index;
	json_t *row;

	json_array_foreach(counts, index, row)
	{
		if (strcmp(clickhouse_text(row, 0), service) == 0 &&
			strcmp(clickhouse_text(row, 1), version) == 0)
			return (double)clickhouse_unsigned(row, 2);
	}
	return 0;
}
