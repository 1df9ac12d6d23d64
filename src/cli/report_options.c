/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_options.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "cli/perl_option.h"

enum {
	O_CUM = 1,
	O_BASE,
	O_INTERACTIVE,
	O_SECONDS,
	O_ADD_LIB,
	O_LIB_PREFIX,
	O_GRANULARITY_FIRST,
	O_ADDRESSES = O_GRANULARITY_FIRST,
	O_LINES,
	O_FUNCTIONS,
	O_FILES,
	O_RENDERER, /* the renderer of the option's name */
	O_GV,
	O_EVINCE,
	O_WEB,
	O_LIST,
	O_DISASM,
	O_SYMBOLS,
	O_RAW,
	O_INUSE_OBJECTS, /* these four as enum profile_counter has them */
	O_INUSE_SPACE,
	O_ALLOC_OBJECTS,
	O_ALLOC_SPACE,
	O_SHOW_BYTES,
	O_DROP_NEGATIVE,
	O_TOTAL_DELAY,
	O_CONTENTIONS,
	O_MEAN_DELAY,
	O_NODECOUNT,
	O_NODEFRACTION,
	O_EDGEFRACTION,
	O_MAXDEGREE,
	O_FOCUS,
	O_THREAD,
	O_IGNORE,
	O_SCALE,
	O_HEAPCHECK,
	O_RETAIN,
	O_EXCLUDE,
	O_TOOLS,
	O_DEBUG_SYMS_BY_ID,
	O_TEST,
	O_TEST_STRIDE,
	O_DEBUG,
	O_HELP,
	O_VERSION,
	O_FIRST_NEW,
	O_WEBLIST = O_FIRST_NEW,
	O_PPROF,
	O_OUTPUT,
	O_SHOW,
	O_HIDE,
	O_TAG,
	O_SORT,
	O_GRANULARITY,
	O_INVERTED,
	O_CONFIDENCE,
	O_TOP,
	O_BUILD_ID_DIR,
	O_SYSROOT,
	O_DEBUGINFOD,
	O_DEBUGINFOD_TIMEOUT,
	O_NO_INLINES,
	O_NO_PRUNE,
	O_NO_CACHE,
	O_PID,
	O_TITLE,
	O_SUBTITLE,
	O_WASTE,
};

