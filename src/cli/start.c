/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl start, heapctl stop: a timed run without waiting for it. */
#include <inttypes.h>
#include <stdio.h>

#include "base/quantity.h"
#include "cli/control.h"
#include "client/profile_run.h"
#include "cli/sample_interval.h"
#include "cli/verb.h"

struct start_request {
	int64_t duration_ms;
	bool as_json;
};

static const struct verb_option start_options[] = {
	{ 0, "duration", 'd', "TIME", .help = "how long, 1s to 24hrs; default 5mins",
		.complete = "10s 30s 1mins 5mins 1hrs",
		OPTION_DURATION(struct start_request, duration_ms) },
	{ .name = "json",
		.help = "print the run as JSON",
		OPTION_SWITCH(struct start_request, as_json) },
	{ 0 },
};

/* `word` is how the user named the target. */
static void print_started(const struct target *target, const char *word, const json_t *run)
{
	char length[DURATION_TEXT_BYTES];

	/* The id alone on standard output, so that a script can take it. */
	printf("%" PRId64 "\n", json_number(run, "id"));
	if (json_flag(run, "already_running"))
		fprintf(stderr, "%s: a run is on already, with %s left\n", target->label,
			duration_format(json_number(run, "remaining_ms"), length));
	else
		fprintf(stderr, "%s: a run of %s has begun; `heapctl stop %s` ends it early%s\n",
			target->label, duration_format(json_number(run, "duration_ms"), length),
			word,
			json_flag(run, "was_active") ? "; sampling was on before and stays on"
						     : "");
}

static int run_start(const struct verb *verb, int argc, char **argv)
{
	struct start_request request = { .duration_ms = DURATION_DEFAULT_RUN_MS };
	struct option_parser parser;
	struct target target;
	struct error err;

	if (!option_parse(&parser, verb, argc, argv, &request))
		return parser.exit_code;
	CLEANUP(json_cleanup) json_t *started = NULL;
	const struct profile_run_request wanted = { .duration_ms = request.duration_ms,
		.lg_sample = SAMPLE_LG_KEEP };
	if (!target_resolve(parser.operands[0], &target, &err) ||
		!profile_run_start(&target, &wanted, &started, &err))
		return verb_fail(&err);
	if (request.as_json)
		control_print_json(started);
	else
		print_started(&target, parser.operands[0], started);
	return EXIT_DONE;
}

const struct verb verb_start = {
	.name = "start",
	.arguments = "TARGET [--duration TIME] [--json]",
	.summary = "start a timed run; prints its id",
	.description = "Switches sampling on for the given time and takes a profile at its "
		       "end. Where sampling is on already it stays on, and the difference from "
		       "the run's start profile is what the run added. The run belongs to the "
		       "agent: it ends on time even when no client is connected. Only one run "
		       "is possible at a time: while a run is on, its id is printed instead.\n\n"
		       "`heapctl runs` lists runs and saves their profiles; `heapctl record` "
		       "does everything in one step.",
	.examples = "heapctl start redis-server --duration 5mins",
	.options = start_options,
	.complete = "@target",
	.min_operands = 1,
	.max_operands = 1,
	.run = run_start,
};

static int run_stop(const struct verb *verb, int argc, char **argv)
{
	struct target target;
	struct error err;
	bool as_json = false;
	int exit_code;

	if (!control_parse_target(verb, argc, argv, &target, &as_json, &exit_code))
		return exit_code;
	CLEANUP(json_cleanup) json_t *stopped = NULL;
	if (!profile_run_stop(&target, &stopped, &err))
		return verb_fail(&err);
	if (as_json) {
		control_print_json(stopped);
		return EXIT_DONE;
	}
	const int64_t id = json_number(stopped, "id");
	printf("%" PRId64 "\n", id);
	fprintf(stderr,
		"%s: the run has ended; `heapctl runs %s --save %" PRId64 "` saves its profile\n",
		target.label, argv[1], id);
	return EXIT_DONE;
}

const struct verb verb_stop = {
	.name = "stop",
	.arguments = "TARGET [--json]",
	.summary = "end the timed run now; prints its id",
	.description =
		"Ends the current run early: its profile is taken and sampling is switched off "
		"again.",
	.examples = "heapctl stop redis-server",
	.options = control_json_options,
	.complete = "@target",
	.min_operands = 1,
	.max_operands = 1,
	.run = run_stop,
};
