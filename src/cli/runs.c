/* SPDX-License-Identifier: Apache-2.0 */
/* Timed runs: heapctl start and stop without waiting, heapctl runs for what they recorded. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "cli/control.h"
#include "cli/sample_interval.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "render/quantity.h"
#include "client/target_resolve.h"

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
	VERB_OF_ONE_TARGET,
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
	VERB_OF_ONE_TARGET,
	.run = run_stop,
};

struct runs_request {
	bool as_json;
	int64_t save, remove; /* ids; 0 for none */
	const char *path, *start_path;
};

static const struct verb_option runs_options[] = {
	{ .name = "json", .help = "print JSON", OPTION_SWITCH(struct runs_request, as_json) },
	{ 0, "save", 0, "ID", .help = "save the profile that this run took at its end",
		OPTION_NUMBER(struct runs_request, save, 1, INT64_MAX) },
	{ 0, "output", 'o', "FILE", .help = "where to save it; - is standard output",
		.complete = "@file", OPTION_TEXT(struct runs_request, path) },
	{ 0, "start-profile", 0, "FILE",
		.help = "with --save: also save the profile taken at the run's start, for heapctl "
			"diff",
		.complete = "@file", OPTION_TEXT(struct runs_request, start_path) },
	{ 0, "remove", 0, "ID", .help = "delete this run and its profiles",
		OPTION_NUMBER(struct runs_request, remove, 1, INT64_MAX) },
	{ 0 },
};

static void format_bytes(int64_t bytes, char text[32])
{
	strcpy(text, "-");
	if (bytes > 0)
		strcpy(text, quantity_format(QUANTITY_BYTES, (double)bytes, false).text);
}

/* "finished", "running, 12 s left", "failed: ..." and what makes its profile doubtful. */
static void describe_state(const json_t *run, char *text, size_t size)
{
	const char *const state = json_text(run, "state");
	const int64_t gaps = json_number(run, "sampling_gaps");
	const int64_t resets = json_number(run, "resets");
	char left[DURATION_TEXT_BYTES];
	int used;

	if (strcmp(state, "running") == 0)
		used = snprintf(text, size, "running, %s left",
			duration_format(json_number(run, "remaining_ms"), left));
	else if (strcmp(state, "failed") == 0)
		used = snprintf(text, size, "failed: %s", json_text(run, "error"));
	else if (strcmp(json_text(run, "ended_by"), "deadline") == 0)
		used = snprintf(text, size, "finished");
	else
		used = snprintf(text, size, "finished (%s)", json_text(run, "ended_by"));
	if (gaps > 0 && (size_t)used < size)
		used += snprintf(text + used, size - (size_t)used,
			"; sampling was off %" PRId64 " times meanwhile", gaps);
	if (resets > 0 && (size_t)used < size)
		snprintf(text + used, size - (size_t)used,
			"; samples were discarded %" PRId64 " times", resets);
}

static void add_row(struct table *table, const json_t *run)
{
	char id[24], begun[CONTROL_TIME_BYTES], length[DURATION_TEXT_BYTES], interval[32],
		profile[32], state[400];
	const bool is_running = strcmp(json_text(run, "state"), "running") == 0;
	const int64_t ended_ms = json_number(run, "ended_ms");
	const int64_t took_ms = is_running || ended_ms == 0
					? json_number(run, "duration_ms")
					: ended_ms - json_number(run, "started_ms");

	snprintf(id, sizeof id, "%" PRId64, json_number(run, "id"));
	control_format_time(json_number(run, "started_ms"), begun);
	duration_format(took_ms, length);
	format_bytes(json_number(run, "sample_interval"), interval);
	format_bytes(json_number(run, "profile_bytes"), profile);
	describe_state(run, state, sizeof state);
	table_add(table, is_running ? TERMINAL_GOOD : TERMINAL_PLAIN,
		(const char *[]){ id, begun, length, interval, profile, state });
}

static bool list(const struct target *target, bool as_json, struct error *err)
{
	CLEANUP(json_cleanup) json_t *answer = NULL;
	CLEANUP(table_cleanup) struct table *table = table_new("lrrrrl");
	size_t index;
	json_t *run;

	if (!agent_call_json(target, "GET", "/v1/runs", &answer, err))
		return false;
	if (as_json) {
		control_print_json(answer);
		return true;
	}
	const json_t *const list_of_runs = json_at(answer, "runs");
	if (json_array_size(list_of_runs) == 0) {
		printf("%s: no runs yet (heapctl start, heapctl record)\n", target->label);
		return true;
	}
	table_add(table, TERMINAL_BOLD,
		(const char *[]){ "ID", "BEGUN", "LENGTH", "INTERVAL", "PROFILE", "STATE" });
	json_array_foreach(list_of_runs, index, run) add_row(table, run);
	table_print(table, true, stdout);
	return true;
}

static bool save(const struct target *target, const struct runs_request *request, struct error *err)
{
	CLEANUP(output_discard) struct output end = { 0 };
	CLEANUP(output_discard) struct output start = { 0 };

	if (!output_open(request->path, target->file_stem, "heap", &end, err))
		return false;
	if (request->start_path == NULL)
		return control_save_run(target, request->save, "profile", &end, err);
	struct error later;
	if (!output_open_other(request->start_path, &end, &start, err))
		return false;
	const bool has_start = control_save_run(target, request->save, "start", &start, err);
	/* The one is of use without the other. */
	return control_save_run(target, request->save, "profile", &end, has_start ? err : &later) &&
	       has_start;
}

static bool remove_run(const struct target *target, int64_t id, struct error *err)
{
	char path[64];

	snprintf(path, sizeof path, "/v1/runs/%" PRId64 "/remove", id);
	return control_post(target, path, err);
}

static int run_runs(const struct verb *verb, int argc, char **argv)
{
	struct runs_request request = { 0 };
	struct option_parser parser;
	struct target target;
	struct error err;

	if (!option_parse(&parser, verb, argc, argv, &request))
		return parser.exit_code;
	if (request.save == 0 && (request.path != NULL || request.start_path != NULL))
		return verb_usage(verb, "-o and --start-profile go with --save ID");
	if (!target_resolve(parser.operands[0], &target, &err))
		return verb_fail(&err);
	if (request.save != 0 && !save(&target, &request, &err))
		return verb_fail(&err);
	if (request.remove != 0 && !remove_run(&target, request.remove, &err))
		return verb_fail(&err);
	if (request.save == 0 && request.remove == 0 && !list(&target, request.as_json, &err))
		return verb_fail(&err);
	return EXIT_DONE;
}

const struct verb verb_runs = {
	.name = "runs",
	.arguments = "TARGET [--json] [--save ID [-o FILE]] [--remove ID]",
	.summary = "list finished and current runs, save their profiles",
	.description = "Lists the runs that the agent keeps, oldest first, the current one last. "
		       "LENGTH is how long it took, INTERVAL the sampling interval, PROFILE the "
		       "size of its profile.",
	.examples = "heapctl runs redis-server\n"
		    "heapctl runs redis-server --save 1763716881123 -o run.heap",
	.options = runs_options,
	VERB_OF_ONE_TARGET,
	.run = run_runs,
};
