/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fleet_session.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/fleet_print.h"
#include "cli/fleet_symbolize.h"
#include "cli/report_output.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "fleet/growth_days.h"
#include "fleet/picture.h"
#include "fleet/questions.h"
#include "fleet/schema.h"
#include "render/renderers.h"

/* Sites of a picture; what they leave out is drawn as one. */
enum { PICTURE_SITES = 10000, PICTURE_BYTES = 256 << 20, SHOWN = 15, ALL = 1000 };

static bool make_tables(
	const struct fleet_options *options, struct clickhouse *clickhouse, struct error *err)
{
	CLEANUP(schema_deinit) struct schema schema = { 0 };
	CLEANUP(schema_deinit) struct schema keep = { 0 };
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	const struct schema_age age = { options->keep_days, options->keep_growth_days };
	struct schema_place place;

	if (!schema_find_place(clickhouse, options->cluster, &place, err))
		return false;
	schema_make(&place, &schema);
	/* Days are summed before their snapshots are removed. */
	if (options->applies && (!schema_apply(clickhouse, &schema, err) ||
					!growth_days_sum_all(clickhouse, clock_realtime_ms(), err)))
		return false;
	if (!schema_keep(clickhouse, &place, &age, &keep, err))
		return false;
	if (options->applies) {
		if (!schema_apply(clickhouse, &keep, err))
			return false;
		printf("%s: tables of version %d\n", clickhouse_name(clickhouse),
			FLEET_SCHEMA_VERSION);
		return true;
	}
	schema_print(&schema, &text);
	schema_print(&keep, &text);
	fputs(buffer_string(&text), stdout);
	return true;
}

/* The database's times are of 1970 to 2106: others would be taken for some between. */
static int64_t within_times(int64_t time_ms)
{
	const int64_t last_ms = (int64_t)UINT32_MAX * 1000;

	return time_ms < 0 ? 0 : time_ms > last_ms ? last_ms : time_ms;
}

static struct fleet_scope scope_of(const struct fleet_options *options, int64_t ago_ms)
{
	return (struct fleet_scope){
		.of = options->of,
		.since_ms = within_times(options->since_ms - ago_ms),
		.until_ms = within_times(options->until_ms - ago_ms),
	};
}

/* JSON is for programs, which choose for themselves. */
static size_t limit_of(const struct fleet_options *options)
{
	if (options->top != 0)
		return (size_t)options->top;
	return options->as_json ? ALL : SHOWN;
}

/* Where nothing is in use. A process without sampling has snapshots, which have no sample. */
static bool refuse_empty(
	const struct fleet_scope *scope, struct clickhouse *clickhouse, struct error *err)
{
	struct fleet_hosts hosts;

	fleet_hosts_init(&hosts);
	const bool is_asked = fleet_ask_hosts(clickhouse, scope, 1, &hosts, err);
	const bool has_snapshots = hosts.count != 0;
	fleet_hosts_deinit(&hosts);
	if (!is_asked)
		return false;
	if (has_snapshots) {
		error_set(err, ERROR_NOT_FOUND, "%s has snapshots there, but not a sample in them",
			clickhouse_name(clickhouse));
		return error_hint(err, "heapctl activate switches sampling on");
	}
	error_set(err, ERROR_NOT_FOUND,
		"%s has no snapshot of that service, version, host and time",
		clickhouse_name(clickhouse));
	return error_hint(err, "heapctl fleet hosts --since 30days lists what there is");
}

static bool ask_findings(const struct fleet_options *options, struct clickhouse *clickhouse,
	struct fleet_findings *findings, struct error *err)
{
	const struct fleet_scope scope = scope_of(options, 0);
	const size_t max = limit_of(options);

	switch ((int)options->action) {
	case FLEET_TOP:
		return fleet_ask_sites(clickhouse, &scope, max, findings, err) &&
		       (findings->count != 0 || refuse_empty(&scope, clickhouse, err));
	case FLEET_GROWTH:
		return fleet_ask_growth(clickhouse, &scope, max, findings, err);
	case FLEET_VERSIONS:
		return fleet_ask_versions(
			clickhouse, &scope, options->base_version, max, findings, err);
	default:
		return fleet_ask_outliers(clickhouse, &scope, max, findings, err);
	}
}

static void findings_cleanup(struct fleet_findings *findings)
{
	fleet_findings_deinit(findings);
}

static bool list_findings(const struct fleet_options *options, struct clickhouse *clickhouse,
	struct buffer *out, struct error *err)
{
	CLEANUP(findings_cleanup) struct fleet_findings findings = { 0 };

	fleet_findings_init(&findings);
	if (!ask_findings(options, clickhouse, &findings, err))
		return false;
	if (findings.count == 0 && findings.missing_days != 0) {
		error_set(err, ERROR_NOT_FOUND,
			"%s has %" PRIu64 " days of processes there, and not their sums",
			clickhouse_name(clickhouse), findings.missing_days);
		return error_hint(err, "heapctl fleet schema --apply makes them");
	}
	if (options->action == FLEET_GROWTH && findings.count == 0) {
		error_set(err, ERROR_NOT_FOUND, "%s has no process with three snapshots there",
			clickhouse_name(clickhouse));
		return error_hint(err, "--since takes more time");
	}
	fleet_print_findings(options, &findings, out);
	return true;
}

static bool list_hosts(const struct fleet_options *options, struct clickhouse *clickhouse,
	struct buffer *out, struct error *err)
{
	const struct fleet_scope scope = scope_of(options, 0);
	struct fleet_hosts hosts;

