/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl dump: a profile now. */
#include "cli/capture.h"
#include "cli/control.h"
#include "cli/verbs.h"

enum { OPTION_OUTPUT = 1, OPTION_BUNDLE, OPTION_SYMBOLS };

static const struct verb_option options[] = {
	{ OPTION_OUTPUT, "output", 'o', "FILE",
		"write there; - is standard output; default is a name made of target and time",
		NULL, "@file", false },
	{ OPTION_BUNDLE, "bundle", 0, NULL,
		"a tar file with the profile, statistics, memory maps, limits and versions", NULL,
		NULL, false },
	{ OPTION_SYMBOLS, "symbols", 0, NULL,
		"with --bundle: put the names of functions in, so that no binary is needed", NULL,
		NULL, false },
	{ 0 },
};

static int run(const struct verb *verb, int argc, char **argv)
{
	const char *path = NULL;
	struct option_parser parser;
	struct target target;
	struct error err;
	bool is_bundle = false, with_symbols = false;

	option_begin(&parser, verb, argc, argv);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id == OPTION_BUNDLE)
			is_bundle = true;
		else if (id == OPTION_SYMBOLS)
			with_symbols = true;
		else if (id == OPTION_OUTPUT)
			path = parser.value;
		else
			return parser.exit_code;
	}
	if (with_symbols && !is_bundle)
		return verb_usage(verb, "--symbols goes with --bundle");
	CLEANUP(output_cleanup) struct output output = { 0 };
	if (!target_resolve(parser.operands[0], &target, &err) ||
		!output_open(path, target.file_stem, is_bundle ? "tar" : "heap", &output, &err))
		return verb_fail(&err);
	const bool done = is_bundle ? capture_save(&target, with_symbols, &output, &err)
				    : control_save_profile(&target, "/v1/profile",
					      "heapctl activate, then wait; or heapctl record",
					      &output, &err);
	return done ? EXIT_DONE : verb_fail(&err);
}

const struct verb verb_dump = {
	.name = "dump",
	.arguments = "TARGET [--bundle [--symbols]] [-o FILE]",
	.summary = "take a profile now, without stopping anything",
	.description =
		"Takes a profile of what is alive now, as far as it was sampled: nothing that was "
		"allocated while sampling was off is in it. The server goes on; a thread that has "
		"to sample an allocation meanwhile may wait for some milliseconds (`heapctl "
		"status` tells how long the last dump took).\n\n"
		"The file is jemalloc's own format (heap_v2), for `heapctl report` and jeprof. A "
		"bundle holds all that heapctl's analysis works on, so that report, diff, trend "
		"and account give the same answers on another machine.",
	.examples = "heapctl dump redis-server -o now.heap\n"
		    "heapctl dump 4711 -o - | heapctl report -\n"
		    "heapctl dump 4711 --bundle --symbols -o night.tar",
	.options = options,
	.complete = "@target",
	.least_operands = 1,
	.most_operands = 1,
	.run = run,
};
