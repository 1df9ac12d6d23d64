/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl attach, heapctl detach: the agent into a running process, and out of it again. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "cli/attachment.h"
#include "cli/control.h"
#include "cli/sample_interval.h"
#include "cli/verb.h"

enum { OPTION_INTERVAL = 1, OPTION_METHOD };

struct attach_command {
	int lg_sample;
	enum attach_method method;
	bool wants_mapped, is_inactive, is_forced, as_json;
};

static const struct verb_option options[] = {
	{ OPTION_INTERVAL, "interval", .argument = "BYTES",
		.help = "one sample per this number of bytes on average; default 512KiB, or what "
			"a jemalloc that samples itself was started with; put back by heapctl "
			"detach",
		.complete = "64KiB 512KiB 2MiB" },
	{ OPTION_METHOD, "method", .argument = "auto|got|entry",
		.help = "how calls of the allocator are seen: got, by the tables through which "
			"modules call each other; entry, by jumps in the allocator's functions, "
			"which also shows an allocator that is linked into the program; auto, the "
			"default, chooses entry for such a program",
		.complete = "auto got entry" },
	{ .name = "mapped",
		.help = "sample what the program maps itself, too: buffers from mmap, frames named "
			"mmap; where heapctl samples, by the method got",
		OPTION_SWITCH(struct attach_command, wants_mapped) },
	{ .name = "inactive",
		.help = "do not switch sampling on",
		OPTION_SWITCH(struct attach_command, is_inactive) },
	{ .name = "force",
		.help = "also a program in a sandbox (seccomp), with more rights than its user, "
			"with a library that was cut, or in a control group at its limit of "
			"memory; any of them may end it",
		OPTION_SWITCH(struct attach_command, is_forced) },
	{ .name = "json", .help = "print JSON", OPTION_SWITCH(struct attach_command, as_json) },
	{ 0 },
};

static void print_attached(const struct attachment *attachment, bool is_active)
{
	const struct entry_result *const entries = &attachment->entries;
	const struct error *const problem = &attachment->problem;

	printf("%s: attached; one thread stood still for %.1f ms\n", attachment->target.label,
		(double)attachment->stop_us / 1000);
	if (attachment->stops > 1)
		printf("it took %d stops to find a thread that could be used: %.1f ms in all, "
		       "%.1f ms the longest\n",
			attachment->stops, (double)attachment->total_stop_us / 1000,
			(double)attachment->max_stop_us / 1000);
	if (entries->functions > 0)
		printf("%zu functions of %s are patched; all %d threads stood still for %.1f ms\n",
			entries->functions, attachment->entries_in, entries->threads,
			(double)entries->stop_us / 1000);
	if (problem->kind != ERROR_NONE)
		printf("sampling cannot be switched on: %s%s%s%s\n", problem->message,
			problem->hint[0] == '\0' ? "" : " (", problem->hint,
			problem->hint[0] == '\0' ? "" : ")");
	else
		printf("%s\n",
			is_active ? "sampling is on: profiles show what is allocated from now on"
				  : "sampling is off: heapctl activate switches it on");
	printf("heapctl detach %d takes the agent out again\n",
		(int)attachment->target.process.pid);
}

static bool read_method(struct option_parser *parser, enum attach_method *method)
{
	static const char *const words[] = {
		[ATTACH_AUTO] = "auto", [ATTACH_GOT] = "got", [ATTACH_ENTRY] = "entry"
	};

	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		if (strcmp(parser->value, words[i]) == 0) {
			*method = (enum attach_method)i;
			return true;
		}
	}
	option_refuse(parser, "'%s' is not auto, got or entry", parser->value);
	return false;
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
		if (id == OPTION_STOP ||
			(id == OPTION_INTERVAL &&
				!sample_interval_option(&parser, &command.lg_sample)) ||
			(id == OPTION_METHOD && !read_method(&parser, &command.method)))
			return parser.exit_code;
	}
	const struct attach_request request = { .method = command.method,
		.lg_sample = command.lg_sample,
		.wants_mapped = command.wants_mapped,
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
	json_t *value = json_pack("{s:i, s:s, s:b, s:I, s:I, s:I, s:i, s:I, s:o, s:I, s:o}", "pid",
		(int)attachment.target.process.pid, "name", attachment.target.process.name,
		"active", request.is_active, "stop_us", (json_int_t)attachment.stop_us,
		"max_stop_us", (json_int_t)attachment.max_stop_us, "total_stop_us",
		(json_int_t)attachment.total_stop_us, "stops", attachment.stops, "entries",
		(json_int_t)attachment.entries.functions, "entries_in",
		control_json_text(attachment.entries_in), "all_stop_us",
		(json_int_t)attachment.entries.stop_us, "problem",
		control_json_text(
			attachment.problem.kind == ERROR_NONE ? "" : attachment.problem.message));
	control_print_json(value);
	return EXIT_DONE;
}