	fleet_hosts_init(&hosts);
	const bool is_done = fleet_ask_hosts(clickhouse, &scope, limit_of(options), &hosts, err) &&
			     (hosts.count != 0 || refuse_empty(&scope, clickhouse, err));
	if (is_done)
		fleet_print_hosts(options, &hosts, out);
	fleet_hosts_deinit(&hosts);
	return is_done;
}

/* "version 1.4, host a; 2026-11-23 17:00:00 to 2026-11-23 18:00:00" */
static void describe(
	const struct fleet_options *options, const struct fleet_scope *base, struct buffer *out)
{
	char from[CONTROL_TIME_BYTES], to[CONTROL_TIME_BYTES];

	if (options->of.version[0] != '\0')
		buffer_printf(out, "version %s, ", options->of.version);
	if (options->of.host[0] != '\0')
		buffer_printf(out, "host %s, ", options->of.host);
	for (size_t i = 0; i < options->of.label_count; i++)
		buffer_printf(
			out, "%s=%s, ", options->of.labels[i].name, options->of.labels[i].value);
	buffer_printf(out, "last snapshots from %s to %s",
		control_format_time(options->since_ms, from),
		control_format_time(options->until_ms, to));
	if (base != NULL)
		buffer_printf(out, " - from %s to %s", control_format_time(base->since_ms, from),
			control_format_time(base->until_ms, to));
}

static bool ask_picture(const struct fleet_options *options, struct clickhouse *clickhouse,
	struct fleet_picture *picture, struct error *err)
{
	const struct fleet_scope scope = scope_of(options, 0);
	const struct fleet_scope before = scope_of(options, options->ago_ms);
	CLEANUP(buffer_deinit) struct buffer subtitle = BUFFER_OR_EXIT;

	picture->is_difference = options->action == FLEET_DIFF;
	picture->has_services = options->of.service[0] == '\0';
	if (!fleet_ask_sites(clickhouse, &scope, PICTURE_SITES, &picture->now, err) ||
		(picture->is_difference &&
			!fleet_ask_sites(clickhouse, &before, PICTURE_SITES, &picture->base, err)))
		return false;
	if (picture->now.count == 0)
		return refuse_empty(&scope, clickhouse, err);
	if (picture->is_difference && picture->base.count == 0) {
		char from[CONTROL_TIME_BYTES], to[CONTROL_TIME_BYTES];
		error_set(err, ERROR_NOT_FOUND,
			"%s has no snapshot from %s to %s, which would be compared with",
			clickhouse_name(clickhouse), control_format_time(before.since_ms, from),
			control_format_time(before.until_ms, to));
		return error_hint(err, "--ago compares with another time");
	}
	describe(options, picture->is_difference ? &before : NULL, &subtitle);
	fleet_picture_set_texts(picture, picture->has_services ? "fleet" : options->of.service,
		buffer_string(&subtitle));
	return true;
}

static bool read_picture(
	const struct fleet_options *options, struct fleet_picture *picture, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	text.limit = PICTURE_BYTES;
	return file_read(options->picture_file, &text, err) &&
	       fleet_picture_read(text.data, text.size, picture, err);
}

/* `clickhouse` NULL: from a file. */
static bool draw(const struct fleet_options *options, struct clickhouse *clickhouse,
	struct buffer *out, struct error *err)
{
	CLEANUP(fleet_picture_deinit) struct fleet_picture picture = { 0 };
	struct render_options render = options->render;

	fleet_picture_init(&picture);
	if (!(clickhouse == NULL ? read_picture(options, &picture, err)
				 : ask_picture(options, clickhouse, &picture, err)))
		return false;
	if (options->as_picture) {
		fleet_picture_write(&picture, out);
		return true;
	}
	render.line_limit = (size_t)options->top;
	render.confidence = true;
	if (picture.is_difference && render.sort == RENDER_SORT_FLAT)
		render.sort = RENDER_SORT_CHANGE;
	CLEANUP(view_cleanup)
	struct view *view =
		fleet_view_make(&picture.now, picture.is_difference ? &picture.base : NULL,
			picture.has_services, picture.title, picture.subtitle);
	const struct renderer *const renderer =
		renderer_find(options->renderer != NULL ? options->renderer
			      : options->as_json	? "json"
			      : picture.is_difference	? "text"
							: "flame");
	return renderer->render(view, &render, out, err);
}

static bool answer(const struct fleet_options *options, struct clickhouse *clickhouse,
	struct buffer *out, struct error *err)
{
	switch ((int)options->action) {
	case FLEET_FLAME:
	case FLEET_DIFF:
		return draw(options, clickhouse, out, err);
	case FLEET_HOSTS:
		return list_hosts(options, clickhouse, out, err);
	case FLEET_SYMBOLIZE:
		return fleet_symbolize(options, clickhouse, out, err);
	default:
		return list_findings(options, clickhouse, out, err);
	}
}

bool fleet_session_run(const struct fleet_options *options, struct error *err)
{
	const struct report_options output = { .output_path = options->output_path };
	CLEANUP(clickhouse_cleanup) struct clickhouse *clickhouse = NULL;
	CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;

	if (options->picture_file != NULL)
		return draw(options, NULL, &out, err) &&
		       report_output_emit(&output, &out, false, err);
	if (!fleet_store_open(&options->store, &clickhouse, err))
		return false;
	terminal_catch_interrupts();
	clickhouse_set_cancel(clickhouse, terminal_was_interrupted);
	if (options->action == FLEET_SCHEMA)
		return make_tables(options, clickhouse, err);
	return schema_check(clickhouse, NULL, err) && answer(options, clickhouse, &out, err) &&
	       report_output_emit(&output, &out, false, err);
}
