/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/xalloc.h"
#include "cli/debuginfod_urls.h"
#include "cli/option.h"
#include "render/quantity.h"

enum {
	GV_SCALE_MAX = 100,
	SECONDS_MAX = 24 * 3600,
};

/* Of the options that mean more than a value in struct report_options. */
enum {
	OPTION_CUM = 1,
	OPTION_INTERACTIVE,
	OPTION_SECONDS,
	OPTION_ADDRESSES,
	OPTION_LINES,
	OPTION_FUNCTIONS,
	OPTION_FILES,
	OPTION_RENDERER, /* the renderer of the option's name */
	OPTION_GV,
	OPTION_EVINCE,
	OPTION_WEB,
	OPTION_LIST,
	OPTION_DISASM,
	OPTION_SYMBOLS,
	OPTION_RAW,
	OPTION_INUSE_OBJECTS, /* these four as enum profile_counter has them */
	OPTION_INUSE_SPACE,
	OPTION_ALLOC_OBJECTS,
	OPTION_ALLOC_SPACE,
	OPTION_TOTAL_DELAY,
	OPTION_CONTENTIONS,
	OPTION_MEAN_DELAY,
	OPTION_NODECOUNT,
	OPTION_NODEFRACTION,
	OPTION_EDGEFRACTION,
	OPTION_MAXDEGREE,
	OPTION_SCALE,
	OPTION_DEBUG_SYMS_BY_ID,
	OPTION_TEST_STRIDE,
	OPTION_VERSION,
	OPTION_WEBLIST,
	OPTION_PPROF,
	OPTION_TAG,
	OPTION_TAG_IGNORE,
	OPTION_UNIT,
	OPTION_SORT,
	OPTION_GRANULARITY,
	OPTION_TOP,
	OPTION_BUILD_ID_DIR,
	OPTION_DEBUGINFOD,
	OPTION_DEBUGINFOD_TIMEOUT,
	OPTION_PID,
	OPTION_FRAME_LIMIT,
	OPTION_FIRST,
};

#define TEXT(member) OPTION_TEXT(struct report_options, member)
#define SWITCH(member) OPTION_SWITCH(struct report_options, member)
#define RENDERER_ROW(name, function, extension, medium, is_of_nodes, help_text, heading)  \
	{                                                                                 \
		OPTION_RENDERER, (name), 0, NULL, .help = (help_text), .group = (heading) \
	}

