/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl trend: what grew over many profiles, how fast, and how sure that is. */
#include "analysis/trend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "cli/option.h"
#include "cli/report_output.h"
#include "cli/report_session.h"
#include "cli/trend_output.h"
#include "cli/trend_series.h"
#include "cli/verb.h"
#include "render/trend_chart.h"

enum {
	OPTION_TEXT = 1,
	OPTION_JSON,
	OPTION_SVG,
	OPTION_HTML,
	OPTION_OUTPUT,
	OPTION_TOP,
	OPTION_CUM,
	OPTION_STACKS,
	OPTION_LINES,
	OPTION_INUSE_OBJECTS,
	OPTION_ALLOC_SPACE,
	OPTION_ALLOC_OBJECTS,
	OPTION_FOCUS,
	OPTION_IGNORE,
	OPTION_EXCLUDE,
	OPTION_LIB_PREFIX,
	OPTION_NO_CACHE,
	OPTION_TITLE,
	OPTION_NO_PRUNE,
};

enum { SITES_SHOWN = 15 };

static const struct verb_option options[] = {
	{ OPTION_TEXT, "text", 0, NULL, "a table for people [default]", "output", NULL, false },
	{ OPTION_JSON, "json", 0, NULL, "every series and figure as JSON", NULL, NULL, false },
	{ OPTION_SVG, "svg", 0, NULL, "curves as SVG", NULL, NULL, false },
	{ OPTION_HTML, "html", 0, NULL, "curves and table, one file that works offline", NULL, NULL,
		false },
	{ OPTION_OUTPUT, "output", 'o', "FILE", "write there; - is standard output", NULL, "@file",
		false },
	{ OPTION_TOP, "top", 0, "N", "maximum number of sites [15; all in JSON]", NULL, NULL,
		false },
	{ OPTION_STACKS, "stacks", 0, NULL, "by stack rather than by function", "sites", NULL,
		false },
	{ OPTION_CUM, "cum", 0, NULL, "functions together with what they call", NULL, NULL, false },
	{ OPTION_LINES, "lines", 0, NULL, "source lines rather than functions", NULL, NULL, false },
	{ OPTION_INUSE_OBJECTS, "inuse_objects", 0, NULL, "objects rather than bytes", NULL, NULL,
		false },
	{ OPTION_ALLOC_SPACE, "alloc_space", 0, NULL, "bytes ever allocated", NULL, NULL, false },
	{ OPTION_ALLOC_OBJECTS, "alloc_objects", 0, NULL, "objects ever allocated", NULL, NULL,
		false },
	{ OPTION_FOCUS, "focus", 0, "REGEX", "only stacks with a matching function or file",
		"filters (Perl's regular expressions)", NULL, false },
	{ OPTION_IGNORE, "ignore", 0, "REGEX", "no stacks with a matching function or file", NULL,
		NULL, false },
	{ OPTION_EXCLUDE, "exclude", 0, "REGEX",
		"leave these functions out of the stacks: a wrapper of malloc, say", NULL, NULL,
		false },
	{ OPTION_NO_PRUNE, "no-prune", 0, NULL,
		"keep the allocator's own functions, and wrappers of them", NULL, NULL, false },
	{ OPTION_LIB_PREFIX, "lib_prefix", 0, "DIR,DIR",
		"look for programs and libraries below these folders", "symbols", NULL, false },
	{ OPTION_NO_CACHE, "no_cache", 0, NULL, "do not use or fill the symbol cache", NULL, NULL,
		false },
	{ OPTION_TITLE, "title", 0, "TEXT", "in place of the program's name", NULL, NULL, false },
	{ 0 },
};

struct trend_options {
	struct report_options report;
	enum trend_output output;
	enum trend_unit unit;
	int64_t top; /* 0: not given */
	const char *title;
};

static const char **text_place(struct report_options *report, int id)
{
	switch (id) {
	case OPTION_OUTPUT:
		return &report->output_path;
	case OPTION_FOCUS:
		return &report->filter.focus;
	case OPTION_IGNORE:
		return &report->filter.ignore;
	case OPTION_EXCLUDE:
		return &report->filter.exclude;
	case OPTION_LIB_PREFIX:
		return &report->lib_prefixes;
	default:
		return NULL;
	}
}

