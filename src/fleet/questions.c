/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/questions.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/significance.h"
#include "analysis/unsample.h"
#include "base/xalloc.h"
#include "fleet/clickhouse_text.h"
#include "fleet/question_parts.h"

/* The sum of all that is in use, whatever the number of sites. */
static bool ask_total(struct clickhouse *clickhouse, const struct fleet_scope *scope,
	struct fleet_findings *findings, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer query = BUFFER_OR_EXIT;
	CLEANUP(clickhouse_rows_cleanup) json_t *rows = NULL;

	buffer_append_string(&query, "SELECT sum(b), sum(v) FROM (SELECT " QUESTION_PROCESS
				     ", argMax(inuse_bytes, snapshot) AS "
				     "b, argMax(inuse_variance, snapshot) AS v");
	question_append_profiles(&query, scope);
	buffer_append_string(&query, " GROUP BY " QUESTION_PROCESS ")");
	if (!clickhouse_select(clickhouse, buffer_string(&query), "ff", &rows, err))
		return false;
	if (json_array_size(rows) == 1) {
		findings->total = clickhouse_real(json_array_get(rows, 0), 0);
		findings->total_variance = clickhouse_real(json_array_get(rows, 0), 1);
	}
	return true;
}

bool fleet_ask_sites(struct clickhouse *clickhouse, const struct fleet_scope *scope, size_t max,
	struct fleet_findings *findings, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer query = BUFFER_OR_EXIT;
	CLEANUP(clickhouse_rows_cleanup) json_t *rows = NULL;
	size_t index;
	json_t *row;

	buffer_append_string(&query,
		"SELECT service, site, hosts, b, v, o, n, frames FROM (SELECT service, site, "
		"uniqExact(host) AS hosts, sum(b1) AS b, sum(v1) AS v, sum(o1) AS o, sum(n1) AS n "
		"FROM (SELECT service, host, stack, sum(inuse_bytes) AS b1, "
		"sum(" QUESTION_VARIANCE ") AS v1, sum(inuse_objects) AS o1, sum(samples) AS n1");
	question_append_samples(&query, scope, true);
	buffer_printf(&query,
		" GROUP BY service, host, stack) ALL INNER JOIN " QUESTION_SITES " USING stack "
		"GROUP BY service, site ORDER BY b DESC LIMIT %zu) ALL INNER JOIN "
		"(SELECT site, any(frames) AS frames FROM stack GROUP BY site) USING site "
		"ORDER BY b DESC, site",
		max + 1);
	if (!ask_total(clickhouse, scope, findings, err) ||
		!clickhouse_select(clickhouse, buffer_string(&query), "suuffffa", &rows, err))
		return false;
	findings->has_more = json_array_size(rows) > max;
	json_array_foreach(rows, index, row)
	{
		if (index == max)
			break;
		struct fleet_finding *const finding = question_add_finding(findings);
		finding->service = question_take_text(findings, row, 0);
		finding->site = clickhouse_unsigned(row, 1);
		finding->hosts = (double)clickhouse_unsigned(row, 2);
		finding->value = clickhouse_real(row, 3);
		finding->variance = clickhouse_real(row, 4);
		finding->objects = clickhouse_real(row, 5);
		finding->samples = clickhouse_real(row, 6);
		const struct interval interval = estimate_interval(
			(struct estimate){ finding->value, finding->variance, finding->samples });
		finding->low = interval.low;
		finding->high = interval.high;
		question_take_frames(findings, finding, json_array_get(row, 7));
	}
	return true;
}

/*
 * Of the versions there the two that appeared last, the earlier one first. When that was, is asked
 * of all times: in a range that both ran all the time, their first snapshots are in any order.
 */
