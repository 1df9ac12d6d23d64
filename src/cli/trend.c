/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl trend: what grew over many profiles, how fast, and how sure that is. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/trend.h"
#include "base/file.h"
#include "base/json_writer.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/option.h"
#include "cli/report_output.h"
#include "cli/report_session.h"
#include "cli/terminal.h"
#include "cli/trend_series.h"
#include "cli/verb.h"
#include "render/quantity.h"
#include "render/render_trend.h"

/* As enum profile_counter has them, which begins at 0. */
enum {
	OPTION_INUSE_OBJECTS = 1 + PROFILE_INUSE_OBJECTS,
	OPTION_ALLOC_SPACE = 1 + PROFILE_ALLOC_SPACE,
	OPTION_ALLOC_OBJECTS = 1 + PROFILE_ALLOC_OBJECTS,
};

enum { SITES_SHOWN = 15 };

enum trend_output {
	TREND_OUTPUT_TEXT,
	TREND_OUTPUT_JSON,
	TREND_OUTPUT_SVG,
	TREND_OUTPUT_HTML,
};

struct trend_options {
	struct report_options report;
	enum trend_output output;
	enum trend_unit unit;
	int64_t top; /* 0: not given */
	const char *title;
};

static const struct verb_option options[] = {
	{ .name = "text",
		.help = "a table [default]",
		.group = "output",
		OPTION_CHOICE(struct trend_options, enum trend_output, output, TREND_OUTPUT_TEXT) },
	{ .name = "json",
		.help = "every series and figure as JSON",
		OPTION_CHOICE(struct trend_options, enum trend_output, output, TREND_OUTPUT_JSON) },
	{ .name = "svg",
		.help = "curves as SVG",
		OPTION_CHOICE(struct trend_options, enum trend_output, output, TREND_OUTPUT_SVG) },
	{ .name = "html",
		.help = "curves and table, one file that works offline",
		OPTION_CHOICE(struct trend_options, enum trend_output, output, TREND_OUTPUT_HTML) },
	{ 0, "output", 'o', "FILE", .help = "write there; - is standard output",
		.complete = "@file", OPTION_TEXT(struct trend_options, report.output_path) },
	{ 0, "top", 0, "N", .help = "maximum number of sites [15; all in JSON]",
		OPTION_NUMBER(struct trend_options, top, 1, 100000) },
	{ .name = "stacks",
		.help = "by stack rather than by function",
		.group = "sites",
		OPTION_CHOICE(struct trend_options, enum trend_unit, unit, TREND_STACKS) },
	{ .name = "cum",
		.help = "functions together with what they call",
		OPTION_CHOICE(struct trend_options, enum trend_unit, unit, TREND_CUMULATIVE) },
	{ .name = "lines",
		.help = "source lines rather than functions",
		OPTION_CHOICE(struct trend_options, enum view_granularity, report.granularity,
			VIEW_LINES) },
	{ OPTION_INUSE_OBJECTS, "inuse_objects", .help = "objects rather than bytes" },
	{ OPTION_ALLOC_SPACE, "alloc_space", .help = "bytes ever allocated" },
	{ OPTION_ALLOC_OBJECTS, "alloc_objects", .help = "objects ever allocated" },
	{ 0, "focus", 0, "REGEX", .help = "only stacks with a matching function or file",
		.group = "filters (Perl's regular expressions)",
		OPTION_TEXT(struct trend_options, report.filter.focus) },
	{ 0, "ignore", 0, "REGEX", .help = "no stacks with a matching function or file",
		OPTION_TEXT(struct trend_options, report.filter.ignore) },
	{ 0, "exclude", 0, "REGEX",
		.help = "leave these functions out of the stacks: a wrapper of malloc, say",
		OPTION_TEXT(struct trend_options, report.filter.exclude) },
	{ .name = "no-prune",
		.help = "keep the allocator's own functions, and wrappers of them",
		OPTION_SWITCH(struct trend_options, report.keep_allocator_frames) },
	{ 0, "lib_prefix", 0, "DIR,DIR",
		.help = "look for programs and libraries below these folders", .group = "symbols",
		OPTION_TEXT(struct trend_options, report.lib_prefixes) },
	{ .name = "no_cache",
		.help = "do not use or fill the symbol cache",
		OPTION_SWITCH(struct trend_options, report.no_cache) },
	{ 0, "title", 0, "TEXT", .help = "in place of the program's name",
		OPTION_TEXT(struct trend_options, title) },
	{ 0 },
};

