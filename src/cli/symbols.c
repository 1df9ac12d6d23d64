/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl symbols: files that reports take names from in place of debug files. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "cli/option.h"
#include "cli/report_session.h"
#include "cli/verb.h"
#include "render/quantity.h"
#include "symbol/file_search.h"
#include "symbol/symbol_cache.h"
#include "symbol/symbol_index_write.h"

enum { OPTION_BUILD_ID_DIR = 1, MAX_BUILD_ID_DIRS = 16 };

struct symbols_request {
	const char *folder;
	const char *output;
	const char *build_id_dirs[MAX_BUILD_ID_DIRS];
	size_t build_id_dir_count;
};

static const struct verb_option options[] = {
	{ OPTION_BUILD_ID_DIR, "build-id-dir", 0, "DIR",
		.help = "search debug files by build-id here first; may be repeated",
		.complete = "@folder" },
	{ 0, "folder", 0, "DIR",
		.help = "write below this folder, for --build-id-dir of reports and heapctl serve "
			"[the symbol cache]",
		.complete = "@folder", OPTION_TEXT(struct symbols_request, folder) },
	{ 0, "output", 'o', "FILE",
		.help = "write the index of the only FILE there; - is standard output",
		.complete = "@file", OPTION_TEXT(struct symbols_request, output) },
	{ 0 },
};

/* Where the index goes: where reports look for it. */
static bool make_place(const struct symbols_request *request, const char *build_id,
	struct buffer *place, struct error *err)
{
	CLEANUP(free_cleanup)
	char *folder =
		request->folder != NULL ? xstrdup(request->folder) : report_session_cache_dir();

	if (folder == NULL) {
		error_set(err, ERROR_NOT_FOUND, "there is no folder for the symbol cache");
		return error_hint(err, "set HOME, or use --folder");
	}
	if (request->folder == NULL && !file_make_folder(folder, 0700, err))
		return error_hint(err, "use --folder");
	if (request->folder == NULL && !symbol_cache_prepare(folder)) {
		error_set(err, ERROR_DENIED, "the symbol cache %s is no folder of this user alone",
			folder);
		return error_hint(err, "chmod 700 it, or use --folder");
	}
	buffer_append_string(place, folder);
	if (!file_search_index_path(build_id, place))
		return error_set(
			err, ERROR_INPUT, "the build-id %s is too short for a path", build_id);
	CLEANUP(free_cleanup) char *parent = xstrdup(buffer_string(place));
	*strrchr(parent, '/') = '\0';
	return file_make_folder(parent, request->folder == NULL ? 0700 : 0755, err);
}

static bool save(const struct symbols_request *request, const struct symbol_index_summary *summary,
	const struct buffer *index, struct buffer *place, struct error *err)
{
	if (request->output != NULL && strcmp(request->output, "-") == 0) {
		buffer_append_string(place, "standard output");
		return file_write_fd(
			fileno(stdout), "standard output", index->data, index->size, err);
	}
	if (request->output != NULL)
		buffer_append_string(place, request->output);
	else if (!make_place(request, summary->build_id, place, err))
		return false;
	const bool is_in_cache = request->output == NULL && request->folder == NULL;
	if (!symbol_index_may_replace(buffer_string(place), is_in_cache, summary->source, err))
		return false;
	const mode_t mode = is_in_cache ? 0600 : 0644;
	return file_write(buffer_string(place), index->data, index->size, mode, err);
}

static bool make_index(const struct symbols_request *request, const char *path, struct error *err)
{
	const struct symbolizer_options symbols = {
		.build_id_dirs = request->build_id_dirs,
		.build_id_dir_count = request->build_id_dir_count,
	};
	CLEANUP(buffer_deinit) struct buffer index = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer place = BUFFER_OR_EXIT;
	CLEANUP(symbol_index_summary_deinit) struct symbol_index_summary summary = { 0 };

	if (!symbol_index_make(path, &symbols, &index, &summary, err))
		return false;
	if (!save(request, &summary, &index, &place, err))
		return error_prefix(err, "%s", path);
	fprintf(stderr, "%s: %s, %.1f %% of %s: %" PRIu64 " functions, %" PRIu64 " ranges",
		buffer_string(&place),
		quantity_format(QUANTITY_BYTES, (double)index.size, false).text,
		100.0 * (double)index.size / (double)summary.source_bytes, summary.debug_file,
		summary.function_count, summary.range_count);
	fprintf(stderr, "%s\n",
		summary.source == SYMBOL_SOURCE_DWARF ? "" : "; no debug information, so no lines");
	return true;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct symbols_request request = { 0 };
	struct option_parser parser;
	struct error err;
	int exit_code = EXIT_DONE;

	option_begin(&parser, verb, argc, argv, &request);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id == OPTION_STOP)
			return parser.exit_code;
		if (request.build_id_dir_count == MAX_BUILD_ID_DIRS)
			return option_refuse(&parser, "at most %d folders", MAX_BUILD_ID_DIRS);
		request.build_id_dirs[request.build_id_dir_count++] = parser.value;
	}
	if (strcmp(parser.operands[0], "index") != 0)
		return verb_usage(verb, "unknown action '%.40s' of symbols", parser.operands[0]);
	if (parser.operand_count < 2)
		return verb_usage(verb, "no file given");
	if (request.output != NULL && (parser.operand_count > 2 || request.folder != NULL))
		return verb_usage(verb, "--output goes with one file and without --folder");
	for (size_t i = 0; i < request.build_id_dir_count; i++)
		verb_warn_of_folders("build-id-dir", request.build_id_dirs[i], "");
	for (size_t i = 1; i < parser.operand_count; i++)
		if (!make_index(&request, parser.operands[i], &err))
			exit_code = verb_fail(&err);
	return exit_code;
}

const struct verb verb_symbols = {
	.name = "symbols",
	.arguments = "index FILE... [--folder DIR | -o FILE]",
	.summary = "prepare the names of a build, so that reports need no debug file",
	.description =
		"index writes functions, inlined calls, files and lines of programs, libraries or "
		"debug files into a small file for each build-id. Reports, diff, trend and "
		"heapctl serve "
		"take names from it in place of the debug file, which may be removed: from the "
		"symbol cache, or below a folder that they get as --build-id-dir.\n\n"
		"The debug file of a stripped FILE is searched for as by reports. The index has "
		"the same names as the files; where they change, the build-id changes as well.",
	.examples =
		"heapctl symbols index /usr/bin/redis-server\n"
		"# for other hosts\n"
		"heapctl symbols index --folder /srv/symbols /usr/lib/debug/.build-id/*/*.debug\n",
	.options = options,
	.complete = "index @file",
	.min_operands = 1,
	.max_operands = SIZE_MAX,
	.run = run,
};