const struct verb_option report_option_table[] = {
	/* jeprof's, up to --version. */
	JEPROF_RENDERERS(RENDERER_ROW),
	{ OPTION_GV, "gv", 0, NULL, .help = "call graph shown by gv" },
	{ OPTION_EVINCE, "evince", 0, NULL, .help = "call graph shown by evince" },
	{ OPTION_WEB, "web", 0, NULL, .help = "call graph shown by a web browser" },
	{ OPTION_LIST, "list", 0, "REGEX", .help = "source of matching functions with figures" },
	{ OPTION_DISASM, "disasm", 0, "REGEX",
		.help = "assembly of matching functions with figures" },
	{ OPTION_SYMBOLS, "symbols", 0, NULL,
		.help = "names for the mappings and addresses on standard input" },
	{ OPTION_RAW, "raw", 0, NULL,
		.help = "the profile with its symbols, to be read on any machine" },
	{ OPTION_INTERACTIVE, "interactive", 0, NULL, .help = "a shell for exploring the profile" },

	{ OPTION_INUSE_SPACE, "inuse_space", 0, NULL, .help = "bytes in use [default]",
		.group = "figures" },
	{ OPTION_INUSE_OBJECTS, "inuse_objects", 0, NULL, .help = "objects in use" },
	{ OPTION_ALLOC_SPACE, "alloc_space", 0, NULL, .help = "bytes ever allocated" },
	{ OPTION_ALLOC_OBJECTS, "alloc_objects", 0, NULL, .help = "objects ever allocated" },
	{ 0, "show_bytes", 0, NULL, .help = "bytes rather than MB", SWITCH(render.show_bytes) },
	{ OPTION_CUM, "cum", 0, NULL, .help = "sort by cumulative figures" },
	{ 0, "base", 0, "PROFILE", .help = "subtract this profile", .complete = "@file",
		TEXT(base) },
	{ 0, "drop_negative", 0, NULL, .help = "in a difference, count what shrank as unchanged",
		SWITCH(drop_negative) },
	{ OPTION_TOTAL_DELAY, "total_delay", 0, NULL,
		.help = "contention profiles: seconds [default]" },
	{ OPTION_CONTENTIONS, "contentions", 0, NULL,
		.help = "contention profiles: number of delays" },
	{ OPTION_MEAN_DELAY, "mean_delay", 0, NULL,
		.help = "contention profiles: seconds per delay" },

	{ OPTION_FUNCTIONS, "functions", 0, NULL, .help = "by function [default]",
		.group = "granularity" },
	{ OPTION_LINES, "lines", 0, NULL, .help = "by source line" },
	{ OPTION_FILES, "files", 0, NULL, .help = "by source file" },
	{ OPTION_ADDRESSES, "addresses", 0, NULL, .help = "by address" },

	{ 0, "focus", 0, "REGEX", .help = "only stacks with a matching function or file",
		.group = "filters (Perl's regular expressions)", TEXT(filter.focus) },
	{ 0, "ignore", 0, "REGEX", .help = "no stacks with a matching function or file",
		TEXT(filter.ignore) },
	{ 0, "retain", 0, "REGEX", .help = "only matching functions in the stacks",
		TEXT(filter.retain) },
	{ 0, "exclude", 0, "REGEX", .help = "no matching functions in the stacks",
		TEXT(filter.exclude) },
	{ 0, "thread", 0, "THREAD",
		.help = "only this thread, by number or name; '*' for each on its own",
		TEXT(filter.thread) },

	{ OPTION_NODECOUNT, "nodecount", 0, "N", .min = 0, .max = INT32_MAX,
		.help = "maximum number of boxes [80]", .group = "call graph" },
	{ OPTION_NODEFRACTION, "nodefraction", 0, "F", .min = 0, .max = 1,
		.help = "no boxes below this share, from 0 to 1 [0.005]" },
	{ OPTION_EDGEFRACTION, "edgefraction", 0, "F", .min = 0, .max = 1,
		.help = "no arrows below this share, from 0 to 1 [0.001]" },
	{ OPTION_MAXDEGREE, "maxdegree", 0, "N", .min = 0, .max = INT32_MAX,
		.help = "arrows into and out of a box [8]" },
	{ OPTION_SCALE, "scale", 0, "N", .min = -GV_SCALE_MAX, .max = GV_SCALE_MAX,
		.help = "scale of gv [0]" },
	{ 0, "heapcheck", 0, NULL, .help = "highlight functions that allocate directly",
		SWITCH(render.heapcheck) },

	{ 0, "lib_prefix", 0, "DIR,DIR",
		.help = "look for programs and libraries below these folders", .group = "symbols",
		.complete = "@folder", TEXT(lib_prefixes) },
	{ 0, "add_lib", 0, "FILE", .help = "use this file's symbols too, at its own addresses",
		.complete = "@file", TEXT(add_lib) },
	{ 0, "tools", 0, "PREFIX|TOOL:PATH,...", .help = "which objdump to use for assembly",
		TEXT(tools) },
	{ OPTION_DEBUG_SYMS_BY_ID, "debug-syms-by-id", 0, NULL,
		.help = "find debug files by build-id, which is always done", .is_hidden = true },
	{ 0, "debug", 0, NULL, .help = "say where the symbols of each module came from",
		SWITCH(debug) },
	{ OPTION_SECONDS, "seconds", 0, "N", .min = 1, .max = SECONDS_MAX,
		.help = "length of a CPU profile taken from a server [30]" },
	{ 0, "test", 0, NULL, .help = "check the arithmetic on known figures", .is_hidden = true,
		SWITCH(wants_test) },
	{ OPTION_TEST_STRIDE, "test_stride", 0, "N",
		.help = "how much jeprof reads at once; nothing to us", .is_hidden = true },
	{ 0, "help", 'h', NULL, .help = "print this help", .is_hidden = true, SWITCH(wants_help) },
	{ OPTION_VERSION, "version", 0, NULL, .help = "print the version", .is_hidden = true },

	{ 0, "no-inlines", 0, NULL, .help = "inlined functions count as their callers",
		SWITCH(no_inlines) },
	{ 0, "no-cache", 0, NULL, .help = "neither use nor write the symbol cache",
		SWITCH(no_cache) },
	{ OPTION_PID, "pid", 0, "PID", .min = 1, .max = INT32_MAX,
		.help = "the profile is of this running process: its files are read through it" },
	{ OPTION_BUILD_ID_DIR, "build-id-dir", 0, "DIR", .help = "look for debug files here first",
		.complete = "@folder" },
	{ 0, "sysroot", 0, "DIR", .help = "look for all files below this folder",
		.complete = "@folder", TEXT(sysroot) },
	{ 0, "source-root", 0, "DIR",
		.help = "for --list and --weblist: of this machine, read sources below this folder "
			"alone",
		.complete = "@folder", TEXT(source_root) },
	{ OPTION_DEBUGINFOD, "debuginfod", 0, "URL",
		.help = "ask this server for debug files, and for sources that are not here" },
	{ OPTION_DEBUGINFOD_TIMEOUT, "debuginfod-timeout", 0, "SECONDS", .min = 0,
		.max = SECONDS_MAX, .help = "time limit for all its answers together [30]" },

	MORE_RENDERERS(RENDERER_ROW),
	{ OPTION_PPROF, "pprof", 0, NULL, .help = "gzipped protobuf for go tool pprof and others" },
	{ 0, "file-addresses", 0, NULL,
		.help = "for --pprof: addresses as in the files, for servers that find names",
		SWITCH(file_addresses) },
	{ 0, "strip-names", 0, NULL, .help = "for --pprof: addresses without names",
		SWITCH(strip_names) },
	{ 0, "strip-labels", 0, NULL,
		.help = "for --pprof: one sample for each stack, without sizes and threads",
		SWITCH(strip_labels) },
	{ OPTION_WEBLIST, "weblist", 0, "REGEX", .help = "source and assembly as HTML" },
	{ 0, "output", 'o', "FILE", .help = "write there instead of standard output",
		.complete = "@file", TEXT(output_path) },
	{ 0, "title", 0, "TEXT", .help = "heading of pictures, instead of the program",
		TEXT(title) },
	{ 0, "subtitle", 0, "TEXT",
		.help = "text below the heading, instead of the names of the profiles",
		TEXT(subtitle) },
	/* For the gateway: a process may end while its profile is rendered. */
	{ 0, "pid-may-have-ended", 0, NULL, .help = "ignore --pid once its process has ended",
		.is_hidden = true, SWITCH(pid_may_have_ended) },
	/* For the gateway: its scratch files have no processes, names and times. */
	{ 0, "pids", 0, "PID,...", .help = "the same for each of several profiles; 0 for none",
		.is_hidden = true, TEXT(pids) },
	{ 0, "when-ms", 0, "MS", .help = "for --pprof: when it was taken", .is_hidden = true,
		TEXT(when_ms) },
	{ 0, "span-ms", 0, "MS", .help = "for --pprof: the time that it covers", .is_hidden = true,
		TEXT(span_ms) },
	{ 0, "remark", 0, "TEXT", .help = "for --pprof: a comment in it", .is_hidden = true,
		TEXT(remark) },
	{ OPTION_TOP, "top", 0, "N", .min = 0, .max = INT32_MAX,
		.help = "maximum number of rows of the text report" },
	{ OPTION_SORT, "sort", 0, "KEY", .help = "flat, cum, change or name",
		.complete = "flat cum change name" },
	{ OPTION_GRANULARITY, "granularity", 0, "WHAT",
		.help = "functions, filefunctions, lines, files, addresses",
		.complete = "functions filefunctions lines files addresses" },
	{ 0, "inverted", 0, NULL, .help = "trees and flame graphs from the leaves",
		SWITCH(render.is_inverted) },
	{ OPTION_FRAME_LIMIT, "frame-limit", 0, "N", .min = 0, .max = INT32_MAX,
		.help = "maximum number of boxes of a flame graph, the smallest are drawn "
			"together; 0 for "
			"all [50000 in --flame]" },
	{ OPTION_FIRST, "first", 0, "N", .min = 0, .max = INT32_MAX,
		.help = "for --rows: how many rows to leave out in front" },
	{ 0, "row-pattern", 0, "REGEX", .help = "for --rows: only rows whose name or file matches",
		TEXT(render.row_pattern) },
	/* For the gateway: "callees" or "callers" and names, one a line. */
	{ 0, "frame-root", 0, "NAMES", .help = "as many boxes more below this one",
		.is_hidden = true, TEXT(render.frame_root) },
	{ 0, "confidence", 0, NULL, .help = "standard errors and sample counts",
		SWITCH(render.confidence) },
	{ OPTION_UNIT, "unit", 0, "UNIT",
		.help = "of text reports, call graphs, source and assembly: b, kb, mb, gb, tb; ns, "
			"us, ms, s; auto: the one of the total",
		.complete = "auto b kb mb gb tb ns us ms s" },
	{ 0, "mean", 0, NULL,
		.help = "for --text: bytes of one object, or time of one delay, in place of the "
			"sum; shares and order are of the sums",
		SWITCH(render.mean) },

	{ 0, "show", 0, "REGEX", .help = "only matching frames, inlined ones too",
		.group = "more filters", TEXT(filter.show) },
	{ 0, "hide", 0, "REGEX", .help = "no matching frames", TEXT(filter.hide) },
	{ 0, "show-from", 0, "REGEX",
		.help = "only stacks with a matching function or file, without its callers",
		TEXT(filter.show_from) },
	{ 0, "prune-from", 0, "REGEX",
		.help = "nothing below the innermost function that matches: it allocates that "
			"itself",
		TEXT(filter.prune_from) },
	{ OPTION_TAG, "tag", 0, "KEY=VALUE",
		.help = "only samples with thread=REGEX or bytes=LOW:HIGH" },
	{ OPTION_TAG_IGNORE, "tag-ignore", 0, "KEY=VALUE",
		.help = "no samples with thread=REGEX or bytes=LOW:HIGH" },
	{ 0, "fragmentation", 0, NULL,
		.help = "free places in slabs, by the sites whose objects keep them (of a bundle "
			"or a TARGET)",
		SWITCH(fragmentation) },
	{ 0, "waste", 0, NULL, .help = "the former name of --fragmentation, until 0.3",
		.is_hidden = true, SWITCH(fragmentation) },
	{ 0, "churn", 0, NULL,
		.help = "only temporary allocations: freed before their thread has allocated 1 "
			"MiB more, or within 10 ms (not of jemalloc's profiles)",
		SWITCH(churn) },
	{ 0, "no-prune", 0, NULL,
		.help = "keep the allocator's own functions, and wrappers of them",
		SWITCH(keep_allocator_frames) },
	{ 0 },
};

