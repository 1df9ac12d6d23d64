/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

#include "analysis/significance.h"
#include "analysis/unsample.h"
#include "fleet/question_parts.h"
#include "fleet/questions.h"

/* 3.5 robust standard deviations, the usual limit (Iglewicz and Hoaglin). */
#define DEVIATIONS_MIN 3.5

/* Of a median absolute deviation, for normal values. */
#define MAD_SCALE "1.4826"

/* Hosts that have a site: fewer have no distribution. */
#define MIN_HOSTS "8"

#define SIGNIFICANT_P 0.05

/*
 * The variance of a slope is that of a size times this, over the spread of the times. Sizes of
 * one process depend on each other, and nothing is known of how: this is slightly above the largest
 * value that exponentially falling correlations have, for any number of snapshots (computed; it is
 * reached when they fall within a third of the time). Of independent sizes it would be n.
 */
#define SLOPE_VARIANCE "(1.2 + n * n / 4.8)"

/* Of each process and site: sums of bytes `y`, of variances `v`, and of bytes times hours `ty`. */
static void append_processes_at_sites(struct buffer *out, const struct fleet_scope *scope)
{
	buffer_printf(out,
		"SELECT " QUESTION_PROCESS_OF_VERSION ", site, sum(y1) AS y, sum(v1) AS v, "
		"sum(ty1) AS ty FROM (SELECT " QUESTION_PROCESS_OF_VERSION ", stack, "
		"sum(inuse_bytes) AS y1, sum(inuse_variance) AS v1, "
		"sum(inuse_bytes * " QUESTION_HOURS ") AS ty1",
		scope->since_ms);
	question_append_samples(out, scope, false);
	buffer_append_string(out,
		" GROUP BY " QUESTION_PROCESS_OF_VERSION ", stack) ALL INNER JOIN " QUESTION_SITES
		" USING stack GROUP BY " QUESTION_PROCESS_OF_VERSION ", site");
}

/*
 * Of each host and site: mean bytes of a process `x` and their variance `w` (of one snapshot, as
 * they depend on each other), growth in an hour relative to x `g` and its variance `gw`. g is NaN
 * for a host without a process of enough snapshots.
 */
static void append_hosts(struct buffer *out, const struct fleet_scope *scope)
{
	buffer_append_string(out,
		"SELECT version, host, site, hy / hn AS x, hv / hn AS w, "
		"hs / tested / (hy / hn) AS g, "
		"hsv / (tested * tested) / pow(hy / hn, 2) AS gw FROM "
		"(SELECT version, host, site, sum(y) AS hy, sum(v) AS hv, "
		"sum(if(ok, (n * ty - st * y) / (n * stt - st * st), 0)) AS hs, "
		"sum(if(ok, v / n * " SLOPE_VARIANCE " / (n * stt - st * st), 0)) AS hsv FROM (");
	append_processes_at_sites(out, scope);
	buffer_append_string(out, ") ALL INNER JOIN (SELECT *, ");
	buffer_printf(out, "n >= %d AND n * stt > st * st AS ok FROM (", QUESTION_MIN_SNAPSHOTS);
	question_append_processes(out, scope);
	buffer_append_string(out,
		")) USING " QUESTION_PROCESS_OF_VERSION " GROUP BY version, host, site) "
		"ALL INNER JOIN (SELECT version, host, sum(n) AS hn, toFloat64(sum(ok)) AS tested "
		"FROM (SELECT version, host, n, ");
	buffer_printf(out, "n >= %d AND n * stt > st * st AS ok FROM (", QUESTION_MIN_SNAPSHOTS);
	question_append_processes(out, scope);
	buffer_append_string(out, ")) GROUP BY version, host) USING version, host");
}

/*
 * Of each site: arrays over the hosts that have it, the median `med` of the logarithms of their
 * bytes, the median absolute deviation `mad` and the median relative variance `noise`; of their
 * growth the median `gmed`, the variance `spread` and the median of their own variances `gnoise`.
 * The variance is the biweight midvariance (Mosteller and Tukey): as robust as the median absolute
 * deviation, and more precise. A site that few hosts have is compared with none at all.
 */