static enum quantity_style style_of(const struct trend *trend)
{
	return quantity_style_of(trend->view->kind, trend->view->counter, false);
}

static void write_steps_json(struct json_writer *json, const struct growth *growth)
{
	json_member_array(json, "steps");
	for (size_t i = 0; i < growth->step_count; i++) {
		json_object_begin(json);
		json_member_real(json, "hours", growth->steps[i].hours);
		json_member_real(json, "size", growth->steps[i].size);
		json_member_real(json, "lasted_hours", growth->steps[i].lasted_hours);
		json_member_bool(json, "is_gradual", growth->steps[i].is_gradual);
		json_member_bool(json, "goes_on_slower", growth->steps[i].goes_on_slower);
		json_member_bool(json, "is_of_onset", growth->steps[i].is_of_onset);
		json_member_bool(json, "is_restart", growth->steps[i].is_restart);
		json_object_end(json);
	}
	json_array_end(json);
}

static void write_shape_json(struct json_writer *json, const struct growth *growth)
{
	json_member_bool(json, "may_be_step", growth->may_be_step);
	json_member_bool(json, "may_go_on", growth->may_go_on);
	if (growth->has_onset) {
		json_member_real(json, "onset_hours", growth->onset_hours);
		json_member_array(json, "onset_interval95");
		json_put_real(json, growth->onset_low);
		json_put_real(json, growth->onset_high);
		json_array_end(json);
		json_member_bool(json, "goes_on", growth->goes_on);
	}
	if (growth->has_end)
		json_member_real(json, "end_hours", growth->end_hours);
	if (growth->has_end || growth->has_onset) {
		json_member_array(json, "end_interval95");
		json_put_real(json, growth->end_low);
		json_put_real(json, growth->end_high);
		json_array_end(json);
	}
	if (growth->step_count > 0)
		write_steps_json(json, growth);
	if (growth->kind == GROWTH_JUMP) {
		const struct growth_step *const jump = growth_largest_step(growth);
		json_member_real(json, "jump", jump->size);
		json_member_real(json, "jump_hours", jump->hours);
		json_member_real(json, "jump_lasted_hours", jump->lasted_hours);
	}
}

static void write_growth_json(struct json_writer *json, const struct trend_site *site)
{
	const struct growth *const growth = &site->growth;

	json_member_string(json, "kind", trend_site_kind(site));
	json_member_bool(json, "is_suspect", site->is_suspect);
	if (!site->has_growth)
		return;
	json_member_real(json, "rate_per_hour", growth->rate);
	json_member_array(json, "interval95");
	json_put_real(json, growth->low);
	json_put_real(json, growth->high);
	json_array_end(json);
	json_member_real(json, "p", growth->p);
	json_member_real(json, "adjusted_p", site->adjusted_p);
	json_member_unsigned(json, "rises", growth->rises);
	json_member_unsigned(json, "falls", growth->falls);
	json_member_unsigned(json, "intervals", growth->intervals);
	json_member_unsigned(json, "averaged", growth->averaged);
	write_shape_json(json, growth);
	if (growth->period_hours > 0)
		json_member_real(json, "period_hours", growth->period_hours);
}

