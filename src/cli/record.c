/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl record: a timed run from start to file. */
#include <stdio.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/control.h"
#include "cli/record_tree.h"
#include "cli/timed_recording.h"
#include "cli/sample_interval.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "client/target_resolve.h"

enum { OPTION_SAMPLE = 1 };

static const struct verb_option options[] = {
	{ 0, "duration", 'd', "TIME", .help = "how long, 1s to 24hrs; default 5mins",
		.complete = "10s 30s 1mins 5mins 1hrs",
		OPTION_DURATION(struct record_request, duration_ms) },
	{ 0, "output", 'o', "FILE",
		.help = "write there; - is standard output; default is a name made of target and "
			"time",
		.complete = "@file", OPTION_TEXT(struct record_request, path) },
	{ 0, "start-profile", 0, "FILE",
		.help = "also save the profile taken at the start, so that heapctl diff FILE "
			"OUTPUT shows what was allocated meanwhile and is still alive",
		.complete = "@file", OPTION_TEXT(struct record_request, start_path) },
	{ OPTION_SAMPLE, "sample", 0, "BYTES",
		.help = "one sample per this number of bytes on average, for this recording; "
			"discards existing samples",
		.complete = "4KiB 16KiB 64KiB 512KiB" },
	{ .name = "attach",
		.help = "a process without an agent: attach one first, and detach it at the end",
		OPTION_SWITCH(struct record_request, may_attach) },
	{ .name = "discard",
		.help = "with --sample: do not ask before discarding",
		OPTION_SWITCH(struct record_request, may_discard) },
	{ 0 },
};

static void explain(const struct record_request *request, const struct timed_recording *recording)
{
	const struct profile_run *const run = &recording->run;
	const struct output *const end = &recording->end;
	const char *const later = request->detaches ? "ends with the detach" : "stays on";
	struct sample_yield yield = { .duration_ms = clock_monotonic_ms() - run->begun_ms,
		.was_lowered = run->was_reset,
		.older_count = run->was_active ? 0 : run->older_count,
		.was_active = run->was_active };

	if (run->was_active && run->was_reset)
		fprintf(stderr, "sampling was on before and %s; its samples are discarded\n",
			later);
	else if (timed_recording_has_older(recording) && recording->has_start &&
		 output_is_file(&recording->start) && output_is_file(end))
		fprintf(stderr,
			"sampling was on before%s%s: %s has older samples, too; what this "
			"recording added: heapctl diff %s %s\n",
			run->was_active ? " and " : "", run->was_active ? later : "",
			output_name(end), output_name(&recording->start), output_name(end));
	else if (timed_recording_has_older(recording) && request->start_path == NULL)
		fprintf(stderr,
			"sampling was on before%s%s: %s has older samples, too; no profile of the "
			"start is saved beside a pipe, a device or a descriptor (--start-profile "
			"FILE saves one)\n",
			run->was_active ? " and " : "", run->was_active ? later : "",
			output_name(end));
	if (!output_is_file(end) || !sample_count_of_file(output_name(end), &yield.samples))
		return;
	sample_yield_measure(&yield, &recording->target, run->allocated_bytes);
	sample_yield_explain(&yield, &recording->target);
}

static bool agree_to_discard(
	const struct target *target, const struct record_request *request, struct error *err)
{
	uint64_t count;

	return request->may_discard ||
	       (timed_recording_count_discarded(target, request->lg_sample, &count, err) &&
		       timed_recording_agree_to_discard(request, target->label, count, err));
}

/* Of another command, where ours could not begin. */
static bool has_run(const struct target *target)
{
	CLEANUP(json_cleanup) json_t *status = NULL;
	struct error ignored;

	return agent_call_json(target, "GET", "/v1/status", &status, &ignored) &&
	       json_is_object(json_at(status, "run"));
}

/* Why the agent has to stay where recording fails. */
struct kept_agent {
	bool has_profile; /* that could not be saved, or its run continues */
	bool has_other_run;
};

static bool record(struct timed_recording *recording, const struct record_request *request,
	struct kept_agent *kept, struct error *err)
{
	const struct target *const target = &recording->target;
	char what[160];

	if (!agree_to_discard(target, request, err))
		return false;
	/* The agent that was loaded for this must not stay. */
	if (request->detaches)
		terminal_catch_interrupts();
	else
		control_begin_run();
	const bool has_begun = timed_recording_begin(request, recording, err);
	control_run_has_begun();
	if (!has_begun) {
		kept->has_other_run =
			recording->run.id == 0 && err->kind == ERROR_STATE && has_run(target);
		return false;
	}
	snprintf(what, sizeof what, "recording %s", target->label);
	if (!control_wait_for_run(target, recording->run.id, request->duration_ms, what, err)) {
		kept->has_profile = err->kind == ERROR_TIMEOUT;
		return false;
	}
	if (!timed_recording_save(recording, err)) {
		kept->has_profile = recording->is_kept;
		return false;
	}
	explain(request, recording);
	return true;
}

