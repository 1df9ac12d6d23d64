/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fleet_print.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <time.h>

#include "analysis/unsample.h"
#include "base/json_writer.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "render/quantity.h"

const char *const fleet_action_names[FLEET_ACTIONS + 1] = {
	[FLEET_TOP] = "top",
	[FLEET_FLAME] = "flame",
	[FLEET_DIFF] = "diff",
	[FLEET_GROWTH] = "growth",
	[FLEET_VERSIONS] = "versions",
	[FLEET_OUTLIERS] = "outliers",
	[FLEET_HOSTS] = "hosts",
	[FLEET_SCHEMA] = "schema",
	[FLEET_SYMBOLIZE] = "symbolize",
};

/* Sites below are more likely than not by chance. */
#define SIGNIFICANT_P 0.05

static void append_printable(struct buffer *out, const char *text)
{
	utf8_append_printable(out, text, strlen(text));
}

/* The leaf, and the callers that distinguish it. */
static void append_site(struct buffer *out, const struct fleet_finding *finding)
{
	enum { SHOWN = 5 };
	const size_t first = finding->depth > SHOWN ? finding->depth - SHOWN : 0;

	if (finding->depth == 0)
		buffer_append_string(out, "[no stack]");
	else if (first > 0)
		buffer_append_string(out, "... > ");
	for (size_t i = first; i < finding->depth; i++) {
		append_printable(out, finding->frames[i]);
		buffer_append_string(out, i + 1 < finding->depth ? " > " : "");
	}
	buffer_append_char(out, '\n');
}

static void append_service(struct buffer *out, const struct fleet_options *options,
	const struct fleet_finding *finding)
{
	if (options->of.service[0] == '\0') {
		append_printable(out, finding->service);
		buffer_append_char(out, ' ');
	}
	if (options->action == FLEET_GROWTH && finding->version[0] != '\0') {
		append_printable(out, finding->version);
		buffer_append_char(out, ' ');
	}
	if (options->of.service[0] == '\0' || options->action == FLEET_GROWTH)
		buffer_append_string(out, " ");
}

static const char *amount(double value, double low, double high, char text[128])
{
	snprintf(text, 128, "%s",
		isnan(low) ? quantity_format(QUANTITY_BYTES, value, true).text
			   : quantity_format_interval(QUANTITY_BYTES, value, low, high).text);
	return text;
}

static void append_p(struct buffer *out, double p)
{
	if (isnan(p))
		buffer_printf(out, "%-9s", "-");
	else
		buffer_printf(out, p < 0.0001 ? "%-9.0e" : "%-9.4f", p);
}

static struct quantity_text half_width(double low, double high)
{
	return isnan(low) ? (struct quantity_text){ "?" }
			  : quantity_format(QUANTITY_BYTES, (high - low) / 2, false);
}

static void print_top(const struct fleet_options *options, const struct fleet_finding *finding,
	struct buffer *out)
{
	buffer_printf(out, "%11s  ± %-10s %6.0f  ",
		quantity_format(QUANTITY_BYTES, finding->value, false).text,
		half_width(finding->low, finding->high).text, finding->hosts);
	append_service(out, options, finding);
}

static void print_growth(const struct fleet_options *options, const struct fleet_finding *finding,
	struct buffer *out)
{
	char text[128];

	append_p(out, finding->adjusted_p);
	buffer_printf(out, " %24s/h %6.0f  ",
		amount(finding->value, finding->low, finding->high, text), finding->hosts);
	append_service(out, options, finding);
}

static void print_versions(const struct fleet_finding *finding, struct buffer *out)
{
	char text[128];

	append_p(out, finding->adjusted_p);
	buffer_printf(out, " %11s %11s %26s  ",
		quantity_format(QUANTITY_BYTES, finding->base, false).text,
		quantity_format(QUANTITY_BYTES, finding->value, false).text,
		amount(finding->value - finding->base, finding->low, finding->high, text));
}

static const char *rate(double value, char text[128])
{
	snprintf(text, 128, "%s/h", quantity_format(QUANTITY_BYTES, value, true).text);
	return isnan(value) ? "-" : text;
}

static void print_outlier(const struct fleet_finding *finding, struct buffer *out)
{
	char own[128], usual[128];

	append_p(out, finding->adjusted_p);
	buffer_printf(out, " %14s %14s %7.1f %11s  ± %-10s %11s  ", rate(finding->rate, own),
		rate(finding->base_rate, usual), finding->t,
		quantity_format(QUANTITY_BYTES, finding->value, false).text,
		half_width(finding->low, finding->high).text,
		quantity_format(QUANTITY_BYTES, finding->base, false).text);
	append_printable(out, finding->host);
	buffer_append_string(out, "  ");
}