static void write_site_json(
	struct json_writer *json, const struct trend *trend, const struct trend_site *site)
{
	json_object_begin(json);
	json_member_string(json, "name", site->name);
	json_member_string(json, "stack", site->stack);
	write_growth_json(json, site);
	json_member_string(json, "words", trend_describe_growth(trend, site).text);
	json_member_array(json, "values");
	for (size_t i = 0; i < trend->profile_count; i++)
		json_put_real(json, site->series[i].value);
	json_array_end(json);
	json_member_array(json, "standard_errors");
	for (size_t i = 0; i < trend->profile_count; i++)
		json_put_real(json, sqrt(site->series[i].variance));
	json_array_end(json);
	json_object_end(json);
}

static void write_notes_json(
	struct json_writer *json, const struct trend *trend, const struct trend_notes *notes)
{
	json_member_array(json, "notes");
	for (size_t i = 0; i < notes->count; i++) {
		const struct trend_note *const note = &notes->items[i];
		json_object_begin(json);
		json_member_real(
			json, "hours", (double)(note->time_ms - trend->first_ms) / 3600000.0);
		json_member_integer(json, "time_ms", note->time_ms);
		json_member_string(json, "text", note->text);
		json_object_end(json);
	}
	json_array_end(json);
}

static void write_json(
	const struct trend *trend, const struct trend_chart_options *chart, struct buffer *out)
{
	struct json_writer json;

	json_init(&json, out);
	json_object_begin(&json);
	json_member_string(&json, "title", chart->title);
	json_member_bool(&json, "has_times", trend->has_times);
	json_member_integer(&json, "first_ms", trend->has_times ? trend->first_ms : 0);
	json_member_array(&json, "hours");
	for (size_t i = 0; i < trend->profile_count; i++)
		json_put_real(&json, trend->hours[i]);
	json_array_end(&json);
	json_member_array(&json, "runs");
	for (size_t i = 0; i < trend->profile_count; i++)
		json_put_unsigned(&json, trend->runs[i]);
	json_array_end(&json);
	json_member_array(&json, "warm_up");
	for (size_t i = 0; i < trend->profile_count; i++)
		json_put_bool(&json, trend->is_warm_up[i]);
	json_array_end(&json);
	json_member_integer_or_null(&json, "attached_ms", trend->attached_ms);
	json_member_unsigned(&json, "attach_count", trend->attach_count);
	json_key(&json, "total");
	write_site_json(&json, trend, &trend->total);
	json_member_array(&json, "sites");
	for (size_t i = 0; i < trend->site_count && i < chart->site_limit; i++)
		write_site_json(&json, trend, &trend->sites[i]);
	json_array_end(&json);
	json_member_unsigned(&json, "site_count", trend->site_count);
	json_member_unsigned(&json, "left_out", trend->left_out);
	json_member_unsigned(&json, "damaged", chart->damaged_count);
	write_notes_json(&json, trend, chart->notes);
	json_object_end(&json);
	buffer_append_char(out, '\n');
}

/* "07:20:36 to 08:20:36", with dates unless it was today; "" where no times are known. */
enum { PERIOD_BYTES = 80 };
static void format_period(const struct trend *trend, char text[PERIOD_BYTES])
{
	char from[CONTROL_TIME_BYTES], to[CONTROL_TIME_BYTES];

	text[0] = '\0';
	if (trend->has_times)
		snprintf(text, PERIOD_BYTES, "%s to %s", control_format_time(trend->first_ms, from),
			control_format_time(trend->last_ms, to));
}

static void write_head(
	const struct trend *trend, const struct trend_chart_options *chart, struct buffer *out)
{
	const size_t last = trend->profile_count - 1;

	CLEANUP(free_cleanup) char *title = terminal_copy(chart->title);
	buffer_printf(
		out, "%s: %zu profiles", title[0] == '\0' ? "?" : title, trend->profile_count);
	if (chart->period[0] != '\0')
		buffer_printf(out, ", %s", chart->period);
	if (chart->damaged_count > 0)
		buffer_printf(out, ", %zu damaged and left out", chart->damaged_count);
	trend_append_runs(trend, out);
	buffer_printf(out, "\n%s: ", quantity_name(trend->view->kind, trend->view->counter));
	if (!trend->lacks_counts)
		buffer_printf(out, "first %s, last %s; ",
			quantity_format(style_of(trend), trend->total.series[0].value, false).text,
			quantity_format(style_of(trend), trend->total.series[last].value, false)
				.text);
	buffer_printf(out, "%s\n", trend_describe_growth(trend, &trend->total).text);
	for (size_t i = 0; i < chart->notes->count; i++) {
		const struct trend_note *const note = &chart->notes->items[i];
		char when[CONTROL_TIME_BYTES];
		CLEANUP(free_cleanup) char *text = terminal_copy(note->text);
		buffer_printf(out, "note: %s %s\n", control_format_time(note->time_ms, when), text);
	}
}