/* Sampling begins with the run, so that there is nothing to discard. */
static bool record_attached(struct record_request *request, struct error *err)
{
	CLEANUP(timed_recording_deinit) struct timed_recording recording = { .is_attached = true };
	struct target target = { .kind = TARGET_AGENT };
	struct kept_agent kept = { 0 };
	struct error ignored;

	if (!process_find(request->operand, &target.process, err))
		return false;
	target_set_names(&target);
	if (!timed_recording_open(&target, request, &recording, err) ||
		!timed_recording_attach(request, &recording.target, err))
		return false;
	request->lg_sample = SAMPLE_LG_KEEP;
	request->detaches = true;
	const bool done = record(&recording, request, &kept, err);
	if (kept.has_profile || kept.has_other_run) {
		verb_warn("%s stays attached, because %s (heapctl detach %d takes it out)",
			recording.target.label,
			kept.has_profile ? "its agent has the profile"
					 : "another command records it",
			(int)target.process.pid);
		return false;
	}
	if (!timed_recording_detach(&recording.target, done ? err : &ignored) && done)
		return error_prefix(err, "the profile is saved, but detaching failed");
	return done;
}

static bool record_one(struct record_request *request, struct error *err)
{
	CLEANUP(timed_recording_deinit) struct timed_recording recording = { 0 };
	struct kept_agent ignored = { 0 };
	struct target target;

	if (target_resolve(request->operand, &target, err))
		return timed_recording_open(&target, request, &recording, err) &&
		       record(&recording, request, &ignored, err);
	return request->may_attach && err->kind == ERROR_NOT_FOUND && record_attached(request, err);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct record_request request = { .duration_ms = DURATION_DEFAULT_RUN_MS,
		.lg_sample = SAMPLE_LG_KEEP };
	struct option_parser parser;
	struct error err;

	option_begin(&parser, verb, argc, argv, &request);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id != OPTION_SAMPLE || !sample_interval_option(&parser, &request.lg_sample))
			return parser.exit_code;
	}
	if (request.may_discard && request.lg_sample == SAMPLE_LG_KEEP)
		return verb_usage(verb, "--discard goes with --sample");
	request.operand = parser.operands[0];
	const bool done = target_tree_detect(request.operand) ? record_tree(&request, &err)
							      : record_one(&request, &err);
	return done ? EXIT_DONE : verb_fail(&err);
}

const struct verb verb_record = {
	.name = "record",
	.arguments = "TARGET [--attach] [--duration TIME] [--sample BYTES] [-o FILE]",
	.summary = "sample for some time and save the profile",
	.description =
		"Starts a run, waits for its end and saves its profile: the sampled memory that is "
		"in use then. Ctrl-C ends the run early and saves its profile, and so does a "
		"terminal that disconnects, unless nohup started heapctl; a run of heapctl start "
		"needs no terminal. If heapctl is "
		"killed, the run still ends on time, and `heapctl runs` has its profile.\n\n"
		"If sampling is on already it stays on. Then, and where it was on before, the "
		"profile also has older samples, "
		"and the profile from the start is saved as FILE.before: the difference is what "
		"was recorded. There is none beside a pipe, a device or a descriptor such as "
		"standard output.\n\n"
		"A profile needs a hundred samples or more. --sample changes the interval for this "
		"recording and restores the former one afterwards. Each change discards all "
		"samples, "
		"and with jemalloc each thread first allocates as much as the former interval "
		"before the new one takes effect.\n\n"
		"--attach records a process that was started without heapctl: see heapctl "
		"attach.\n\n"
		"TARGET:* means the processes that TARGET names and all their descendants, also "
		"those that begin meanwhile, which are recorded until the same end. Each gets a "
		"file, which heapctl report FILE... adds up; -o FILE is their sum, with the names "
		"of functions. A process that ends before the recording has nothing in use, and "
		"is reported and left out, as is one that has no agent or does not answer.",
	.examples = "heapctl record redis-server --duration 30s -o redis.heap\n"
		    "# what was allocated meanwhile and is still alive\n"
		    "heapctl record 4711 -d 5mins --start-profile a.heap -o b.heap\n"
		    "heapctl diff a.heap b.heap\n"
		    "# a server that allocates little\n"
		    "heapctl record 4711 -d 30s --sample 16KiB\n"
		    "# a process that was started without the agent\n"
		    "heapctl record 4711 --attach -d 30s\n"
		    "# all processes of a server that forks, added up\n"
		    "heapctl record 'redis-server:*' -d 30s -o sum.heap",
	.options = options,
	VERB_OF_ONE_TARGET,
	.run = run,
};
