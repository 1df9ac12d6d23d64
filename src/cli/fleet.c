/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl fleet: what all hosts have in use, from the database that heapctl send fills. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/fleet_print.h"
#include "cli/fleet_session.h"
#include "cli/option.h"
#include "cli/debuginfod_urls.h"
#include "cli/time_option.h"
#include "cli/verb.h"
#include "fleet/clickhouse_text.h"

enum {
	OPTION_SERVICE = 1,
	OPTION_VERSION,
	OPTION_HOST,
	OPTION_LABEL,
	OPTION_SINCE,
	OPTION_UNTIL,
	OPTION_AGO,
	OPTION_RENDERER,
	OPTION_JSON,
	OPTION_KEEP,
	OPTION_KEEP_GROWTH,
	OPTION_DEBUGINFOD,
	OPTION_CLUSTER,
	OPTION_PICTURE,
	OPTION_SORT,
	OPTION_FIRST,
	OPTION_FRAME_LIMIT,
};

#define DAY_MS (INT64_C(24) * 3600 * 1000)
#define SNAPSHOT_MS (INT64_C(30) * 60 * 1000)

static const struct verb_option options[] = {
	{ 0, "store", 0, "URL",
		.help = "the database: clickhouse://[USER@]HOST[:8123]/DATABASE, or clickhouses:// "
			"with TLS (port 8443)",
		OPTION_TEXT(struct fleet_options, store.url) },
	{ 0, "password-file", 0, "FILE",
		.help = "the first line of this file is the user's password", .complete = "@file",
		OPTION_TEXT(struct fleet_options, store.password_file) },
	{ OPTION_SERVICE, "service", 0, "NAME", .help = "only this service",
		.group = "which snapshots" },
	{ OPTION_VERSION, "version", 0, "TEXT",
		.help = "only this version; for versions, the later one" },
	{ 0, "base-version", 0, "TEXT", .help = "for versions: the one to compare with",
		OPTION_TEXT(struct fleet_options, base_version) },
	{ OPTION_HOST, "host", 0, "NAME", .help = "only this host" },
	{ OPTION_LABEL, "label", 0, "NAME=VALUE", .help = "only with this label; may be repeated" },
	{ OPTION_SINCE, "since", 0, "TIME",
		.help = "the beginning: how long ago, or a time such as 2026-11-23, "
			"2026-11-23T10:00 or @1795428000 (seconds since 1970) [30mins; for growth, "
			"versions and outliers 24hrs]",
		.complete = "30mins 24hrs 7days" },
	{ OPTION_UNTIL, "until", 0, "TIME", .help = "the end: how long ago, or a time [now]" },
	{ OPTION_AGO, "ago", 0, "TIME",
		.help = "for diff: how much earlier to compare with [24hrs]",
		.complete = "24hrs 7days" },
	{ OPTION_JSON, "json", .help = "print JSON", .group = "output" },
	{ OPTION_RENDERER, "flame", .help = "for flame and diff: a flame graph, one HTML file" },
	{ OPTION_RENDERER, "svg", .help = "for flame and diff: a call graph as SVG" },
	{ OPTION_RENDERER, "collapsed", .help = "for flame and diff: one line for each stack" },
	{ OPTION_RENDERER, "tree", .help = "for flame and diff: a call tree as text" },
	{ OPTION_RENDERER, "text", .help = "for flame and diff: one line for each function" },
	{ OPTION_PICTURE, "picture", .help = "for flame and diff: what they are drawn from",
		.is_hidden = true },
	{ 0, "from", 0, "FILE", .help = "for flame and diff: draw this, and ask no database",
		.is_hidden = true, OPTION_TEXT(struct fleet_options, picture_file) },
	{ OPTION_RENDERER, "flame-data", .help = "as of heapctl report", .is_hidden = true },
	{ OPTION_RENDERER, "rows", .help = "as of heapctl report", .is_hidden = true },
	{ OPTION_SORT, "sort", 0, "KEY", .help = "as of heapctl report", .is_hidden = true },
	{ OPTION_FIRST, "first", 0, "N", .help = "as of heapctl report", .is_hidden = true },
	{ 0, "row-pattern", 0, "PATTERN", .help = "as of heapctl report", .is_hidden = true,
		OPTION_TEXT(struct fleet_options, render.row_pattern) },
	{ OPTION_FRAME_LIMIT, "frame-limit", 0, "N", .help = "as of heapctl report",
		.is_hidden = true },
	{ 0, "frame-root", 0, "PATH", .help = "as of heapctl report", .is_hidden = true,
		OPTION_TEXT(struct fleet_options, render.frame_root) },
	{ 0, "output", 'o', "FILE", .help = "write there; - is standard output",
		.complete = "@file", OPTION_TEXT(struct fleet_options, output_path) },
	{ 0, "top", 0, "N", .help = "maximum number of rows [15; 1000 in JSON]",
		OPTION_NUMBER(struct fleet_options, top, 1, 5000) },
	{ .name = "apply",
		.help = "make the tables rather than print the statements",
		.group = "schema",
		OPTION_SWITCH(struct fleet_options, applies) },
	{ OPTION_CLUSTER, "cluster", 0, "NAME",
		.help = "tables for all servers of this cluster: replicated in each shard, and "
			"Distributed over them" },
	{ OPTION_KEEP, "keep", 0, "TIME",
		.help = "remove older snapshots, by whole weeks; ClickHouse before 20 does this "
			"only "
			"when the command runs",
		.complete = "90days" },
	{ OPTION_KEEP_GROWTH, "keep-growth", 0, "TIME",
		.help = "the same for the sums of days, from which growth of more than 7 days is "
			"computed",
		.complete = "1100days" },
	{ OPTION_DEBUGINFOD, "debuginfod", 0, "URL",
		.help = "ask this server for debug files that are not here", .group = "symbolize" },
	{ 0 },
};