static size_t classic_count(void)
{
	size_t count = 0;

	while (report_option_table[count].id != OPTION_VERSION)
		count++;
	return count + 1;
}

/* What was chosen, to see whether it was chosen twice. */
struct choices {
	const char *output;
	const char *figure;
	const char *granularity;
	const char *delay;
};

struct parse {
	struct report_options *options;
	struct option_parser parser;
	struct choices chosen;
	size_t tag_capacity, ignored_tag_capacity;
	size_t build_id_dir_capacity;
};

/* jeprof counts switches that are on: too many are an error, and a negated one does not count. */
static bool choose(struct parse *parse, const char **choice, const char *what, struct error *err)
{
	const char *const name = parse->parser.option->name;

	if (*choice != NULL && strcmp(*choice, name) != 0)
		return error_set(
			err, ERROR_USAGE, "--%s and --%s: choose one %s", *choice, name, what);
	*choice = name;
	return true;
}

static bool set_output(struct parse *parse, enum report_output output, struct error *err)
{
	struct report_options *const options = parse->options;
	const char *const name = parse->parser.option->name;

	if (parse->parser.is_negated) {
		if (parse->chosen.output != NULL && strcmp(parse->chosen.output, name) == 0)
			parse->chosen.output = NULL;
		return true;
	}
	if (!choose(parse, &parse->chosen.output, "output", err))
		return false;
	options->output = output;
	options->routine = parse->parser.value;
	options->viewer = name;
	options->renderer = renderer_find(name);
	return true;
}

