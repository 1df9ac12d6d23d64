/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl stats: the allocator's statistics. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli/control.h"
#include "cli/verb.h"
#include "client/target_resolve.h"

enum { OPTION_SECTIONS = 1 };

struct stats_request {
	bool as_json, walks_heap;
	const char *sections, *path;
};

static const struct verb_option options[] = {
	{ .name = "json",
		.help = "print JSON instead of a table",
		OPTION_SWITCH(struct stats_request, as_json) },
	{ OPTION_SECTIONS, "options", 0, "LETTERS",
		.help = "malloc_stats_print's letters, each of which leaves something out: g "
			"general, m merged arenas, d destroyed arenas, a single arenas, b bins, l "
			"large classes, x mutexes, e extents, h huge page allocator; \"\" is "
			"everything" },
	{ .name = "walk",
		.help = "read glibc's figures even if its heaps are large: it walks all free "
			"chunks, and the program's malloc waits meanwhile",
		OPTION_SWITCH(struct stats_request, walks_heap) },
	{ 0, "output", 'o', "FILE", .help = "write there; - is standard output",
		.complete = "@file", OPTION_TEXT(struct stats_request, path) },
	{ 0 },
};

static bool fetch(const struct target *target, const struct stats_request *request,
	struct output *output, struct error *err)
{
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	const char *sections = request->sections;
	char path[128];

	/* Without the tables of single arenas and of sizes, as the agent does by default. */
	if (sections == NULL && request->walks_heap)
		sections = request->as_json ? "abl" : "";
	snprintf(path, sizeof path, "/v1/stats?format=%s%s%s%s", request->as_json ? "json" : "text",
		sections == NULL ? "" : "&options=", sections == NULL ? "" : sections,
		request->walks_heap ? "w" : "");
	if (!agent_get(target, path, &answer, err) ||
		!agent_check_type(target, request->as_json ? "application/json" : "text/plain",
			"statistics", &answer, err))
		return false;
	const struct buffer *const body = &answer.body;
	if (!file_write_fd(output_fd(output), output_name(output), body->data, body->size, err))
		return false;
	if (body->size == 0 || body->data[body->size - 1] != '\n') {
		if (!file_write_fd(output_fd(output), output_name(output), "\n", 1, err))
			return false;
	}
	return output_commit(output, err);
}

static bool is_letters(const char *text)
{
	return text[strspn(text, "gmdablxeh")] == '\0' && strlen(text) <= 16;
}

/* Statistics are for reading, so a terminal is a fine place for them. */
static bool open_output(const char *path, struct output *output, struct error *err)
{
	if (path != NULL && strcmp(path, "-") != 0)
		return output_open(path, "", "", output, err);
	*output = (struct output){ .is_stdout = true };
	return true;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct stats_request request = { 0 };
	struct option_parser parser;
	struct target target;
	struct error err;

	option_begin(&parser, verb, argc, argv, &request);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id != OPTION_SECTIONS)
			return parser.exit_code;
		if (!is_letters(parser.value))
			return option_refuse(&parser,
				"'%s' has other letters than g m d a b l x e h", parser.value);
		request.sections = parser.value;
	}
	CLEANUP(output_discard) struct output output = { 0 };
	if (!target_resolve(parser.operands[0], &target, &err) ||
		!open_output(request.path, &output, &err) ||
		!fetch(&target, &request, &output, &err))
		return verb_fail(&err);
	return EXIT_DONE;
}

const struct verb verb_stats = {
	.name = "stats",
	.arguments = "TARGET [--json] [--options LETTERS] [--walk] [-o FILE]",
	.summary = "read the allocator's statistics",
	.description =
		"Prints jemalloc's statistics (malloc_stats_print), with the figures refreshed. "
		"They need no profiling. The tables of single arenas are left out, because a "
		"server may have hundreds; --options adds them.\n\n"
		"Other mallocs report fewer figures: glibc those of mallinfo2(3), tcmalloc its "
		"caches, mimalloc its committed memory. glibc walks all free chunks for them while "
		"the program's malloc waits, some tenths of a second for a million, so they are "
		"read only while its heaps are below 16 MiB, or with --walk.",
	.examples = "heapctl stats redis-server\n"
		    "heapctl stats 4711 --json | jq .jemalloc.stats",
	.options = options,
	VERB_OF_ONE_TARGET,
	.run = run,
};