static bool take_keep(const char *text, int64_t *keep_days, struct error *err)
{
	int64_t keep_ms = 0;

	if (!duration_parse(text, &keep_ms, err))
		return false;
	*keep_days = (keep_ms + DAY_MS - 1) / DAY_MS;
	return (keep_ms > 0 && *keep_days <= 36500) ||
	       error_set(err, ERROR_USAGE, "it is at least a day, and at most a century");
}

static bool take_sort(const char *text, struct render_options *render, struct error *err)
{
	for (size_t i = 0; render_sort_names[i] != NULL; i++) {
		if (strcmp(render_sort_names[i], text) == 0) {
			render->sort = (enum render_sort)i;
			return true;
		}
	}
	return error_set(err, ERROR_USAGE, "use flat, cum, change or name");
}

/* Options of `heapctl report`, which the gateway gives. */
static bool take_drawing(
	struct fleet_options *fleet, int id, const struct option_parser *parser, struct error *err)
{
	int64_t number = 0;

	if (id == OPTION_SORT)
		return take_sort(parser->value, &fleet->render, err);
	if (!option_integer(parser, 0, INT32_MAX, &number, err))
		return false;
	if (id == OPTION_FIRST)
		fleet->render.first_row = (size_t)number;
	else
		fleet->render.frame_limit = (size_t)number;
	return true;
}

static bool take(struct fleet_options *fleet, int64_t now_ms, int id,
	const struct option_parser *parser, struct error *err)
{
	switch (id) {
	case OPTION_SERVICE:
		return identity_set(&fleet->of, "service", parser->value, err);
	case OPTION_VERSION:
		return identity_set(&fleet->of, "version", parser->value, err);
	case OPTION_HOST:
		return identity_set(&fleet->of, "host", parser->value, err);
	case OPTION_LABEL:
		return identity_set_label(&fleet->of, parser->value, err);
	case OPTION_SINCE:
		return time_option_parse(now_ms, parser->value, &fleet->since_ms, err);
	case OPTION_UNTIL:
		return time_option_parse(now_ms, parser->value, &fleet->until_ms, err);
	case OPTION_AGO:
		return duration_parse(parser->value, &fleet->ago_ms, err) &&
		       (fleet->ago_ms > 0 || error_set(err, ERROR_USAGE, "it is above 0"));
	case OPTION_JSON:
		fleet->as_json = true;
		return true;
	case OPTION_PICTURE:
		fleet->as_picture = true;
		return true;
	case OPTION_SORT:
	case OPTION_FIRST:
	case OPTION_FRAME_LIMIT:
		return take_drawing(fleet, id, parser, err);
	case OPTION_RENDERER:
		fleet->renderer = parser->option->name;
		return true;
	case OPTION_DEBUGINFOD:
		fleet->debuginfod = parser->value;
		return debuginfod_urls_check(parser->value, err);
	case OPTION_CLUSTER:
		fleet->cluster = parser->value;
		return clickhouse_is_name(parser->value) ||
		       error_set(err, ERROR_USAGE, "a cluster has letters, digits and underscores");
	case OPTION_KEEP_GROWTH:
		return take_keep(parser->value, &fleet->keep_growth_days, err);
	default:
		return take_keep(parser->value, &fleet->keep_days, err);
	}
}