static void append_sites(struct buffer *out, const struct fleet_scope *scope, uint64_t hosts)
{
	buffer_append_string(out,
		"SELECT site, names, xs, ws, gs, gws, rare, med, mad, noise, gmed, gnoise, "
		"toFloat64(length(known)) AS measured, if(gmad > 0, length(known) * "
		"arraySum(arrayMap((d, u) -> d * d * pow(greatest(0, 1 - u), 4), gdevs, far)) / "
		"pow(arraySum(arrayMap(u -> greatest(0, 1 - u) * (1 - 5 * u), far)), 2), 0) "
		"AS spread FROM (SELECT site, names, xs, ws, gs, gws, rare, known, med, mad, "
		"noise, gmed, gnoise, gmad, gdevs, "
		"arrayMap(d -> pow(d / (9 * gmad), 2), gdevs) AS far "
		"FROM (SELECT site, names, xs, ws, gs, gws, rare, known, med, gmed, gnoise, gdevs, "
		"arrayReduce('quantileExact', arrayMap(y -> abs(y - med), logs)) AS mad, "
		"arrayReduce('quantileExact', gdevs) AS gmad, "
		"arrayReduce('quantileExact', arrayMap((b, d) -> d / (b * b), xs, ws)) AS noise "
		"FROM (SELECT site, names, xs, ws, gs, gws, rare, logs, known, med, gmed, gnoise, "
		"arrayMap(y -> abs(y - gmed), known) AS gdevs "
		"FROM (SELECT site, names, xs, ws, gs, gws, rare, logs, known, "
		"arrayReduce('quantileExact', arrayFilter(b -> isFinite(b), gws)) AS gnoise, "
		"arrayReduce('quantileExact', logs) AS med, "
		"arrayReduce('quantileExact', known) AS gmed FROM (SELECT site, ");
	buffer_printf(
		out, "count() < " MIN_HOSTS " AND 2 * count() <= %" PRIu64 " AS rare, ", hosts);
	buffer_append_string(out,
		"groupArray(toString(host)) AS names, groupArray(x) AS xs, groupArray(w) AS ws, "
		"groupArray(g) AS gs, groupArray(gw) AS gws, arrayMap(b -> log(b), xs) AS logs, "
		"arrayFilter(b -> isFinite(b), gs) AS known FROM (");
	append_hosts(out, scope);
	buffer_append_string(out, ") GROUP BY site)))))");
}

/*
 * The variance of growth over hosts has the sampling error of a usual one in it, so only what the
 * error of this host is above that is added; and it is at least the error of this host.
 */
static void append_outliers(struct buffer *out, const struct fleet_scope *scope, uint64_t hosts)
{
	buffer_append_string(out,
		"SELECT site, host, x, w, if(rare, 0, exp(med)) AS base, "
		"if(rare, x / sqrt(w), (log(x) - med) / "
		"sqrt(pow(" MAD_SCALE " * mad, 2) + w / (x * x) + noise)) AS z, "
		"measured >= " MIN_HOSTS
		" AND isFinite(g) AS tested, if(tested, x * g, 0) AS rate, "
		"if(tested, x * gmed, 0) AS base_rate, spread, "
		"if(tested, greatest(spread + greatest(0, gw - gnoise), gw), 0) AS variance, "
		"if(tested, (g - gmed) / sqrt(variance), 0) AS gz, measured FROM (");
	append_sites(out, scope, hosts);
	buffer_append_string(
		out, ") ARRAY JOIN names AS host, xs AS x, ws AS w, gs AS g, gws AS gw WHERE ");
	buffer_printf(out, "z > %g OR gz > %g ORDER BY greatest(z, gz) DESC, site LIMIT %d",
		DEVIATIONS_MIN, DEVIATIONS_MIN, QUESTION_ROWS_MAX);
}