static void print_detached(
	const struct target *target, const json_t *answer, const struct entry_result *restored)
{
	const int64_t mapped_bytes = json_number(answer, "mapped_bytes");
	const int64_t taken_slots = json_number(answer, "taken_slots");

	/* An agent of another version may not say it. */
	if (mapped_bytes > 0)
		printf("%s: detached; %" PRId64 " bytes of the library stay mapped, unused\n",
			target->label, mapped_bytes);
	else
		printf("%s: detached; the library stays mapped, unused\n", target->label);
	if (taken_slots > 0)
		printf("slots of calls between modules that another tool has changed since, and "
		       "that were left: %" PRId64 "\n",
			taken_slots);
	if (restored->functions > 0)
		printf("%zu functions are restored; all %d threads stood still for %.1f ms\n",
			restored->functions, restored->threads, (double)restored->stop_us / 1000);
	if (restored->foreign > 0)
		printf("%zu functions were left: another tool has patched them since\n",
			restored->foreign);
	if (restored->functions > 0 && !restored->is_unused)
		printf("%d bytes of code behind them stay: a thread may execute them\n",
			ENTRY_AREA_BYTES);
}

static int run_detach(const struct verb *verb, int argc, char **argv)
{
	struct entry_result restored;
	struct target target;
	struct error err;
	bool as_json = false;
	int exit_code;

	if (!control_parse_target(verb, argc, argv, &target, &as_json, &exit_code))
		return exit_code;
	CLEANUP(json_cleanup) json_t *answer = NULL;
	if (!attachment_end(&target, &answer, &restored, &err))
		return verb_fail(&err);
	if (as_json)
		control_print_json(answer);
	else
		print_detached(&target, answer, &restored);
	return EXIT_DONE;
}

const struct verb verb_attach = {
	.name = "attach",
	.arguments = "TARGET [--interval BYTES] [--method M] [--mapped] [--inactive] [--force] "
		     "[--json]",
	.summary = "load the agent into a running process",
	.description =
		"Loads the agent into a process that was started without it, and samples what it "
		"allocates from then on. One thread of the process is stopped for about a "
		"millisecond, where its stack proves that it holds no lock; whatever fails leaves "
		"the process as it was. TARGET is a pid or the name of one process, with "
		"any allocator.\n\n"
		"What was allocated before is not seen. heapctl detach takes the agent out again. "
		"docs/attach.md says how it works, and what it refuses.",
	.examples = "heapctl attach 4711\n"
		    "# then every verb works as on a prepared process\n"
		    "heapctl dump 4711 -o now.heap\n"
		    "heapctl detach 4711",
	.options = options,
	VERB_OF_ONE_TARGET,
	.run = run_attach,
};

const struct verb verb_detach = {
	.name = "detach",
	.arguments = "TARGET [--json]",
	.summary = "take an attached agent out again",
	.description = "Ends sampling and the agent in a process that it was attached to. The "
		       "calls of malloc go straight to the allocator again. The library's code "
		       "stays mapped, because a thread may still execute it, and does nothing.",
	.examples = "heapctl detach 4711",
	.options = control_json_options,
	VERB_OF_ONE_TARGET,
	.run = run_detach,
};
