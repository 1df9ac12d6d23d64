/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl record: a timed run from start to file. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "base/xalloc.h"
#include "cli/attachment.h"
#include "cli/control.h"
#include "cli/sample_interval.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "client/target_resolve.h"

enum { OPTION_SAMPLE = 1 };

struct record_request {
	const char *operand;
	int64_t duration_ms;
	const char *path, *start_path;
	int lg_sample;
	bool may_discard, may_attach;
	bool detaches; /* at the end: sampling does not stay on */
};

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

/* A profile that cannot be saved here is not lost: the agent has it. */
static bool save(const struct target *target, int64_t id, const char *which, struct output *output,
	struct error *err)
{
	if (control_save_run(target, id, which, output, err))
		return true;
	if ((err->hint[0] == '\0' || err->errnum == ENOSPC || err->errnum == EDQUOT) &&
		target->process.pid != 0)
		error_hint(err, "the agent has it: heapctl runs %d --save %" PRId64 " -o FILE",
			(int)target->process.pid, id);
	return false;
}

static bool is_yes(void)
{
	char answer[16] = "";

	return fgets(answer, sizeof answer, stdin) != NULL && (*answer == 'y' || *answer == 'Y');
}

/* Samples that are lost do not come back: --discard, or a person, has to agree. */
static bool agree_to_discard(
	const struct target *target, const struct record_request *request, struct error *err)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	struct sample_count samples;

	if (request->lg_sample == SAMPLE_LG_KEEP || request->may_discard)
		return true;
	if (!agent_get(target, "/v1/profile", &answer, err))
		return false;
	if (!sample_count_read(buffer_string(&answer.body), &samples) || samples.count == 0 ||
		samples.interval_bytes == UINT64_C(1) << request->lg_sample)
		return true;
	if (isatty(STDIN_FILENO) == 1 && isatty(STDERR_FILENO) == 1) {
		fprintf(stderr,
			"%s has %" PRIu64 " sample%s, which --sample discards. Continue? [y/N] ",
			target->label, samples.count, samples.count == 1 ? "" : "s");
		if (is_yes())
			return true;
	}
	error_set(err, ERROR_STATE, "%s has %" PRIu64 " sample%s, which --sample would discard",
		target->label, samples.count, samples.count == 1 ? "" : "s");
	return error_hint(err, "save them with heapctl dump, then add --discard");
}

/* The interval that the target has already needs no change, and no sample is lost. */
static bool choose_interval(const struct target *target, const struct record_request *request,
	int *lg_sample, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	*lg_sample = request->lg_sample;
	if (request->lg_sample == SAMPLE_LG_KEEP)
		return true;
	if (!agent_check_profiling(target, &status, err))
		return false;
	if (json_number(status, "profiling.lg_sample") == request->lg_sample)
		*lg_sample = SAMPLE_LG_KEEP;
	return true;
}

static bool has_older(const struct profile_run *run)
{
	return !run->was_reset && (run->was_active || run->older_count > 0);
}

/* Where the profile has older samples, too, the start profile is saved beside it. */
static bool open_start(const struct record_request *request, const struct profile_run *run,
	const struct output *end, struct output *start, struct error *err)
{
	if (request->start_path != NULL || !has_older(run) || end->is_stdout)
		return true;
	CLEANUP(free_cleanup) char *path = xasprintf("%s.before", output_name(end));
	return output_open(path, "", "", start, err);
}

static void explain(const struct target *target, const struct record_request *request,
	const struct profile_run *run, const struct output *start, const struct output *end)
{
	const char *const later = request->detaches ? "ends with the detach" : "stays on";
	struct sample_yield yield = { .duration_ms = clock_monotonic_ms() - run->begun_ms,
		.was_lowered = run->was_reset,
		.older_count = run->was_active ? 0 : run->older_count,
		.was_active = run->was_active };

	if (run->was_active && run->was_reset)
		fprintf(stderr, "sampling was on before and %s; its samples are discarded\n",
			later);
	else if (has_older(run) && start->draft.path[0] != '\0')
		fprintf(stderr,
			"sampling was on before%s%s: %s has older samples, too; what this "
			"recording added: heapctl diff %s %s\n",
			run->was_active ? " and " : "", run->was_active ? later : "",
			output_name(end), output_name(start), output_name(end));
	if (end->is_stdout || !sample_count_of_file(output_name(end), &yield.samples))
		return;
	sample_yield_measure(&yield, target, run->allocated_bytes);
	sample_yield_explain(&yield, target);
}