/* The range is made of whole days of UTC, which ended. */
static void print_days(const struct fleet_options *options, const struct fleet_findings *findings,
	struct buffer *out)
{
	const time_t times[] = { (time_t)(options->since_ms / 1000),
		(time_t)(options->until_ms / 1000) };
	char days[2][16];

	for (int i = 0; i < 2; i++) {
		struct tm parts;
		strftime(days[i], sizeof days[i], "%Y-%m-%d", gmtime_r(&times[i], &parts));
	}
	buffer_printf(out, "from the sums of whole days, %s to %s (UTC)\n", days[0], days[1]);
	if (findings->missing_days != 0)
		buffer_printf(out,
			"%" PRIu64 " days of processes have snapshots that are not in the sums "
			"(heapctl fleet schema --apply adds them)\n",
			findings->missing_days);
}

static void print_head(const struct fleet_options *options, const struct fleet_findings *findings,
	struct buffer *out)
{
	const struct interval total = estimate_interval(
		(struct estimate){ findings->total, findings->total_variance, 0 });

	switch ((int)options->action) {
	case FLEET_TOP:
		buffer_printf(out, "in use: %s ± %s\n%11s  %-12s %6s  site\n",
			quantity_format(QUANTITY_BYTES, findings->total, false).text,
			half_width(total.low, total.high).text, "bytes", "± (95%)", "hosts");
		break;
	case FLEET_GROWTH:
		if (findings->is_daily)
			print_days(options, findings, out);
		buffer_printf(out, "%-9s %26s %6s  site\n", "chance", "growth of a host", "hosts");
		break;
	case FLEET_VERSIONS:
		buffer_append_string(out, "bytes of a process, ");
		append_printable(out, findings->versions[0]);
		buffer_append_string(out, " and ");
		append_printable(out, findings->versions[1]);
		buffer_printf(out, "\n%-9s %11s %11s %26s  site\n", "chance", "before", "after",
			"change");
		break;
	default:
		buffer_printf(out, "%-9s %14s %14s %7s %11s  %-12s %11s  host, site\n", "chance",
			"growth", "usual", "z", "bytes", "± (95%)", "median");
	}
}

static void print_text(const struct fleet_options *options, const struct fleet_findings *findings,
	struct buffer *out)
{
	static const char *const endings[FLEET_ACTIONS] = {
		[FLEET_GROWTH] = "grow",
		[FLEET_VERSIONS] = "differ",
		[FLEET_OUTLIERS] = "grow as other hosts do not",
	};
	size_t significant = 0;

	print_head(options, findings, out);
	for (size_t i = 0; i < findings->count; i++) {
		const struct fleet_finding *const finding = &findings->items[i];
		significant += finding->adjusted_p < SIGNIFICANT_P;
		switch ((int)options->action) {
		case FLEET_TOP:
			print_top(options, finding, out);
			break;
		case FLEET_GROWTH:
			print_growth(options, finding, out);
			break;
		case FLEET_VERSIONS:
			print_versions(finding, out);
			break;
		default:
			print_outlier(finding, out);
		}
		append_site(out, finding);
	}
	if (findings->has_more)
		buffer_append_string(out, "and more: --top N shows N of them\n");
	if (endings[options->action] != NULL)
		buffer_printf(out, "%zu of these %s (chance below 0.05)\n", significant,
			endings[options->action]);
}

static void write_real(struct json_writer *json, const char *key, double value)
{
	json_key(json, key);
	json_put_real(json, value); /* null for NAN */
}

static void write_finding(struct json_writer *json, const struct fleet_options *options,
	const struct fleet_finding *finding)
{
	char site[24];
	const enum fleet_action action = options->action;

	json_object_begin(json);
	/* As a text: JavaScript's numbers have 53 bits. */
	snprintf(site, sizeof site, "%" PRIu64, finding->site);
	json_member_string(json, "site", site);
	json_member_string(json, "service",
		finding->service[0] != '\0' ? finding->service : options->of.service);
	if (action == FLEET_GROWTH)
		json_member_string(json, "version", finding->version);
	if (action == FLEET_OUTLIERS)
		json_member_string(json, "host", finding->host);
	else
		json_member_unsigned(json, "hosts", (uint64_t)finding->hosts);
	json_member_array(json, "frames");
	for (size_t i = 0; i < finding->depth; i++)
		json_put_string(json, finding->frames[i]);
	json_array_end(json);
	json_member_real(json, action == FLEET_GROWTH ? "rate_per_hour" : "bytes", finding->value);
	if (action == FLEET_VERSIONS)
		json_member_real(json, "base_bytes", finding->base);
	if (action == FLEET_OUTLIERS) {
		json_member_real(json, "median_bytes", finding->base);
		json_member_real(json, "robust_z", finding->t);
		write_real(json, "rate_per_hour", finding->rate);
		write_real(json, "usual_rate_per_hour", finding->base_rate);
		write_real(json, "growth_z", finding->rate_t);
	}
	write_real(json, "standard_error", isnan(finding->low) ? NAN : sqrt(finding->variance));
	json_member_array(json, "interval95");
	json_put_real(json, finding->low);
	json_put_real(json, finding->high);
	json_array_end(json);
	if (action != FLEET_TOP) {
		write_real(json, "p", finding->p);
		write_real(json, "adjusted_p", finding->adjusted_p);
	}
	json_object_end(json);
}