/* An option that the question does not use; NULL: there is none. */
static const char *find_unused(const struct fleet_options *fleet)
{
	const enum fleet_action action = fleet->action;
	const bool draws = action == FLEET_FLAME || action == FLEET_DIFF;

	if (action != FLEET_SCHEMA && fleet->applies)
		return "apply";
	if (action != FLEET_SCHEMA && fleet->cluster != NULL)
		return "cluster";
	if (action != FLEET_SCHEMA && fleet->keep_days != 0)
		return "keep";
	if (action != FLEET_SCHEMA && fleet->keep_growth_days != 0)
		return "keep-growth";
	if (action != FLEET_SYMBOLIZE && fleet->debuginfod != NULL)
		return "debuginfod";
	if (action != FLEET_DIFF && fleet->ago_ms != 0)
		return "ago";
	if (action != FLEET_VERSIONS && fleet->base_version != NULL)
		return "base-version";
	if (!draws && fleet->renderer != NULL)
		return fleet->renderer;
	if (!draws && fleet->as_picture)
		return "picture";
	if (!draws && fleet->picture_file != NULL)
		return "from";
	if (action == FLEET_FLAME && fleet->top != 0 && fleet->picture_file == NULL)
		return "top";
	if (action != FLEET_SCHEMA && action != FLEET_SYMBOLIZE)
		return NULL;
	if (action == FLEET_SCHEMA && fleet->as_json)
		return "json";
	if (fleet->output_path != NULL)
		return "output";
	if (fleet->top != 0)
		return "top";
	if (fleet->since_ms != 0 || fleet->until_ms != 0)
		return fleet->since_ms != 0 ? "since" : "until";
	if (fleet->of.service[0] != '\0' || fleet->of.version[0] != '\0')
		return fleet->of.service[0] != '\0' ? "service" : "version";
	if (fleet->of.host[0] != '\0')
		return "host";
	return fleet->of.label_count != 0 ? "label" : NULL;
}

static int find_action(const char *name)
{
	for (int i = 0; i < FLEET_ACTIONS; i++)
		if (strcmp(fleet_action_names[i], name) == 0)
			return i;
	return -1;
}

/* What was not given; the exit code of a command line that has no meaning. */
static int complete(
	struct fleet_options *fleet, const struct verb *verb, const char *name, int64_t now_ms)
{
	const int action = find_action(name);