const struct verb_option report_option_table[] = {
	/* jeprof's, up to --version: see classic_count. */
	{ O_RENDERER, "text", 0, NULL, .help = "one line for each function [default]",
		.group = "output" },
	{ O_RENDERER, "collapsed", 0, NULL,
		.help = "one line for each stack, for flame graph tools" },
	{ O_RENDERER, "callgrind", 0, NULL, .help = "callgrind's format, for KCachegrind" },
	{ O_RENDERER, "dot", 0, NULL, .help = "call graph in graphviz's language" },
	{ O_RENDERER, "svg", 0, NULL, .help = "call graph as SVG" },
	{ O_RENDERER, "ps", 0, NULL, .help = "call graph as PostScript" },
	{ O_RENDERER, "pdf", 0, NULL, .help = "call graph as PDF" },
	{ O_RENDERER, "gif", 0, NULL, .help = "call graph as GIF" },
	{ O_GV, "gv", 0, NULL, .help = "call graph shown by gv" },
	{ O_EVINCE, "evince", 0, NULL, .help = "call graph shown by evince" },
	{ O_WEB, "web", 0, NULL, .help = "call graph shown by a web browser" },
	{ O_LIST, "list", 0, "REGEX", .help = "source of matching functions with figures" },
	{ O_DISASM, "disasm", 0, "REGEX", .help = "assembly of matching functions with figures" },
	{ O_SYMBOLS, "symbols", 0, NULL,
		.help = "names for the mappings and addresses on standard input" },
	{ O_RAW, "raw", 0, NULL,
		.help = "the profile with its symbols, to be read on any machine" },
	{ O_INTERACTIVE, "interactive", 0, NULL, .help = "a shell to look around in" },

	{ O_INUSE_SPACE, "inuse_space", 0, NULL, .help = "bytes in use [default]",
		.group = "figures" },
	{ O_INUSE_OBJECTS, "inuse_objects", 0, NULL, .help = "objects in use" },
	{ O_ALLOC_SPACE, "alloc_space", 0, NULL, .help = "bytes ever allocated" },
	{ O_ALLOC_OBJECTS, "alloc_objects", 0, NULL, .help = "objects ever allocated" },
	{ O_SHOW_BYTES, "show_bytes", 0, NULL, .help = "bytes rather than MB" },
	{ O_CUM, "cum", 0, NULL, .help = "sort by cumulative figures" },
	{ O_BASE, "base", 0, "PROFILE", .help = "subtract this profile", .complete = "@file" },
	{ O_DROP_NEGATIVE, "drop_negative", 0, NULL,
		.help = "in a difference, count what shrank as unchanged" },
	{ O_TOTAL_DELAY, "total_delay", 0, NULL, .help = "of contention: seconds [default]" },
	{ O_CONTENTIONS, "contentions", 0, NULL, .help = "of contention: number of delays" },
	{ O_MEAN_DELAY, "mean_delay", 0, NULL, .help = "of contention: seconds for one delay" },

	{ O_FUNCTIONS, "functions", 0, NULL, .help = "by function [default]",
		.group = "granularity" },
	{ O_LINES, "lines", 0, NULL, .help = "by source line" },
	{ O_FILES, "files", 0, NULL, .help = "by source file" },
	{ O_ADDRESSES, "addresses", 0, NULL, .help = "by address" },

	{ O_FOCUS, "focus", 0, "REGEX", .help = "only stacks with a matching function or file",
		.group = "filters (Perl's regular expressions)" },
	{ O_IGNORE, "ignore", 0, "REGEX", .help = "no stacks with a matching function or file" },
	{ O_RETAIN, "retain", 0, "REGEX", .help = "only matching functions in the stacks" },
	{ O_EXCLUDE, "exclude", 0, "REGEX", .help = "no matching functions in the stacks" },
	{ O_THREAD, "thread", 0, "THREAD",
		.help = "only this thread, by number or name; '*' for each on its own" },

	{ O_NODECOUNT, "nodecount", 0, "N", .help = "at most so many boxes [80]",
		.group = "call graph" },
	{ O_NODEFRACTION, "nodefraction", 0, "F", .help = "no boxes below this share [0.005]" },
	{ O_EDGEFRACTION, "edgefraction", 0, "F", .help = "no arrows below this share [0.001]" },
	{ O_MAXDEGREE, "maxdegree", 0, "N", .help = "arrows into and out of a box [8]" },
	{ O_SCALE, "scale", 0, "N", .help = "scale of gv [0]" },
	{ O_HEAPCHECK, "heapcheck", 0, NULL, .help = "set off functions that allocate themselves" },

	{ O_LIB_PREFIX, "lib_prefix", 0, "DIR,DIR",
		.help = "look for programs and libraries below these folders", .group = "symbols",
		.complete = "@folder" },
	{ O_ADD_LIB, "add_lib", 0, "FILE",
		.help = "use this file's symbols too, at its own addresses", .complete = "@file" },
	{ O_TOOLS, "tools", 0, "PREFIX|TOOL:PATH,...",
		.help = "which objdump to use for assembly" },
	{ O_DEBUG_SYMS_BY_ID, "debug-syms-by-id", 0, NULL,
		.help = "find debug files by build-id, which is always done", .is_hidden = true },
	{ O_DEBUG, "debug", 0, NULL, .help = "say where the symbols of each module came from" },
	{ O_SECONDS, "seconds", 0, "N",
		.help = "length of a CPU profile taken from a server [30]" },
	{ O_TEST, "test", 0, NULL, .help = "check the arithmetic on known figures",
		.is_hidden = true },
	{ O_TEST_STRIDE, "test_stride", 0, "N",
		.help = "how much jeprof reads at once; nothing to us", .is_hidden = true },
	{ O_HELP, "help", 0, NULL, .help = "print this help", .is_hidden = true },
	{ O_VERSION, "version", 0, NULL, .help = "print the version", .is_hidden = true },

	{ O_NO_INLINES, "no-inlines", 0, NULL, .help = "inlined functions count as their callers" },
	{ O_NO_CACHE, "no-cache", 0, NULL, .help = "neither use nor write the symbol cache" },
	{ O_PID, "pid", 0, "PID",
		.help = "the profile is of this running process: its files are read through it" },
	{ O_BUILD_ID_DIR, "build-id-dir", 0, "DIR", .help = "look for debug files here first",
		.complete = "@folder" },
	{ O_SYSROOT, "sysroot", 0, "DIR", .help = "look for all files below this folder",
		.complete = "@folder" },
	{ O_DEBUGINFOD, "debuginfod", 0, "URL", .help = "ask this server for debug files" },
	{ O_DEBUGINFOD_TIMEOUT, "debuginfod-timeout", 0, "SECONDS",
		.help = "how long all its answers together may take [30]" },

	{ O_RENDERER, "flame", 0, NULL, .help = "flame graph, one HTML file",
		.group = "more output" },
	{ O_RENDERER, "flame-data", 0, NULL,
		.help = "what a flame graph is drawn from, for programs that draw it themselves" },
	{ O_PPROF, "pprof", 0, NULL, .help = "gzipped protobuf for go tool pprof and others" },
	{ O_RENDERER, "json", 0, NULL, .help = "all figures with their errors, as JSON" },
	{ O_RENDERER, "tree", 0, NULL, .help = "call tree as text" },
	{ O_RENDERER, "png", 0, NULL, .help = "call graph as PNG" },
	{ O_WEBLIST, "weblist", 0, "REGEX", .help = "source and assembly as HTML" },
	{ O_OUTPUT, "output", 'o', "FILE", .help = "write there instead of standard output",
		.complete = "@file" },
	{ O_TITLE, "title", 0, "TEXT", .help = "heading of pictures, instead of the program" },
	{ O_SUBTITLE, "subtitle", 0, "TEXT",
		.help = "what stands below it, instead of the profiles' names" },
	{ O_TOP, "top", 0, "N", .help = "only so many rows of the text report" },
	{ O_SORT, "sort", 0, "KEY", .help = "flat, cum, change or name",
		.complete = "flat cum change name" },
	{ O_GRANULARITY, "granularity", 0, "WHAT",
		.help = "functions, filefunctions, lines, files, addresses",
		.complete = "functions filefunctions lines files addresses" },
	{ O_INVERTED, "inverted", 0, NULL, .help = "trees and flame graphs from the leaves" },
	{ O_CONFIDENCE, "confidence", 0, NULL, .help = "standard errors and sample counts" },

	{ O_SHOW, "show", 0, "REGEX", .help = "only matching frames, inlined ones too",
		.group = "more filters" },
	{ O_HIDE, "hide", 0, "REGEX", .help = "no matching frames" },
	{ O_TAG, "tag", 0, "KEY=VALUE",
		.help = "only samples with thread=REGEX or bytes=LOW:HIGH" },
	{ O_WASTE, "waste", 0, NULL,
		.help = "free places in slabs, by the sites whose objects keep them (of a bundle "
			"or "
			"a TARGET)" },
	{ O_NO_PRUNE, "no-prune", 0, NULL, .help = "keep the allocator's own functions" },
	{ 0 },
};

