/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl dump: a profile now. */
#include <stdio.h>

#include "analysis/allocator_frames.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/profile_sum.h"
#include "cli/report_session.h"
#include "cli/verb.h"
#include "client/target_tree.h"
#include "profile/raw_write.h"
#include "profile/symbolized.h"
#include "render/quantity.h"
#include "source/source.h"
#include "client/target_resolve.h"

struct dump_request {
	const char *path;
	bool is_bundle, with_symbols;
};

static const struct verb_option options[] = {
	{ 0, "output", 'o', "FILE",
		.help = "write there; - is standard output; default is a name made of target and "
			"time",
		.complete = "@file", OPTION_TEXT(struct dump_request, path) },
	{ .name = "bundle",
		.help = "a tar file with the profile, statistics, memory maps, limits and "
			"versions",
		OPTION_SWITCH(struct dump_request, is_bundle) },
	{ .name = "symbols",
		.help = "with --bundle: include the names of functions, so that no binary is "
			"needed",
		OPTION_SWITCH(struct dump_request, with_symbols) },
	{ 0 },
};

/* All functions of a process of this machine by name, so that the binaries are not needed. */
static bool add_names(pid_t pid, struct profile *profile, struct error *err)
{
	const struct report_options report = { .pid = pid };
	CLEANUP(report_session_close)
	struct report_session session = { .options = &report, .borrows_profiles = true };

	report_session_add(&session, profile);
	return report_session_add_symbols(&session, err);
}

static bool write_profile(struct profile *profile, pid_t pid, bool with_symbols,
	struct buffer *text, struct error *err)
{
	if (!with_symbols)
		return raw_write(profile, text, err);
	return add_names(pid, profile, err) &&
	       symbolized_write(profile, allocator_frame_has_module, text, err);
}

static bool save_bundle(
	const struct target *target, bool with_symbols, struct output *output, struct error *err)
{
	const struct source_options wanted = { .needs_agent = true };
	CLEANUP(source_close) struct source source = { 0 };
	CLEANUP(profile_cleanup) struct profile *profile = NULL;
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;
	struct error without_profile;

	source_of_target(target, &wanted, &source);
	if (!bundle_fetch(&source, &profile, &without_profile, err) ||
		(profile != NULL && !write_profile(profile, source.pid, with_symbols, &text, err)))
		return false;
	if (profile == NULL)
		verb_warn("the bundle has no profile: %s", without_profile.message);
	bundle_write(&source, &text, with_symbols, &without_profile, &out);
	if (!file_write_fd(output_fd(output), output_name(output), out.data, out.size, err) ||
		!output_commit(output, err))
		return false;
	fprintf(stderr, "%s: %s\n", output_name(output),
		quantity_format(QUANTITY_BYTES, (double)out.size, false).text);
	return true;
}

static bool save(const struct target *target, const struct dump_request *request, struct error *err)
{
	CLEANUP(output_discard) struct output output = { 0 };

	if (!output_open(request->path, target->file_stem, request->is_bundle ? "tar" : "heap",
		    &output, err))
		return false;
	return request->is_bundle ? save_bundle(target, request->with_symbols, &output, err)
				  : control_save_profile(target, "/v1/profile",
					    "heapctl activate, then wait; or heapctl record; "
					    "heapctl account shows memory "
					    "that no allocator has",
					    &output, err);
}

static bool save_sum(const char *operand, const struct dump_request *request, struct error *err)
{
	CLEANUP(output_discard) struct output output = { 0 };
	CLEANUP(free_cleanup) char *copy = xstrdup(operand);

	if (request->is_bundle) {
		error_set(err, ERROR_USAGE, "a bundle is of one process");
		return error_hint(err, "without -o, each process gets a bundle of its own");
	}
	return output_open(request->path, "", "", &output, err) &&
	       profile_sum_save(&copy, 1, &output, err);
}

/* A file for each process that can be profiled; the others are named. */
static bool save_tree(const char *operand, const struct dump_request *request, struct error *err)
{
	CLEANUP(target_tree_deinit) struct target_tree tree = { 0 };
	size_t saved_count = 0;
	struct error why;

	if (request->path != NULL)
		return save_sum(operand, request, err);
	if (!target_tree_resolve(operand, &tree, err))
		return false;
	for (size_t i = 0; i < tree.count; i++) {
		const struct target_tree_entry *const entry = &tree.entries[i];
		if (entry->is_reached && save(&entry->target, request, &why)) {
			saved_count++;
			continue;
		}
		*err = entry->is_reached ? why : entry->problem;
		control_warn_of_left_out(&entry->target, err);
	}
	return saved_count != 0 || error_prefix(err, "%s: no process has a profile", operand);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct dump_request request = { 0 };
	struct option_parser parser;
	struct target target;
	struct error err;

	if (!option_parse(&parser, verb, argc, argv, &request))
		return parser.exit_code;
	if (request.with_symbols && !request.is_bundle)
		return verb_usage(verb, "--symbols goes with --bundle");
	const char *const operand = parser.operands[0];
	const bool done = target_tree_detect(operand) ? save_tree(operand, &request, &err)
						      : target_resolve(operand, &target, &err) &&
								save(&target, &request, &err);
	return done ? EXIT_DONE : verb_fail(&err);
}

const struct verb verb_dump = {
	.name = "dump",
	.arguments = "TARGET [--bundle [--symbols]] [-o FILE]",
	.summary = "take a profile now, without stopping anything",
	.description =
		"Takes a profile of the sampled memory that is in use now, without anything that "
		"was allocated while sampling was off. The server keeps "
		"running; a thread that samples an allocation at that moment may wait "
		"for some milliseconds (`heapctl status` shows how long the last dump "
		"took).\n\n"
		"The file is in jemalloc's own format (heap_v2), for `heapctl report` "
		"and jeprof. A bundle contains everything that heapctl's analysis "
		"needs, so that report, diff, trend and account give the same answers "
		"on another machine.\n\n"
		"TARGET:* means the processes that TARGET names and all their descendants. Each "
		"gets a file, which heapctl report FILE... adds up; -o FILE is their sum, with the "
		"names of functions. A process that has no agent, or ends meanwhile, is reported "
		"and left out.",
	.examples = "heapctl dump redis-server -o now.heap\n"
		    "heapctl dump 4711 -o - | heapctl report -\n"
		    "heapctl dump 4711 --bundle --symbols -o night.tar\n"
		    "# one file for each process of a server that forks; their sum\n"
		    "heapctl dump 'redis-server:*'\n"
		    "heapctl dump 'redis-server:*' -o sum.heap",
	.options = options,
	VERB_OF_ONE_TARGET,
	.run = run,
};