static void write_json(const struct fleet_options *options, const struct fleet_findings *findings,
	struct buffer *out)
{
	struct json_writer json;

	json_init(&json, out);
	json_object_begin(&json);
	json_member_string(&json, "question", fleet_action_names[options->action]);
	json_member_integer(&json, "since_ms", options->since_ms);
	json_member_integer(&json, "until_ms", options->until_ms);
	if (options->action == FLEET_TOP) {
		json_member_real(&json, "total_bytes", findings->total);
		json_member_real(&json, "total_standard_error", sqrt(findings->total_variance));
	}
	if (options->action == FLEET_GROWTH) {
		json_member_string(&json, "source", findings->is_daily ? "days" : "snapshots");
		json_member_unsigned(&json, "missing_days", findings->missing_days);
	}
	if (options->action == FLEET_VERSIONS) {
		json_member_string(&json, "base_version", findings->versions[0]);
		json_member_string(&json, "version", findings->versions[1]);
	}
	json_member_array(&json, "sites");
	for (size_t i = 0; i < findings->count; i++)
		write_finding(&json, options, &findings->items[i]);
	json_array_end(&json);
	json_member_bool(&json, "has_more", findings->has_more);
	json_object_end(&json);
	buffer_append_char(out, '\n');
}

void fleet_print_findings(const struct fleet_options *options,
	const struct fleet_findings *findings, struct buffer *out)
{
	if (options->as_json)
		write_json(options, findings, out);
	else
		print_text(options, findings, out);
}

static void write_hosts_json(
	const struct fleet_options *options, const struct fleet_hosts *hosts, struct buffer *out)
{
	struct json_writer json;

	json_init(&json, out);
	json_object_begin(&json);
	json_member_string(&json, "question", fleet_action_names[options->action]);
	json_member_integer(&json, "since_ms", options->since_ms);
	json_member_integer(&json, "until_ms", options->until_ms);
	json_member_array(&json, "hosts");
	for (size_t i = 0; i < hosts->count; i++) {
		const struct fleet_host *const host = &hosts->items[i];
		json_object_begin(&json);
		json_member_string(&json, "service", host->service);
		json_member_string(&json, "version", host->version);
		json_member_string(&json, "host", host->host);
		json_member_unsigned(&json, "processes", host->processes);
		json_member_unsigned(&json, "snapshots", host->snapshots);
		json_member_integer(&json, "last_ms", host->last_ms);
		json_member_real(&json, "bytes", host->inuse_bytes);
		json_member_real(&json, "standard_error", sqrt(host->inuse_variance));
		json_member_integer_or_null(&json, "rss_bytes", (int64_t)host->rss_bytes);
		json_object_end(&json);
	}
	json_array_end(&json);
	json_member_bool(&json, "has_more", hosts->has_more);
	json_object_end(&json);
	buffer_append_char(out, '\n');
}

void fleet_print_hosts(
	const struct fleet_options *options, const struct fleet_hosts *hosts, struct buffer *out)
{
	if (options->as_json) {
		write_hosts_json(options, hosts, out);
		return;
	}
	buffer_printf(out, "%11s  %-12s %11s %9s %9s  %-19s  service, version, host\n", "in use",
		"± (95%)", "RSS", "processes", "snapshots", "last");
	for (size_t i = 0; i < hosts->count; i++) {
		const struct fleet_host *const host = &hosts->items[i];
		char when[CONTROL_TIME_BYTES];
		const struct interval interval = estimate_interval(
			(struct estimate){ host->inuse_bytes, host->inuse_variance, 0 });
		buffer_printf(out, "%11s  ± %-10s %11s %9" PRIu64 " %9" PRIu64 "  %-19s  ",
			quantity_format(QUANTITY_BYTES, host->inuse_bytes, false).text,
			half_width(interval.low, interval.high).text,
			host->rss_bytes == 0
				? "-"
				: quantity_format(QUANTITY_BYTES, (double)host->rss_bytes, false)
					  .text,
			host->processes, host->snapshots, control_format_time(host->last_ms, when));
		append_printable(out, host->service);
		buffer_append_char(out, ' ');
		append_printable(out, host->version[0] == '\0' ? "-" : host->version);
		buffer_append_char(out, ' ');
		append_printable(out, host->host);
		buffer_append_char(out, '\n');
	}
	if (hosts->has_more)
		buffer_append_string(out, "and more: --top N shows N of them\n");
}