/* What was chosen, to see whether it was chosen twice. */
struct choices {
	const char *output;
	const char *figure;
	const char *granularity;
	const char *delay;
};

struct parse {
	struct report_options *options;
	struct perl_option_parser parser;
	struct choices chosen;
	size_t tag_capacity;
	size_t build_id_dir_capacity;
};

/* jeprof counts switches that are on: one too many is an error, a negated one is none. */
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
	parse->options->counts_delays = id == O_CONTENTIONS;
	parse->options->mean_delay = id == O_MEAN_DELAY;
	return choose(parse, &parse->chosen.delay, "delay", err);
}

/* A word from a list: its position. */
static bool pick(const struct parse *parse, const char *const *words, int *at, struct error *err)
{
	for (*at = 0; words[*at] != NULL; ++*at) {
		if (strcmp(words[*at], parse->parser.value) == 0)
			return true;
	}
	return error_set(err, ERROR_USAGE, "'%.60s' is nothing that --%s knows",
		parse->parser.value, parse->parser.option->name);
}

static bool apply_words(struct parse *parse, int id, struct error *err)
{
	static const char *const sorts[] = { "flat", "cum", "change", "name", NULL };
	int at = 0;

	if (id == O_SORT) {
		if (!pick(parse, sorts, &at, err))
			return false;
		parse->options->render.sort = (enum render_sort)at;
		parse->options->has_sort = true;
		return true;
	}
	return pick(parse, view_granularity_names, &at, err) &&
	       set_granularity(parse, (enum view_granularity)at, err);
}