static bool set_counter(struct parse *parse, enum profile_counter counter, struct error *err)
{
	if (parse->parser.is_negated)
		return true;
	parse->options->counter = counter;
	parse->options->has_counter = true;
	return choose(parse, &parse->chosen.figure, "figure", err);
}

static bool set_granularity(
	struct parse *parse, enum view_granularity granularity, struct error *err)
{
	if (parse->parser.is_negated)
		return true;
	parse->options->granularity = granularity;
	return choose(parse, &parse->chosen.granularity, "granularity", err);
}

/* Only contention profiles have delays: to all others this means nothing, as with jeprof. */
static bool set_delay(struct parse *parse, int id, struct error *err)
{
	if (parse->parser.is_negated)
		return true;
	parse->options->counts_delays = id == OPTION_CONTENTIONS;
	parse->options->mean_delay = id == OPTION_MEAN_DELAY;
	return choose(parse, &parse->chosen.delay, "delay", err);
}

/* A word from a list: its position. */
static bool pick(const struct parse *parse, const char *const *words, int *at, struct error *err)
{
	for (*at = 0; words[*at] != NULL; ++*at) {
		if (strcasecmp(words[*at], parse->parser.value) == 0)
			return true;
	}
	CLEANUP(buffer_deinit) struct buffer choices = BUFFER_OR_EXIT;

	for (int i = 0; i < *at; i++)
		buffer_printf(&choices, "%s%s",
			i == 0	       ? ""
			: i + 1 == *at ? " or "
				       : ", ",
			words[i]);
	return error_set(err, ERROR_USAGE, "invalid value for --%s: '%.60s'; use %s",
		parse->parser.option->name, parse->parser.value, buffer_string(&choices));
}