	if (action < 0)
		return verb_usage(verb, "unknown question \"%.40s\"", name);
	fleet->action = (enum fleet_action)action;
	if (action != FLEET_SYMBOLIZE && fleet->file_count != 0)
		return verb_usage(verb, "%s takes no files: \"%.40s\"", name, fleet->files[0]);
	const char *const unused = find_unused(fleet);
	if (unused != NULL)
		return verb_usage(verb, "--%s does not go with %s", unused, name);
	if (fleet->as_json && fleet->renderer != NULL)
		return verb_usage(verb, "--json and --%s are two outputs", fleet->renderer);
	if (fleet->store.url == NULL && fleet->picture_file == NULL)
		return verb_usage(verb, "no database given: use --store URL");
	if ((action == FLEET_VERSIONS || action == FLEET_OUTLIERS) && fleet->of.service[0] == '\0')
		return verb_usage(verb, "%s is of one service: use --service NAME", name);
	if (action == FLEET_VERSIONS &&
		(fleet->base_version == NULL) != (fleet->of.version[0] == '\0'))
		return verb_usage(verb, "--version and --base-version are given together");
	if (fleet->base_version != NULL && strcmp(fleet->base_version, fleet->of.version) == 0)
		return verb_usage(verb, "--version and --base-version are the same");
	const bool takes_day =
		action == FLEET_GROWTH || action == FLEET_VERSIONS || action == FLEET_OUTLIERS;
	if (fleet->until_ms == 0)
		fleet->until_ms = now_ms;
	if (fleet->since_ms == 0)
		fleet->since_ms = fleet->until_ms - (takes_day ? DAY_MS : SNAPSHOT_MS);
	if (action == FLEET_DIFF && fleet->ago_ms == 0)
		fleet->ago_ms = DAY_MS;
	if (fleet->since_ms >= fleet->until_ms)
		return verb_usage(verb, "--since is not before --until");
	if (fleet->output_path != NULL && strcmp(fleet->output_path, "-") == 0)
		fleet->output_path = NULL;
	return EXIT_DONE;
}

int fleet_command_run(const struct verb *verb, int argc, char **argv, struct error *err)
{
	const int64_t now_ms = clock_realtime_ms();
	struct fleet_options fleet = { .render = RENDER_OPTIONS_DEFAULT };
	struct option_parser parser;

	option_begin(&parser, verb, argc, argv, &fleet);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id == OPTION_STOP)
			return parser.exit_code;
		if (!take(&fleet, now_ms, id, &parser, err))
			return option_refuse_error(&parser, err);
	}
	fleet.files = parser.operands + 1;
	fleet.file_count = parser.operand_count - 1;
	const int code = complete(&fleet, verb, parser.operands[0], now_ms);
	if (code != EXIT_DONE)
		return code;
	return fleet_session_run(&fleet, err) ? EXIT_DONE : verb_fail(err);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct error err = { 0 };

	return fleet_command_run(verb, argc, argv, &err);
}

const struct verb verb_fleet = {
	.name = "fleet",
	.arguments = "QUESTION --store URL [--service NAME] [--since TIME] [--json] "
		     "[FILE|FOLDER...]",
	.summary = "show what the processes of all hosts have in use",
	.description =
		"Queries ClickHouse, which heapctl send fills (docs/fleet.md). QUESTION is one "
		"of\n\n"
		"  top       the largest sites, with the number of hosts\n"
		"  flame     a flame graph of all hosts\n"
		"  diff      what changed since a day before, or since --ago\n"
		"  growth    sites that grow: the slope of each process, its mean over hosts\n"
		"  versions  sites that differ between two versions of a service\n"
		"  outliers  hosts of a service that grow as others do not, then those with "
		"much\n"
		"  hosts     services, versions and hosts\n"
		"  schema    the statements that make the tables; --apply makes them\n"
		"  symbolize names for stacks that were sent without, by build-id: from "
		"FILEs, FOLDERs\n"
		"            with all that is below them, installed debug files, and "
		"--debuginfod\n\n"
		"A site is a stack of functions, the same in every build. top, flame, diff and "
		"hosts count the last snapshot of each process; growth, versions and outliers all "
		"of them. ± is half of the 95% interval: of sampling, and for growth and "
		"versions of the differences between hosts. Chances are adjusted for the number "
		"of sites (Holm).",
	.examples =
		"heapctl fleet schema --store clickhouse://heap@db/heap "
		"--password-file db.password --apply --keep 90days\n"
		"heapctl fleet flame --store clickhouse://heap@db/heap --service api -o api.html\n"
		"heapctl fleet growth --store clickhouse://heap@db/heap --since 7days\n"
		"heapctl fleet versions --store clickhouse://heap@db/heap --service api\n"
		"heapctl fleet symbolize --store clickhouse://heap@db/heap /srv/builds",
	.options = options,
	.complete = "top flame diff growth versions outliers hosts schema symbolize",
	.min_operands = 1,
	.max_operands = SIZE_MAX,
	.run = run,
};
