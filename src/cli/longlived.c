/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl longlived: what is allocated in a window and stays, as jemalloc's own recipe has it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/sample_interval.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "client/target_resolve.h"

enum { OPTION_SETTLE = 1 };

struct longlived_request {
	const char *operand;
	int64_t window_ms, settle_ms;
	const char *path;
};

static const struct verb_option options[] = {
	{ 0, "window", 'w', "TIME", .help = "how long to sample, 1s to 24hrs; default 30s",
		.complete = "10s 30s 1mins 5mins",
		OPTION_DURATION(struct longlived_request, window_ms) },
	{ OPTION_SETTLE, "settle", 's', "TIME",
		.help = "how long to wait afterwards, until short-lived objects are freed; default "
			"30s",
		.complete = "10s 30s 1mins 5mins" },
	{ 0, "output", 'o', "FILE",
		.help = "where to write the last profile; the first one is written to FILE.before; "
			"default is a name made of target and time",
		.complete = "@file", OPTION_TEXT(struct longlived_request, path) },
	{ 0 },
};

/* The two files, before and after. */
struct pair {
	struct output before, after;
	bool is_empty; /* the one after: nothing to compare */
};

static void pair_cleanup(struct pair *pair)
{
	output_discard(&pair->before);
	output_discard(&pair->after);
}

static bool open_pair(
	const struct target *target, const char *path, struct pair *pair, struct error *err)
{
	if (path != NULL && strcmp(path, "-") == 0) {
		error_set(err, ERROR_USAGE, "two profiles cannot both go to standard output");
		return error_hint(err, "use -o FILE");
	}
	if (!output_open(path, target->file_stem, "heap", &pair->after, err))
		return false;
	if (!output_is_file(&pair->after)) {
		error_set(err, ERROR_USAGE,
			"the first profile cannot be saved beside %s: it is a pipe, a device or a "
			"descriptor",
			output_name(&pair->after));
		return error_hint(err, "use -o FILE");
	}
	CLEANUP(free_cleanup)
	char *before = xasprintf("%s.before", output_name(&pair->after));
	return output_open(before, "", "", &pair->before, err);
}

/* Waits without sampling. An interrupt ends the waiting: the profile is taken at once. */
static void settle(const struct target *target, int64_t settle_ms)
{
	const int64_t start_ms = clock_monotonic_ms();
	char what[160];

	snprintf(what, sizeof what, "settling %s", target->label);
	for (;;) {
		const int64_t done_ms = clock_monotonic_ms() - start_ms;
		if (done_ms >= settle_ms || terminal_was_interrupted())
			break;
		terminal_progress(what, done_ms, settle_ms);
		const int64_t left_ms = settle_ms - done_ms;
		terminal_sleep_ms(left_ms < 200 ? left_ms : 200);
	}
	terminal_progress_end();
}

/* If heapctl is killed, the agent switches sampling on again. An older agent refuses the parameter.
 */
static bool pause_sampling(const struct target *target, int64_t pause_ms, struct error *err)
{
	char path[64];

	snprintf(path, sizeof path, "/v1/deactivate?duration_ms=%" PRId64,
		pause_ms < DURATION_MAX_RUN_MS ? pause_ms : DURATION_MAX_RUN_MS);
	return control_post(target, path, err) ||
	       (err->kind == ERROR_USAGE && control_post(target, "/v1/deactivate", err));
}

/* Nothing new is sampled meanwhile; sampling that was on before the window is on again afterwards.
 */
static bool settle_and_save(const struct target *target, const struct longlived_request *request,
	bool was_active, struct pair *pair, struct error *err)
{
	enum { MARGIN_MS = 5 * 1000, SAVING_MS = 60 * 1000 };
	struct error failure;

	if (was_active && !pause_sampling(target, request->settle_ms + MARGIN_MS, err))
		return false;
	settle(target, request->settle_ms);
	if (was_active && !pause_sampling(target, SAVING_MS, err))
		return false;
	const bool ok = control_save_profile(target, "/v1/profile", NULL, &pair->after, err);
	if (!was_active || control_post(target, "/v1/activate", &failure))
		return ok;
	verb_warn("%s: sampling was on before and is off now: %s (heapctl activate)", target->label,
		failure.message);
	return ok;
}

/*
 * The window is a run, which the agent ends on time whatever becomes of us; its start profile is
 * the one before.
 */
static bool collect(const struct target *target, const struct longlived_request *request,
	struct pair *pair, struct error *err)
{
	const struct profile_run_request wanted = { .duration_ms = request->window_ms,
		.lg_sample = SAMPLE_LG_KEEP };
	struct sample_yield yield = { 0 };
	struct profile_run run;
	char what[160];

	snprintf(what, sizeof what, "sampling %s", target->label);
	control_begin_run();
	const bool has_begun = profile_run_start_own(target, &wanted, &run, err);
	control_run_has_begun();
	if (!has_begun || !control_wait_for_run(target, run.id, request->window_ms, what, err))
		return false;
	yield.duration_ms = clock_monotonic_ms() - run.begun_ms;
	if (!control_save_run(target, run.id, "start", &pair->before, err) ||
		!settle_and_save(target, request, run.was_active, pair, err))
		return false;
	yield.was_active = run.was_active;
	yield.older_count = run.was_active ? 0 : run.older_count;
	if (!sample_count_of_file(output_name(&pair->after), &yield.samples))
		return true;
	sample_yield_measure(&yield, target, run.allocated_bytes);
	sample_yield_explain(&yield, target);
	pair->is_empty = yield.samples.count == 0;
	return true;
}

static int print_difference(const struct pair *pair)
{
	const struct verb *const diff = verb_find("diff");
	char name[] = "diff";
	CLEANUP(free_cleanup) char *before = xstrdup(pair->before.draft.path);
	CLEANUP(free_cleanup) char *after = xstrdup(pair->after.draft.path);
	char *arguments[] = { name, before, after, NULL };

	return diff == NULL ? EXIT_DONE : diff->run(diff, 3, arguments);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct longlived_request request = { .window_ms = 30000, .settle_ms = 30000 };
	CLEANUP(pair_cleanup) struct pair pair = { 0 };
	struct option_parser parser;
	struct target target;
	struct error err;

	option_begin(&parser, verb, argc, argv, &request);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id != OPTION_SETTLE)
			return parser.exit_code;
		if (!duration_parse(parser.value, &request.settle_ms, &err) ||
			request.settle_ms > DURATION_MAX_RUN_MS)
			return option_refuse(
				&parser, "'%s' is not a time from 0s to 24hrs", parser.value);
	}
	request.operand = parser.operands[0];
	if (!target_resolve(request.operand, &target, &err) ||
		!open_pair(&target, request.path, &pair, &err) ||
		!collect(&target, &request, &pair, &err))
		return verb_fail(&err);
	return pair.is_empty ? EXIT_DONE : print_difference(&pair);
}

const struct verb verb_longlived = {
	.name = "longlived",
	.arguments = "TARGET [--window TIME] [--settle TIME] [-o FILE]",
	.summary = "find long-lived memory that is allocated now",
	.description =
		"Follows jemalloc's recipe for objects that live long: takes a profile, samples "
		"for the window, stops sampling, waits until short-lived objects are freed, takes "
		"another profile and prints the difference: what was allocated in the window and "
		"survived the wait.\n\n"
		"Both profiles are saved. Ctrl-C ends the current step early. Sampling that was "
		"on before is switched off for the wait only.",
	.examples = "heapctl longlived redis-server --window 30s --settle 1mins",
	.options = options,
	VERB_OF_ONE_TARGET,
	.run = run,
};