static bool choose_versions(struct clickhouse *clickhouse, const struct fleet_scope *scope,
	const char *base, struct fleet_findings *findings, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer query = BUFFER_OR_EXIT;
	CLEANUP(clickhouse_rows_cleanup) json_t *rows = NULL;
	struct fleet_scope all = *scope;

	all.of.version[0] = '\0';
	if (base != NULL && scope->of.version[0] != '\0') {
		findings->versions[0] = string_pool_add(&findings->strings, base);
		findings->versions[1] = string_pool_add(&findings->strings, scope->of.version);
		return true;
	}
	buffer_append_string(
		&query, "SELECT version, min(snapshot) AS first FROM profile WHERE service = ");
	clickhouse_append_quoted(&query, scope->of.service);
	buffer_append_string(&query, " AND version GLOBAL IN (SELECT version");
	question_append_profiles(&query, &all);
	buffer_append_string(
		&query, ") GROUP BY version ORDER BY first DESC, version DESC LIMIT 2");
	if (!clickhouse_select(clickhouse, buffer_string(&query), "su", &rows, err))
		return false;
	if (json_array_size(rows) != 2) {
		error_set(err, ERROR_NOT_FOUND, "%s has fewer than two versions there",
			scope->of.service);
		return error_hint(err, "--since takes more time; heapctl fleet hosts lists them");
	}
	findings->versions[0] = question_take_text(findings, json_array_get(rows, 1), 0);
	findings->versions[1] = question_take_text(findings, json_array_get(rows, 0), 0);
	return true;
}

/* Snapshots of each host and version, and what they have at each site: the mean is x. */
static void append_means(struct buffer *out, const struct fleet_scope *scope, const char *more)
{
	buffer_append_string(out, "(SELECT version, host, site, b / n AS x, v / n AS w FROM "
				  "(SELECT version, host, site, "
				  "sum(b1) AS b, sum(v1) AS v FROM (SELECT version, host, stack, "
				  "sum(inuse_bytes) AS b1, sum(inuse_variance) AS v1");
	question_append_samples(out, scope, false);
	buffer_append_string(out, more);
	buffer_append_string(out,
		" GROUP BY version, host, stack) ALL INNER JOIN " QUESTION_SITES " USING stack "
		"GROUP BY version, host, site) ALL INNER JOIN (SELECT version, host, "
		"toFloat64(uniqExact(pid, started, snapshot)) AS n");
	question_append_profiles(out, scope);
	buffer_append_string(out, " GROUP BY version, host) USING version, host)");
}

struct host_sums {
	double sum, squares; /* over hosts */
};

/* One finding for each site, whose sides are gathered from two rows. */
static void compare(
	struct fleet_finding *finding, const struct host_sums sides[2], const double hosts[2])
{
	double variances[2], means[2], degrees_of_freedom = 0;

	for (int i = 0; i < 2; i++)
		means[i] = question_mean_of_sums(
			sides[i].sum, sides[i].squares, hosts[i], &variances[i]);
	finding->value = means[1];
	finding->base = means[0];
	finding->variance = variances[0] + variances[1];
	finding->low = finding->high = NAN;
	if (!welch_test(means, variances, hosts, &finding->t, &degrees_of_freedom))
		return;
	const double change = means[1] - means[0];
	const double width = student_width95(degrees_of_freedom) * sqrt(finding->variance);
	finding->p = fmin(1, 2 * student_tail(fabs(finding->t), degrees_of_freedom));
	finding->low = change - width;
	finding->high = change + width;
}

static bool ask_version_sums(struct clickhouse *clickhouse, const struct fleet_scope *scope,
	const char *const versions[2], json_t **counts, json_t **sums, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer query = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer both = BUFFER_OR_EXIT;

	buffer_append_string(&both, " AND version IN (");
	clickhouse_append_quoted(&both, versions[0]);
	buffer_append_string(&both, ", ");
	clickhouse_append_quoted(&both, versions[1]);
	buffer_append_string(&both, ")");
	buffer_append_string(&query, "SELECT service, version, uniqExact(host)");
	question_append_profiles(&query, scope);
	buffer_printf(&query, "%s GROUP BY service, version", buffer_string(&both));
	if (!clickhouse_select(clickhouse, buffer_string(&query), "ssu", counts, err))
		return false;
	buffer_clear(&query);
	buffer_append_string(&query, "SELECT site, version, sum(x), sum(x * x) FROM ");
	append_means(&query, scope, buffer_string(&both));
	buffer_printf(&query, " GROUP BY site, version ORDER BY site LIMIT %d", QUESTION_ROWS_MAX);
	return clickhouse_select(clickhouse, buffer_string(&query), "usff", sums, err);
}

