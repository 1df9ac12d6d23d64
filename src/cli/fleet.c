/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl fleet: what all hosts have in use, from the database that heapctl send fills. */
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/fleet_session.h"
#include "cli/option.h"
#include "cli/verb.h"

enum { OPTION_KEEP = 1, DAY_MS = 24 * 3600 * 1000 };

static const struct verb_option options[] = {
	{ 0, "store", 0, "URL",
		.help = "the database: clickhouse://[USER@]HOST[:8123]/DATABASE, or clickhouses:// "
			"with TLS (port 8443)",
		OPTION_TEXT(struct fleet_options, store.url) },
	{ 0, "password-file", 0, "FILE",
		.help = "the first line of this file is the user's password", .complete = "@file",
		OPTION_TEXT(struct fleet_options, store.password_file) },
	{ .name = "apply",
		.help = "make the tables rather than print the statements",
		.group = "of schema",
		OPTION_SWITCH(struct fleet_options, applies) },
	{ OPTION_KEEP, "keep", 0, "TIME",
		.help = "remove what is older, by weeks; a ClickHouse before 20 does this when the "
			"command runs, later ones by themselves",
		.complete = "90days" },
	{ 0 },
};

static bool take_keep(struct fleet_options *fleet, const char *text, struct error *err)
{
	int64_t keep_ms = 0;

	if (!duration_parse(text, &keep_ms, err))
		return false;
	fleet->keep_days = (keep_ms + DAY_MS - 1) / DAY_MS;
	return (keep_ms > 0 && fleet->keep_days <= 36500) ||
	       error_set(err, ERROR_USAGE, "it is at least a day, and at most a century");
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct fleet_options fleet = { 0 };
	struct option_parser parser;
	struct error err = { 0 };

	option_begin(&parser, verb, argc, argv, &fleet);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id == OPTION_STOP)
			return parser.exit_code;
		if (!take_keep(&fleet, parser.value, &err))
			return option_refuse_error(&parser, &err);
	}
	if (strcmp(parser.operands[0], "schema") != 0)
		return verb_usage(verb, "unknown question \"%.40s\"", parser.operands[0]);
	if (fleet.store.url == NULL)
		return verb_usage(verb, "no database given: use --store URL");
	return fleet_session_run(&fleet, &err) ? EXIT_DONE : verb_fail(&err);
}

const struct verb verb_fleet = {
	.name = "fleet",
	.arguments = "schema --store URL [--apply] [--keep TIME]",
	.summary = "make the database of a fleet",
	.description = "schema: prints the statements that make the tables in ClickHouse which "
		       "heapctl send fills, or runs them with --apply; tables that are there stay.",
	.examples = "heapctl fleet schema --store clickhouse://heap@db/heap "
		    "--password-file db.password --apply --keep 90days",
	.options = options,
	.complete = "schema",
	.min_operands = 1,
	.max_operands = 1,
	.run = run,
};