static bool apply_words(struct parse *parse, int id, struct error *err)
{
	int at = 0;

	if (id == OPTION_SORT) {
		if (!pick(parse, render_sort_names, &at, err))
			return false;
		parse->options->render.sort = (enum render_sort)at;
		parse->options->has_sort = true;
		return true;
	}
	if (id == OPTION_UNIT) {
		if (!pick(parse, render_unit_names, &at, err))
			return false;
		parse->options->render.unit = (enum render_unit)at;
		return true;
	}
	return pick(parse, view_granularity_names, &at, err) &&
	       set_granularity(parse, (enum view_granularity)at, err);
}

static bool apply_number(struct parse *parse, int id, struct error *err)
{
	struct render_options *const render = &parse->options->render;
	const struct verb_option *const option = parse->parser.option;
	const int64_t min = option->min, max = option->max;
	int64_t number = 0;

	if (id == OPTION_NODEFRACTION)
		return option_real(&parse->parser, (double)min, (double)max,
			&render->graph.node_fraction, err);
	if (id == OPTION_EDGEFRACTION)
		return option_real(&parse->parser, (double)min, (double)max,
			&render->graph.edge_fraction, err);
	if (!option_integer(&parse->parser, min, max, &number, err))
		return false;
	const size_t count = (size_t)number;
	switch (id) {
	case OPTION_NODECOUNT:
		render->graph.node_count = count;
		break;
	case OPTION_MAXDEGREE:
		render->graph.max_degree = count;
		break;
	case OPTION_TOP:
		render->line_limit = count;
		break;
	case OPTION_FIRST:
		render->first_row = count;
		break;
	case OPTION_FRAME_LIMIT:
		render->frame_limit = count;
		break;
	case OPTION_SECONDS:
		parse->options->seconds = number;
		break;
	case OPTION_DEBUGINFOD_TIMEOUT:
		parse->options->debuginfod_seconds = number;
		break;
	case OPTION_SCALE:
		parse->options->scale = number;
		break;
	case OPTION_PID:
		parse->options->pid = number;
		break;
	default:
		break;
	}
	return true;
}