/* False when it is none of ours: leave. */
static bool apply(struct option_parser *parser, int id, struct trend_options *request)
{
	const char **const text = text_place(&request->report, id);

	if (text != NULL) {
		*text = parser->value;
		return true;
	}
	switch (id) {
	case OPTION_TITLE:
		request->title = parser->value;
		return true;
	case OPTION_TEXT:
		request->output = TREND_OUTPUT_TEXT;
		return true;
	case OPTION_JSON:
		request->output = TREND_OUTPUT_JSON;
		return true;
	case OPTION_SVG:
		request->output = TREND_OUTPUT_SVG;
		return true;
	case OPTION_HTML:
		request->output = TREND_OUTPUT_HTML;
		return true;
	case OPTION_TOP:
		return option_number(parser, 1, 100000, &request->top);
	case OPTION_CUM:
		request->unit = TREND_CUMULATIVE;
		return true;
	case OPTION_STACKS:
		request->unit = TREND_STACKS;
		return true;
	case OPTION_LINES:
		request->report.granularity = VIEW_LINES;
		return true;
	case OPTION_INUSE_OBJECTS:
		request->report.counter = PROFILE_INUSE_OBJECTS;
		request->report.has_counter = true;
		return true;
	case OPTION_ALLOC_SPACE:
		request->report.counter = PROFILE_ALLOC_SPACE;
		request->report.has_counter = true;
		return true;
	case OPTION_ALLOC_OBJECTS:
		request->report.counter = PROFILE_ALLOC_OBJECTS;
		request->report.has_counter = true;
		return true;
	case OPTION_NO_PRUNE:
		request->report.keep_allocator_frames = true;
		return true;
	case OPTION_NO_CACHE:
		request->report.no_cache = true;
		return true;
	default:
		return false;
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
	const char *const first = path_base_name(profile_main_path(session->profiles[0]));

	for (size_t i = 1; i < session->profile_count; i++) {
		const struct profile *const other = session->profiles[i];
		const char *const name = path_base_name(profile_main_path(other));
		if (*first != '\0' && *name != '\0' && strcmp(first, name) != 0) {
			verb_warn("%s is of %s, %s of %s: growth from one program to another says "
				  "little",
				session->profiles[0]->name, first, other->name, name);
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
	CLEANUP(buffer_cleanup) struct buffer out = { 0 };

	series_init(&series, request->report.counter);
	buffer_init(&out, &memory_or_exit);
	if (!trend_series_load(&session, &series, err) ||
		!report_session_add_symbols(&session, err) || !build(&series, request, &trend, err))
		return false;
	warn_of_other_programs(&session);
	report_session_check_counter(&session);
	char period[TREND_PERIOD_BYTES];
	trend_output_period(trend, period);
	const struct trend_chart_options shown = {
		.title = request->title != NULL ? request->title : report_session_title(&session),
		.site_limit = site_limit(request),
		.period = period,
		.damaged_count = session.damaged_count,
	};
	trend_output_write(trend, request->output, &shown, &out);
	return report_output_emit(&request->report, &out, false, err);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct trend_options request = {
		.report = { .counter = PROFILE_INUSE_SPACE, .seconds = 30 },
	};
	struct option_parser parser;
	struct error err = { 0 };

	option_begin(&parser, verb, argc, argv);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (!apply(&parser, id, &request))
			return parser.exit_code;
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
		"process, or of one service across restarts, and says how sure that is. Suspected "
		"leaks are sites that grow steadily, beyond what sampling, turnover and chance "
		"among so many sites explain: with nothing leaking at most one trend in twenty "
		"names any. Steps and swings are told apart from steady growth, and growth that "
		"began later says since when.\n\n"
		"The moment of a profile is the one that it or its bundle tells, else the file's "
		"modification time, or the time in its name where a copy has lost the other; where "
		"times do not tell the order, that of the command line counts. A tar of profiles "
		"stands for all in it. Of a TARGET its kept runs are "
		"taken, and a profile of now; of one behind a gateway with a history, that.\n\n"
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