static void write_sites(const struct trend *trend, size_t first, size_t end, struct buffer *out)
{
	for (size_t i = first; i < end; i++) {
		const struct trend_site *const site = &trend->sites[i];
		const double now = site->series[trend->profile_count - 1].value;
		const struct trend_words chance = trend_describe_chance(site);
		buffer_printf(out, "%12s  %-6s %-8s %s: %s\n",
			quantity_format(style_of(trend), now, false).text,
			chance.text[0] == '\0' ? "" : "chance", chance.text, site->name,
			trend_describe_growth(trend, site).text);
		if (site->is_suspect && strcmp(site->stack, site->name) != 0)
			buffer_printf(out, "%29s %s\n", "", site->stack);
	}
}

/* Also why none could have been suspected. */
static const char *describe_no_suspect(const struct trend *trend)
{
	if (trend->lacks_counts)
		return "No site can be tested: the profiles count only what is in use.";
	if (trend->site_count == 0)
		return "No site can be tested: the profiles have no samples.";
	for (size_t i = 0; i < trend->site_count; i++) {
		if (trend->sites[i].has_growth)
			return "No site is suspected to leak.";
	}
	return "No site can be tested: that takes three profiles of one process, or more.";
}

static void write_text(
	const struct trend *trend, const struct trend_chart_options *chart, struct buffer *out)
{
	const size_t shown =
		trend->site_count < chart->site_limit ? trend->site_count : chart->site_limit;
	size_t suspects = 0;

	write_head(trend, chart, out);
	while (suspects < trend->site_count && trend->sites[suspects].is_suspect)
		suspects++;
	buffer_printf(out, "\n%s\n",
		suspects == 0 ? describe_no_suspect(trend)
			      : "Suspected leaks, most significant first (now, chance, growth):");
	write_sites(trend, 0, suspects < shown ? suspects : shown, out);
	if (shown > suspects) {
		buffer_append_string(out, "\nOther sites:\n");
		write_sites(trend, suspects, shown, out);
	}
	if (trend->site_count > shown)
		buffer_printf(out, "%zu more sites (--top=N, --json)\n", trend->site_count - shown);
	if (trend->left_out != 0)
		buffer_printf(out, "%zu small sites are left out\n", trend->left_out);
}

static void write_trend(const struct trend *trend, enum trend_output output,
	const struct trend_chart_options *chart, struct buffer *out)
{
	switch (output) {
	case TREND_OUTPUT_TEXT:
		write_text(trend, chart, out);
		break;
	case TREND_OUTPUT_JSON:
		write_json(trend, chart, out);
		break;
	case TREND_OUTPUT_SVG:
		trend_chart_svg(trend, chart, out);
		break;
	case TREND_OUTPUT_HTML:
		trend_chart_html(trend, chart, out);
		break;
	}
}

static bool build(const struct series *series, const struct trend_options *request,
	struct trend **trend, struct error *err)
{
	CLEANUP(filter_cleanup) struct filter *filter = NULL;

	if (!filter_new(&request->report.filter, &filter, err))
		return false;
	const struct trend_request asked = {
		.view = {
			.granularity = request->report.granularity,
			.filter = filter,
			.pruning = report_options_pruning(&request->report),
		},
		.unit = request->unit,
	};
	return trend_build(series, &asked, trend, err);
}