static void add_text(const char ***texts, size_t *count, size_t *capacity, const char *text)
{
	*texts = xgrow(*texts, capacity, *count + 1, sizeof **texts);
	(*texts)[(*count)++] = text;
}

static bool is_output(int id, enum report_output *output)
{
	static const struct {
		int id;
		enum report_output output;
	} outputs[] = {
		{ OPTION_RENDERER, REPORT_RENDER },
		{ OPTION_INTERACTIVE, REPORT_INTERACTIVE },
		{ OPTION_LIST, REPORT_LIST },
		{ OPTION_WEBLIST, REPORT_WEBLIST },
		{ OPTION_DISASM, REPORT_DISASM },
		{ OPTION_SYMBOLS, REPORT_SYMBOLS },
		{ OPTION_RAW, REPORT_RAW },
		{ OPTION_PPROF, REPORT_PPROF },
		{ OPTION_GV, REPORT_VIEWER },
		{ OPTION_EVINCE, REPORT_VIEWER },
		{ OPTION_WEB, REPORT_VIEWER },
	};

	for (size_t i = 0; i < sizeof outputs / sizeof outputs[0]; i++) {
		if (outputs[i].id == id) {
			*output = outputs[i].output;
			return true;
		}
	}
	return false;
}

/* Which figures are shown and of what; numbers are the rest. */
static bool apply_figure(struct parse *parse, int id, struct error *err)
{
	switch (id) {
	case OPTION_INUSE_OBJECTS:
	case OPTION_INUSE_SPACE:
	case OPTION_ALLOC_OBJECTS:
	case OPTION_ALLOC_SPACE:
		return set_counter(parse, (enum profile_counter)(id - OPTION_INUSE_OBJECTS), err);
	case OPTION_FUNCTIONS:
		return set_granularity(parse, VIEW_FUNCTIONS, err);
	case OPTION_LINES:
		return set_granularity(parse, VIEW_LINES, err);
	case OPTION_FILES:
		return set_granularity(parse, VIEW_FILES, err);
	case OPTION_ADDRESSES:
		return set_granularity(parse, VIEW_ADDRESSES, err);
	case OPTION_TOTAL_DELAY:
	case OPTION_CONTENTIONS:
	case OPTION_MEAN_DELAY:
		return set_delay(parse, id, err);
	default:
		return apply_number(parse, id, err);
	}
}