static bool record(
	const struct target *target, const struct record_request *request, struct error *err)
{
	struct profile_run_request wanted = { .duration_ms = request->duration_ms };
	CLEANUP(output_discard) struct output end = { 0 };
	CLEANUP(output_discard) struct output start = { 0 };
	struct profile_run run;
	char what[160];

	/* Opened first: a name that cannot be written must not cost the time of the run. */
	if (!output_open(request->path, target->file_stem, "heap", &end, err) ||
		(request->start_path != NULL &&
			!output_open(request->start_path, "", "", &start, err)) ||
		!choose_interval(target, request, &wanted.lg_sample, err) ||
		(wanted.lg_sample != SAMPLE_LG_KEEP && !agree_to_discard(target, request, err)))
		return false;
	terminal_catch_interrupts();
	if (!profile_run_start_own(target, &wanted, &run, err) ||
		!open_start(request, &run, &end, &start, err))
		return false;
	snprintf(what, sizeof what, "recording %s", target->label);
	if (!control_wait_for_run(target, run.id, request->duration_ms, what, err))
		return false;
	if ((start.is_stdout || start.draft.path[0] != '\0') &&
		!save(target, run.id, "start", &start, err))
		return false;
	if (!save(target, run.id, "profile", &end, err))
		return false;
	explain(target, request, &run, &start, &end);
	return true;
}

/* Sampling begins with the run, so that there is nothing to discard. */
static bool record_attached(struct record_request *request, struct error *err)
{
	const struct attach_request wanted = { .lg_sample = request->lg_sample };
	CLEANUP(json_cleanup) json_t *answer = NULL;
	struct entry_result restored;
	struct attachment attachment;
	struct process process;
	struct error ignored;

	if (!process_find(request->operand, &process, err) ||
		!attachment_make(&process, &wanted, &attachment, err))
		return false;
	fprintf(stderr, "%s: attached; one thread stood still for %.1f ms\n",
		attachment.target.label, (double)attachment.stop_us / 1000);
	request->lg_sample = SAMPLE_LG_KEEP;
	request->detaches = true;
	const bool done = record(&attachment.target, request, err);
	if (attachment_end(&attachment.target, &answer, &restored, done ? err : &ignored))
		fprintf(stderr, "%s: detached\n", attachment.target.label);
	else if (done)
		return error_prefix(err, "the profile is saved, but detaching failed");
	return done;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct record_request request = { .duration_ms = DURATION_DEFAULT_RUN_MS,
		.lg_sample = SAMPLE_LG_KEEP };
	struct option_parser parser;
	struct target target;
	struct error err;

	option_begin(&parser, verb, argc, argv, &request);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id != OPTION_SAMPLE || !sample_interval_option(&parser, &request.lg_sample))
			return parser.exit_code;
	}
	if (request.may_discard && request.lg_sample == SAMPLE_LG_KEEP)
		return verb_usage(verb, "--discard goes with --sample");
	request.operand = parser.operands[0];
	const bool is_there = target_resolve(request.operand, &target, &err);
	if (!is_there && (!request.may_attach || err.kind != ERROR_NOT_FOUND))
		return verb_fail(&err);
	if (!(is_there ? record(&target, &request, &err) : record_attached(&request, &err)))
		return verb_fail(&err);
	return EXIT_DONE;
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
		"was recorded.\n\n"
		"A profile needs a hundred samples or more. --sample changes the interval for this "
		"recording and restores the former one afterwards. Each change discards all "
		"samples, "
		"and with jemalloc each thread first allocates as much as the former interval "
		"before the new one takes effect.\n\n"
		"--attach records a process that was started without heapctl: see heapctl attach.",
	.examples = "heapctl record redis-server --duration 30s -o redis.heap\n"
		    "# what was allocated meanwhile and is still alive\n"
		    "heapctl record 4711 -d 5mins --start-profile a.heap -o b.heap\n"
		    "heapctl diff a.heap b.heap\n"
		    "# a server that allocates little\n"
		    "heapctl record 4711 -d 30s --sample 16KiB\n"
		    "# a process that was started without the agent\n"
		    "heapctl record 4711 --attach -d 30s",
	.options = options,
	VERB_OF_ONE_TARGET,
	.run = run,
};