static bool apply_number(struct parse *parse, int id, struct error *err)
{
	struct render_options *const render = &parse->options->render;
	long number = 0;

	if (id == O_NODEFRACTION)
		return perl_option_real(&parse->parser, &render->graph.node_fraction, err);
	if (id == O_EDGEFRACTION)
		return perl_option_real(&parse->parser, &render->graph.edge_fraction, err);
	if (!perl_option_integer(&parse->parser, &number, err))
		return false;
	const size_t count = number < 0 ? 0 : (size_t)number;
	switch (id) {
	case O_NODECOUNT:
		render->graph.node_count = count;
		break;
	case O_MAXDEGREE:
		render->graph.max_degree = count;
		break;
	case O_TOP:
		render->line_limit = count;
		break;
	case O_SECONDS:
		parse->options->seconds = number;
		break;
	case O_DEBUGINFOD_TIMEOUT:
		parse->options->debuginfod_seconds = number;
		break;
	case O_SCALE:
		parse->options->scale = number;
		break;
	case O_PID:
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

/* Options with a text as their value, one place each. */
static const char **text_place(struct report_options *options, int id)
{
	switch (id) {
	case O_BASE:
		return &options->base;
	case O_ADD_LIB:
		return &options->add_lib;
	case O_LIB_PREFIX:
		return &options->lib_prefixes;
	case O_FOCUS:
		return &options->filter.focus;
	case O_IGNORE:
		return &options->filter.ignore;
	case O_RETAIN:
		return &options->filter.retain;
	case O_EXCLUDE:
		return &options->filter.exclude;
	case O_SHOW:
		return &options->filter.show;
	case O_HIDE:
		return &options->filter.hide;
	case O_THREAD:
		return &options->filter.thread;
	case O_TOOLS:
		return &options->tools;
	case O_OUTPUT:
		return &options->output_path;
	case O_SYSROOT:
		return &options->sysroot;
	case O_DEBUGINFOD:
		return &options->debuginfod;
	case O_TITLE:
		return &options->title;
	case O_SUBTITLE:
		return &options->subtitle;
	default:
		return NULL;
	}
}

static bool *switch_place(struct report_options *options, int id)
{
	switch (id) {
	case O_SHOW_BYTES:
		return &options->render.show_bytes;
	case O_DROP_NEGATIVE:
		return &options->drop_negative;
	case O_HEAPCHECK:
		return &options->render.heapcheck;
	case O_INVERTED:
		return &options->render.is_inverted;
	case O_CONFIDENCE:
		return &options->render.confidence;
	case O_NO_INLINES:
		return &options->no_inlines;
	case O_WASTE:
		return &options->waste;
	case O_NO_PRUNE:
		return &options->keep_allocator_frames;
	case O_NO_CACHE:
		return &options->no_cache;
	case O_DEBUG:
		return &options->debug;
	case O_HELP:
		return &options->wants_help;
	case O_VERSION:
		return &options->wants_version;
	case O_TEST:
		return &options->wants_test;
	default:
		return NULL;
	}
}

static bool is_output(int id, enum report_output *output)
{
	static const struct {
		int id;
		enum report_output output;
	} outputs[] = {
		{ O_RENDERER, REPORT_RENDER },
		{ O_INTERACTIVE, REPORT_INTERACTIVE },
		{ O_LIST, REPORT_LIST },
		{ O_WEBLIST, REPORT_WEBLIST },
		{ O_DISASM, REPORT_DISASM },
		{ O_SYMBOLS, REPORT_SYMBOLS },
		{ O_RAW, REPORT_RAW },
		{ O_PPROF, REPORT_PPROF },
		{ O_GV, REPORT_VIEWER },
		{ O_EVINCE, REPORT_VIEWER },
		{ O_WEB, REPORT_VIEWER },
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
	case O_INUSE_OBJECTS:
	case O_INUSE_SPACE:
	case O_ALLOC_OBJECTS:
	case O_ALLOC_SPACE:
		return set_counter(parse, (enum profile_counter)(id - O_INUSE_OBJECTS), err);
	case O_FUNCTIONS:
		return set_granularity(parse, VIEW_FUNCTIONS, err);
	case O_LINES:
		return set_granularity(parse, VIEW_LINES, err);
	case O_FILES:
		return set_granularity(parse, VIEW_FILES, err);
	case O_ADDRESSES:
		return set_granularity(parse, VIEW_ADDRESSES, err);
	case O_TOTAL_DELAY:
	case O_CONTENTIONS:
	case O_MEAN_DELAY:
		return set_delay(parse, id, err);
	default:
		return apply_number(parse, id, err);
	}
}

static bool apply(struct parse *parse, int id, struct error *err)
{
	struct report_options *const options = parse->options;
	const struct perl_option_parser *const parser = &parse->parser;
	const char **const text = text_place(options, id);
	bool *const is_on = switch_place(options, id);
	enum report_output output = REPORT_RENDER;

	if (text != NULL) {
		*text = parser->value;
		return true;
	}
	if (is_on != NULL) {
		*is_on = !parser->is_negated;
		return true;
	}
	if (is_output(id, &output))
		return set_output(parse, output, err);
	switch (id) {
	case O_CUM:
		options->has_sort = true;
		options->render.sort =
			parser->is_negated ? RENDER_SORT_FLAT : RENDER_SORT_CUMULATIVE;
		return true;
	case O_DEBUG_SYMS_BY_ID: /* what we always do */
		return true;
	case O_TAG:
		add_text(&options->tags, &options->filter.tag_count, &parse->tag_capacity,
			parser->value);
		options->filter.tags = options->tags;
		return true;
	case O_BUILD_ID_DIR:
		add_text(&options->build_id_dirs, &options->build_id_dir_count,
			&parse->build_id_dir_capacity, parser->value);
		return true;
	case O_SORT:
	case O_GRANULARITY:
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

/* What nobody chose, and what one choice means for another. */
static void complete(struct parse *parse)
{
	struct report_options *const options = parse->options;

	if (parse->chosen.output == NULL) {
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

static size_t count_classic(void)
{
	size_t count = 0;

	while (report_option_table[count].id != O_VERSION)
		count++;
	return count + 1;
}

bool report_options_parse(
	struct report_options *options, int argc, char **argv, bool is_jeprof, struct error *err)
{
	struct parse parse = { .options = options };
	int id = 0;

	set_defaults(options, is_jeprof);
	perl_option_begin(&parse.parser, report_option_table, count_classic(), argc, argv);
	parse.parser.is_classic = is_jeprof;
	for (;;) {
		if (!perl_option_next(&parse.parser, &id, err) ||
			(id != PERL_OPTION_END && !apply(&parse, id, err))) {
			report_options_deinit(options);
			return false;
		}
		if (id == PERL_OPTION_END)
			break;
	}
	complete(&parse);
	options->operands = argv + 1;
	options->operand_count = parse.parser.operand_count;
	return true;
}

void report_options_deinit(struct report_options *options)
{
	free(options->tags);
	free(options->build_id_dirs);
	options->tags = NULL;
	options->build_id_dirs = NULL;
}