/* JSON is for programs, which choose for themselves. */
static size_t site_limit(const struct trend_options *request)
{
	if (request->top != 0)
		return (size_t)request->top;
	return request->output == TREND_OUTPUT_JSON ? SIZE_MAX : SITES_SHOWN;
}

/* A service may have another name after an update; mixed up files are worth a warning. */
static void warn_of_other_programs(const struct report_session *session)
{
	for (size_t i = 1; i < session->profile_count; i++) {
		const struct profile *const other = session->profiles[i];
		if (!profile_is_of_same_program(session->profiles[0], other)) {
			verb_warn("%s is of %s, %s of %s: growth from one program to another means "
				  "little",
				session->profiles[0]->name,
				profile_program_name(session->profiles[0]), other->name,
				profile_program_name(other));
			return;
		}
	}
}

static bool make(const struct trend_options *request, struct error *err)
{
	CLEANUP(series_deinit) struct series series = { 0 };
	CLEANUP(report_session_close)
	struct report_session session = { .options = &request->report };
	CLEANUP(trend_cleanup) struct trend *trend = NULL;
	CLEANUP(trend_notes_deinit) struct trend_notes notes = { 0 };
	CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;

	series_init(&series, request->report.counter);
	if (!trend_series_load(&session, &series, &notes, err) ||
		!report_session_add_symbols(&session, err) || !build(&series, request, &trend, err))
		return false;
	warn_of_other_programs(&session);
	report_session_check_counter(&session);
	trend_notes_settle(&notes, trend);
	char period[PERIOD_BYTES];
	format_period(trend, period);
	const struct trend_chart_options shown = {
		.title = request->title != NULL ? request->title : report_session_title(&session),
		.site_limit = site_limit(request),
		.period = period,
		.damaged_count = session.damaged_count,
		.notes = &notes,
	};
	write_trend(trend, request->output, &shown, &out);
	return report_output_emit(&request->report, &out, false, err);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct trend_options request = {
		.report = { .counter = PROFILE_INUSE_SPACE, .seconds = 30 },
	};
	struct option_parser parser;
	struct error err = { 0 };

	option_begin(&parser, verb, argc, argv, &request);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id == OPTION_STOP)
			return parser.exit_code;
		request.report.counter = (enum profile_counter)(id - 1);
		request.report.has_counter = true;
	}
	request.report.operands = parser.operands;
	request.report.operand_count = parser.operand_count;
	if (request.report.output_path != NULL && strcmp(request.report.output_path, "-") == 0)
		request.report.output_path = NULL;
	return make(&request, &err) ? EXIT_DONE : verb_fail(&err);
}

const struct verb verb_trend = {
	.name = "trend",
	.arguments = "[OPTION...] [PROGRAM] PROFILE|FOLDER... | TARGET",
	.summary = "show what grew over many profiles, how fast and how surely",
	.description =
		"Fits the growth of every function (or stack) over a series of profiles of one "
		"process, or of one service across restarts, with a confidence interval. Suspected "
		"leaks are sites that grow steadily, beyond what sampling, turnover and chance "
		"among many sites explain: if nothing leaks, at most one trend in twenty names "
		"any. Steps and swings are distinguished from steady growth; growth that began "
		"later is shown with its beginning.\n\n"
		"The time of a profile is in the profile or its bundle, else the file's "
		"modification time, or the time in its name if copying changed the modification "
		"time; if times do not decide the order, the order of the command line counts. A "
		"tar stands for all profiles in it. For a TARGET the profiles are its kept runs "
		"and one taken now, or its history if its gateway has one.\n\n"
		"± is half of the 95% interval.",
	.examples = "heapctl trend redis-server.*.heap\n"
		    "heapctl trend --html -o trend.html --exclude='^zmalloc' *.heap\n"
		    "heapctl trend redis-server\n"
		    "# what heapctl watch has kept\n"
		    "heapctl trend redis-server.captures",
	.options = options,
	.complete = "@file",
	.min_operands = 1,
	.max_operands = SIZE_MAX,
	.run = run,
};