static bool apply(struct parse *parse, int id, struct error *err)
{
	struct report_options *const options = parse->options;
	const struct option_parser *const parser = &parse->parser;
	enum report_output output = REPORT_RENDER;

	if (is_output(id, &output))
		return set_output(parse, output, err);
	switch (id) {
	case OPTION_CUM:
		options->has_sort = true;
		options->render.sort =
			parser->is_negated ? RENDER_SORT_FLAT : RENDER_SORT_CUMULATIVE;
		return true;
	case OPTION_DEBUG_SYMS_BY_ID: /* what we always do */
		return true;
	case OPTION_DEBUGINFOD:
		options->debuginfod = parser->value;
		return debuginfod_urls_check(parser->value, err) ||
		       error_prefix(err, "--debuginfod");
	case OPTION_VERSION:
		options->wants_version = !parser->is_negated;
		return true;
	case OPTION_TAG:
		add_text(&options->tags, &options->filter.tags.count, &parse->tag_capacity,
			parser->value);
		options->filter.tags.texts = options->tags;
		return true;
	case OPTION_TAG_IGNORE:
		add_text(&options->ignored_tags, &options->filter.ignored_tags.count,
			&parse->ignored_tag_capacity, parser->value);
		options->filter.ignored_tags.texts = options->ignored_tags;
		return true;
	case OPTION_BUILD_ID_DIR:
		add_text(&options->build_id_dirs, &options->build_id_dir_count,
			&parse->build_id_dir_capacity, parser->value);
		return true;
	case OPTION_SORT:
	case OPTION_UNIT:
	case OPTION_GRANULARITY:
		return apply_words(parse, id, err);
	default:
		return apply_figure(parse, id, err);
	}
}

static void set_defaults(struct report_options *options, bool is_jeprof)
{
	*options = (struct report_options){
		.output = REPORT_RENDER,
		.counter = PROFILE_INUSE_SPACE,
		.render = RENDER_OPTIONS_DEFAULT,
		.seconds = 30,
		.debuginfod_seconds = 30,
		.is_jeprof = is_jeprof,
	};
}

/* Defaults of what was not chosen, and what one choice means for another. */
static void complete(struct parse *parse)
{
	struct report_options *const options = parse->options;

	options->has_output = parse->chosen.output != NULL;
	options->has_output_path = options->output_path != NULL;
	if (!options->has_output) {
		options->output = options->is_jeprof && isatty(STDOUT_FILENO) ? REPORT_INTERACTIVE
									      : REPORT_RENDER;
		options->renderer = renderer_find("text");
	}
	if (options->output == REPORT_LIST || options->output == REPORT_WEBLIST ||
		options->output == REPORT_DISASM || options->output == REPORT_SYMBOLS)
		options->granularity = VIEW_ADDRESSES;
	if (parse->chosen.granularity == NULL && options->output == REPORT_RENDER &&
		strcmp(options->renderer->name, "callgrind") == 0)
		options->granularity = VIEW_LINES;
	if (options->output_path != NULL && strcmp(options->output_path, "-") == 0)
		options->output_path = NULL;
}

bool report_options_parse(struct report_options *options, const struct verb *verb, int argc,
	char **argv, bool is_jeprof, struct error *err)
{
	struct parse parse = { .options = options };
	int id = 0;

	set_defaults(options, is_jeprof);
	option_begin(&parse.parser, verb, argc, argv, options);
	parse.parser.classic_count = classic_count();
	parse.parser.prefers_classic = is_jeprof;
	for (;;) {
		if (!option_read(&parse.parser, &id, err) ||
			(id != OPTION_END && !apply(&parse, id, err))) {
			report_options_deinit(options);
			return false;
		}
		if (id == OPTION_END)
			break;
	}
	complete(&parse);
	options->operands = parse.parser.operands;
	options->operand_count = parse.parser.operand_count;
	return true;
}

void report_options_deinit(struct report_options *options)
{
	free(options->tags);
	free(options->ignored_tags);
	free(options->build_id_dirs);
	options->tags = options->ignored_tags = NULL;
	options->build_id_dirs = NULL;
}