/* Of hosts, and of sites that any has. */
static bool count_tests(struct clickhouse *clickhouse, const struct fleet_scope *scope,
	uint64_t *hosts, uint64_t *sites, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer query = BUFFER_OR_EXIT;
	CLEANUP(clickhouse_rows_cleanup) json_t *host_row = NULL;
	CLEANUP(clickhouse_rows_cleanup) json_t *site_row = NULL;

	buffer_append_string(&query, "SELECT uniqExact(version, host)");
	question_append_profiles(&query, scope);
	if (!clickhouse_select(clickhouse, buffer_string(&query), "u", &host_row, err))
		return false;
	buffer_clear(&query);
	buffer_append_string(&query, "SELECT uniqExact(site) FROM (SELECT DISTINCT stack");
	question_append_samples(&query, scope, false);
	buffer_append_string(&query, ") ALL INNER JOIN " QUESTION_SITES " USING stack");
	if (!clickhouse_select(clickhouse, buffer_string(&query), "u", &site_row, err))
		return false;
	*hosts = json_array_size(host_row) == 1
			 ? clickhouse_unsigned(json_array_get(host_row, 0), 0)
			 : 0;
	*sites = json_array_size(site_row) == 1
			 ? clickhouse_unsigned(json_array_get(site_row, 0), 0)
			 : 0;
	return true;
}

static void take_outlier(struct fleet_findings *findings, const json_t *row)
{
	struct fleet_finding *const finding = question_add_finding(findings);

	finding->site = clickhouse_unsigned(row, 0);
	finding->host = question_take_text(findings, row, 1);
	finding->value = clickhouse_real(row, 2);
	finding->variance = clickhouse_real(row, 3);
	finding->base = clickhouse_real(row, 4);
	finding->t = clickhouse_real(row, 5);
	finding->rate = clickhouse_real(row, 7);
	finding->base_rate = clickhouse_real(row, 8);
	const bool is_tested = clickhouse_unsigned(row, 6) != 0;
	const double spread = clickhouse_real(row, 9), variance = clickhouse_real(row, 10);
	finding->rate_t = clickhouse_real(row, 11);
	const struct interval interval =
		estimate_interval((struct estimate){ finding->value, finding->variance, 0 });
	finding->low = interval.low;
	finding->high = interval.high;
	if (is_tested)
		finding->p = student_tail(finding->rate_t,
			robust_freedom(spread, variance - spread, clickhouse_real(row, 12)));
	else
		finding->rate = finding->base_rate = finding->rate_t = NAN;
}

/* What grows significantly in ascending order of p, then by how much the bytes deviate. */
static int by_growth_and_size(const void *a, const void *b)
{
	const struct fleet_finding *const x = a, *const y = b;
	const bool x_grows = x->adjusted_p < SIGNIFICANT_P, y_grows = y->adjusted_p < SIGNIFICANT_P;

	if (x_grows != y_grows)
		return x_grows ? -1 : 1;
	if (x_grows && x->p != y->p)
		return x->p > y->p ? 1 : -1;
	if (x->t != y->t)
		return x->t < y->t ? 1 : -1;
	return (x->site > y->site) - (x->site < y->site);
}

bool fleet_ask_outliers(struct clickhouse *clickhouse, const struct fleet_scope *scope, size_t max,
	struct fleet_findings *findings, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer query = BUFFER_OR_EXIT;
	CLEANUP(clickhouse_rows_cleanup) json_t *rows = NULL;
	uint64_t hosts = 0, sites = 0;
	size_t index;
	json_t *row;

	if (!count_tests(clickhouse, scope, &hosts, &sites, err))
		return false;
	/* Of a service that is called otherwise, nothing is known. */
	if (hosts == 0) {
		error_set(err, ERROR_NOT_FOUND, "%s has no snapshot there", scope->of.service);
		return error_hint(err, "--since takes more time; heapctl fleet hosts lists them");
	}
	append_outliers(&query, scope, hosts);
	if (!clickhouse_select(clickhouse, buffer_string(&query), "usffffuffffff", &rows, err))
		return false;
	json_array_foreach(rows, index, row)
	{
		take_outlier(findings, row);
	}
	question_adjust(findings, hosts * sites);
	if (findings->count > 0)
		qsort(findings->items, findings->count, sizeof *findings->items,
			by_growth_and_size);
	/* Growth that may be by chance alone is no reason to be listed. */
	while (findings->count > 0 && findings->items[findings->count - 1].t <= DEVIATIONS_MIN &&
		!(findings->items[findings->count - 1].adjusted_p < SIGNIFICANT_P))
		findings->count--;
	return question_finish(clickhouse, findings, max, err);
}
