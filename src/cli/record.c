/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl record: a timed run from start to file. */
#include <inttypes.h>
#include <stdio.h>

#include "base/duration.h"
#include "cli/control.h"
#include "cli/profile_run.h"
#include "cli/terminal.h"
#include "cli/verbs.h"

enum { OPTION_DURATION = 1, OPTION_OUTPUT, OPTION_START };

static const struct verb_option options[] = {
	{ OPTION_DURATION, "duration", 'd', "TIME", "how long, 1s to 24hrs; default 5mins", NULL,
		"10s 30s 1mins 5mins 1hrs", false },
	{ OPTION_OUTPUT, "output", 'o', "FILE",
		"write there; - is standard output; default is a name made of target and time",
		NULL, "@file", false },
	{ OPTION_START, "start-profile", 0, "FILE",
		"also save the profile taken at the start, so that heapctl diff FILE OUTPUT shows "
		"what was allocated meanwhile and is still alive",
		NULL, "@file", false },
	{ 0 },
};

struct request {
	const char *operand;
	int64_t duration_ms;
	const char *path, *start_path;
};

/* The run was worth its time: what could not be saved here is still with the agent. */
static bool save(const struct target *target, int64_t id, const char *which, struct output *output,
	struct error *err)
{
	if (profile_run_save(target, id, which, output, err))
		return true;
	if (err->hint[0] == '\0' && target->process.pid != 0)
		error_hint(err, "the agent keeps it: heapctl runs %d --save %" PRId64 " -o FILE",
			(int)target->process.pid, id);
	return false;
}

static bool record(const struct target *target, const struct request *request, struct error *err)
{
	CLEANUP(output_cleanup) struct output end = { 0 };
	CLEANUP(output_cleanup) struct output start = { 0 };
	char what[160];
	int64_t id;

	/* Opened first: a name that cannot be written must not cost the time of the run. */
	if (!output_open(request->path, target->file_stem, "heap", &end, err) ||
		(request->start_path != NULL &&
			!output_open(request->start_path, "", "", &start, err)))
		return false;
	terminal_catch_interrupts();
	if (!profile_run_start_own(target, request->duration_ms, &id, err))
		return false;
	snprintf(what, sizeof what, "recording %s", target->label);
	if (!profile_run_wait(target, id, request->duration_ms, what, err))
		return false;
	if (request->start_path != NULL && !save(target, id, "start", &start, err))
		return false;
	return save(target, id, "profile", &end, err);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct request request = { .duration_ms = DURATION_DEFAULT_RUN_MS };
	struct option_parser parser;
	struct target target;
	struct error err;

	option_begin(&parser, verb, argc, argv);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		switch (id) {
		case OPTION_DURATION:
			if (!duration_parse_run(parser.value, &request.duration_ms, &err))
				return option_refuse_error(&parser, &err);
			break;
		case OPTION_OUTPUT:
			request.path = parser.value;
			break;
		case OPTION_START:
			request.start_path = parser.value;
			break;
		default:
			return parser.exit_code;
		}
	}
	request.operand = parser.operands[0];
	if (!target_resolve(request.operand, &target, &err) || !record(&target, &request, &err))
		return verb_fail(&err);
	return EXIT_DONE;
}

const struct verb verb_record = {
	.name = "record",
	.arguments = "TARGET [--duration TIME] [-o FILE] [--start-profile FILE]",
	.summary = "sample for some time and save the profile",
	.description =
		"Starts a run, waits for its end and saves its profile: everything that is alive "
		"then, as far as it was sampled. Ctrl-C ends the run early and saves what is "
		"there. If the terminal goes away the run is saved all the same; if heapctl is "
		"killed, the run still ends on time, and `heapctl runs` has its profile.",
	.examples = "heapctl record redis-server --duration 30s -o redis.heap\n"
		    "# what was allocated meanwhile and is still alive\n"
		    "heapctl record 4711 -d 5mins --start-profile a.heap -o b.heap\n"
		    "heapctl diff a.heap b.heap",
	.options = options,
	.complete = "@target",
	.least_operands = 1,
	.most_operands = 1,
	.run = run,
};
