/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl attach, heapctl detach: the agent into a running process, and out of it again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/quantity.h"
#include "cli/attachment.h"
#include "cli/control.h"
#include "cli/sample_interval.h"
#include "cli/verb.h"

enum { OPTION_INTERVAL = 1 };

struct attach_command {
	int lg_sample;
	bool is_inactive, is_forced, as_json;
};

static const struct verb_option options[] = {
	{ OPTION_INTERVAL, "interval", .argument = "BYTES",
		.help = "one sample per this number of bytes on average; default 512KiB",
		.complete = "64KiB 512KiB 2MiB" },
	{ .name = "inactive",
		.help = "do not switch sampling on",
		OPTION_SWITCH(struct attach_command, is_inactive) },
	{ .name = "force",
		.help = "also a program in a sandbox (seccomp) or with more rights than its user; "
			"the sandbox may kill it for that",
		OPTION_SWITCH(struct attach_command, is_forced) },
	{ .name = "json", .help = "print JSON", OPTION_SWITCH(struct attach_command, as_json) },
	{ 0 },
};

static void print_attached(const struct attachment *attachment, bool is_active)
{
	printf("%s: attached; one thread stood still for %.1f ms\n", attachment->target.label,
		(double)attachment->stop_us / 1000);
	if (attachment->stops > 1)
		printf("%d others were stopped before, where none could be used: %.1f ms in all, "
		       "%.1f ms the longest\n",
			attachment->stops - 1, (double)attachment->total_stop_us / 1000,
			(double)attachment->max_stop_us / 1000);
	printf("%s\n", is_active ? "sampling is on: profiles show what is allocated from now on"
				 : "sampling is off: heapctl activate switches it on");
	printf("heapctl detach %d takes the agent out again\n",
		(int)attachment->target.process.pid);
}

static int run_attach(const struct verb *verb, int argc, char **argv)
{
	struct attach_command command = { .lg_sample = SAMPLE_LG_KEEP };
	struct attachment attachment;
	struct option_parser parser;
	struct process process;
	struct error err;

	option_begin(&parser, verb, argc, argv, &command);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id != OPTION_INTERVAL || !sample_interval_option(&parser, &command.lg_sample))
			return parser.exit_code;
	}
	const struct attach_request request = { .lg_sample = command.lg_sample,
		.is_active = !command.is_inactive,
		.is_forced = command.is_forced };
	if (!process_find(parser.operands[0], &process, &err) ||
		!attachment_make(&process, &request, &attachment, &err))
		return verb_fail(&err);
	if (!command.as_json) {
		print_attached(&attachment, request.is_active);
		return EXIT_DONE;
	}
	CLEANUP(json_cleanup)
	json_t *value = json_pack("{s:i, s:s, s:b, s:I, s:I, s:I, s:i}", "pid",
		(int)attachment.target.process.pid, "name", attachment.target.process.name,
		"active", request.is_active, "stop_us", (json_int_t)attachment.stop_us,
		"max_stop_us", (json_int_t)attachment.max_stop_us, "total_stop_us",
		(json_int_t)attachment.total_stop_us, "stops", attachment.stops);
	control_print_json(value);
	return EXIT_DONE;
}

static int run_detach(const struct verb *verb, int argc, char **argv)
{
	struct target target;
	struct error err;
	bool as_json = false;
	int exit_code;

	if (!control_parse_target(verb, argc, argv, &target, &as_json, &exit_code))
		return exit_code;
	CLEANUP(json_cleanup) json_t *answer = NULL;
	if (!attachment_end(&target, &answer, &err))
		return verb_fail(&err);
	if (as_json)
		control_print_json(answer);
	else
		printf("%s: detached; the library stays mapped, unused\n", target.label);
	return EXIT_DONE;
}

const struct verb verb_attach = {
	.name = "attach",
	.arguments = "TARGET [--interval BYTES] [--inactive] [--force] [--json]",
	.summary = "load the agent into a running process",
	.description =
		"Loads the agent into a process that was started without it, and samples what it "
		"allocates from then on. One thread of the process is stopped for about a "
		"millisecond, where its stack proves that it holds no lock; whatever fails leaves "
		"the process as it was. TARGET is a pid or the name of one process, with "
		"whatever allocator.\n\n"
		"What was allocated before is not seen. heapctl detach takes the agent out again. "
		"docs/attach.md says how it works, and what it refuses.",
	.examples = "heapctl attach 4711\n"
		    "# then every verb works as on a prepared process\n"
		    "heapctl dump 4711 -o now.heap\n"
		    "heapctl detach 4711",
	.options = options,
	.complete = "@target",
	.min_operands = 1,
	.max_operands = 1,
	.run = run_attach,
};

const struct verb verb_detach = {
	.name = "detach",
	.arguments = "TARGET [--json]",
	.summary = "take an attached agent out again",
	.description = "Ends sampling and the agent in a process that it was attached to. The "
		       "calls of malloc go straight to the allocator again. The library's code "
		       "stays mapped, because a thread may stand in it, and does nothing.",
	.examples = "heapctl detach 4711",
	.options = control_json_options,
	.complete = "@target",
	.min_operands = 1,
	.max_operands = 1,
	.run = run_detach,
};