bool fleet_ask_versions(struct clickhouse *clickhouse, const struct fleet_scope *scope,
	const char *base, size_t max, struct fleet_findings *findings, struct error *err)
{
	CLEANUP(clickhouse_rows_cleanup) json_t *counts = NULL;
	CLEANUP(clickhouse_rows_cleanup) json_t *sums = NULL;
	struct fleet_scope all = *scope;
	double hosts[2];

	all.of.version[0] = '\0';
	if (!choose_versions(clickhouse, scope, base, findings, err) ||
		!ask_version_sums(clickhouse, &all, findings->versions, &counts, &sums, err))
		return false;
	for (int i = 0; i < 2; i++) {
		hosts[i] = question_hosts_of(counts, scope->of.service, findings->versions[i]);
		if (hosts[i] == 0)
			return error_set(err, ERROR_NOT_FOUND, "no snapshot of %s has version %s",
				scope->of.service, findings->versions[i]);
	}
	const size_t count = json_array_size(sums);
	for (size_t first = 0, end = 0; first < count; first = end) {
		struct host_sums sides[2] = { 0 };
		const uint64_t site = clickhouse_unsigned(json_array_get(sums, first), 0);
		for (end = first; end < count; end++) {
			const json_t *const row = json_array_get(sums, end);
			if (clickhouse_unsigned(row, 0) != site)
				break;
			sides[strcmp(clickhouse_text(row, 1), findings->versions[1]) == 0] =
				(struct host_sums){ clickhouse_real(row, 2),
					clickhouse_real(row, 3) };
		}
		struct fleet_finding *const finding = question_add_finding(findings);
		finding->site = site;
		finding->hosts = hosts[0] + hosts[1];
		compare(finding, sides, hosts);
	}
	question_adjust(findings, 0);
	return question_finish(clickhouse, findings, max, err);
}

void fleet_hosts_init(struct fleet_hosts *hosts)
{
	*hosts = (struct fleet_hosts){ 0 };
	string_pool_init(&hosts->strings);
}

void fleet_hosts_deinit(struct fleet_hosts *hosts)
{
	free(hosts->items);
	string_pool_deinit(&hosts->strings);
}

bool fleet_ask_hosts(struct clickhouse *clickhouse, const struct fleet_scope *scope, size_t max,
	struct fleet_hosts *hosts, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer query = BUFFER_OR_EXIT;
	CLEANUP(clickhouse_rows_cleanup) json_t *rows = NULL;
	size_t index;
	json_t *row;

	buffer_append_string(&query,
		"SELECT service, version, host, count(), sum(snapshots), sum(r), max(last), "
		"sum(b) AS bytes, sum(v) FROM (SELECT " QUESTION_PROCESS_OF_VERSION ", "
		"uniqExact(snapshot) AS snapshots, argMax(rss, snapshot) AS r, max(snapshot) AS "
		"last, argMax(inuse_bytes, snapshot) AS b, argMax(inuse_variance, snapshot) AS v");
	question_append_profiles(&query, scope);
	buffer_printf(&query,
		" GROUP BY " QUESTION_PROCESS_OF_VERSION ") GROUP BY service, version, host "
		"ORDER BY bytes DESC, host LIMIT %zu",
		max + 1);
	if (!clickhouse_select(clickhouse, buffer_string(&query), "sssuuuuff", &rows, err))
		return false;
	hosts->has_more = json_array_size(rows) > max;
	json_array_foreach(rows, index, row)
	{
		if (index == max)
			break;
		*XAPPEND(hosts->items, hosts->count, hosts->capacity) = (struct fleet_host){
			.service = string_pool_add(&hosts->strings, clickhouse_text(row, 0)),
			.version = string_pool_add(&hosts->strings, clickhouse_text(row, 1)),
			.host = string_pool_add(&hosts->strings, clickhouse_text(row, 2)),
			.processes = clickhouse_unsigned(row, 3),
			.snapshots = clickhouse_unsigned(row, 4),
			.rss_bytes = clickhouse_unsigned(row, 5),
			.last_ms = (int64_t)clickhouse_unsigned(row, 6),
			.inuse_bytes = clickhouse_real(row, 7),
			.inuse_variance = clickhouse_real(row, 8),
		};
	}
	return true;
}
