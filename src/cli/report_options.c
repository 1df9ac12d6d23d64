/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_options.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/xalloc.h"
#include "cli/option.h"
#include "cli/report_option_table.h"

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
		if (strcmp(words[*at], parse->parser.value) == 0)
			return true;
	}
	CLEANUP(buffer_cleanup) struct buffer choices = { 0 };

	buffer_init(&choices, &memory_or_exit);
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
	static const char *const sorts[] = { "flat", "cum", "change", "name", NULL };
	int at = 0;

	if (id == OPTION_SORT) {
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
	int64_t number = 0;

	if (id == OPTION_NODEFRACTION)
		return option_real(&parse->parser, &render->graph.node_fraction, err);
	if (id == OPTION_EDGEFRACTION)
		return option_real(&parse->parser, &render->graph.edge_fraction, err);
	if (!option_integer(&parse->parser, LONG_MIN, LONG_MAX, &number, err))
		return false;
	/* jeprof takes anything for its own options. */
	if (number < 0 &&
		(id == OPTION_TOP || id == OPTION_DEBUGINFOD_TIMEOUT || id == OPTION_PID)) {
		return error_set(err, ERROR_USAGE,
			"invalid value for --%s: %" PRId64 "; use a number that is not negative",
			parse->parser.option->name, number);
	}
	const size_t count = number < 0 ? 0 : (size_t)number;
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

/* Options with a text as their value, one place each. */
static const char **text_place(struct report_options *options, int id)
{
	switch (id) {
	case OPTION_BASE:
		return &options->base;
	case OPTION_ADD_LIB:
		return &options->add_lib;
	case OPTION_LIB_PREFIX:
		return &options->lib_prefixes;
	case OPTION_FOCUS:
		return &options->filter.focus;
	case OPTION_IGNORE:
		return &options->filter.ignore;
	case OPTION_RETAIN:
		return &options->filter.retain;
	case OPTION_EXCLUDE:
		return &options->filter.exclude;
	case OPTION_SHOW:
		return &options->filter.show;
	case OPTION_HIDE:
		return &options->filter.hide;
	case OPTION_THREAD:
		return &options->filter.thread;
	case OPTION_TOOLS:
		return &options->tools;
	case OPTION_OUTPUT:
		return &options->output_path;
	case OPTION_SYSROOT:
		return &options->sysroot;
	case OPTION_DEBUGINFOD:
		return &options->debuginfod;
	case OPTION_TITLE:
		return &options->title;
	case OPTION_SUBTITLE:
		return &options->subtitle;
	case OPTION_WHEN_MS:
		return &options->when_ms;
	case OPTION_SPAN_MS:
		return &options->span_ms;
	case OPTION_REMARK:
		return &options->remark;
	default:
		return NULL;
	}
}

static bool *switch_place(struct report_options *options, int id)
{
	switch (id) {
	case OPTION_SHOW_BYTES:
		return &options->render.show_bytes;
	case OPTION_DROP_NEGATIVE:
		return &options->drop_negative;
	case OPTION_HEAPCHECK:
		return &options->render.heapcheck;
	case OPTION_INVERTED:
		return &options->render.is_inverted;
	case OPTION_CONFIDENCE:
		return &options->render.confidence;
	case OPTION_NO_INLINES:
		return &options->no_inlines;
	case OPTION_FRAGMENTATION:
		return &options->fragmentation;
	case OPTION_NO_PRUNE:
		return &options->keep_allocator_frames;
	case OPTION_NO_CACHE:
		return &options->no_cache;
	case OPTION_DEBUG:
		return &options->debug;
	case OPTION_HELP:
		return &options->wants_help;
	case OPTION_VERSION:
		return &options->wants_version;
	case OPTION_TEST:
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

/* debuginfod's library asks no server at all for what it does not know as a URL. */
static bool check_servers(const char *urls, struct error *err)
{
	static const char *const schemes[] = { "http://", "https://", "file://" };
	static const char blanks[] = " \t\n";

	for (const char *at = urls + strspn(urls, blanks); *at != '\0' || at == urls;) {
		const size_t size = strcspn(at, blanks);
		bool is_known = false;
		for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
			const size_t scheme_size = strlen(schemes[i]);
			is_known |= size > scheme_size && strncmp(at, schemes[i], scheme_size) == 0;
		}
		if (!is_known)
			return error_set(err, ERROR_USAGE,
				"invalid value for --debuginfod: '%.*s'; use a URL such as "
				"https://debuginfod.debian.net",
				(int)(size < 60 ? size : 60), at);
		at += size;
		at += strspn(at, blanks);
	}
	return true;
}

static bool apply(struct parse *parse, int id, struct error *err)
{
	struct report_options *const options = parse->options;
	const struct option_parser *const parser = &parse->parser;
	const char **const text = text_place(options, id);
	bool *const is_on = switch_place(options, id);
	enum report_output output = REPORT_RENDER;

	if (text != NULL) {
		*text = parser->value;
		return id != OPTION_DEBUGINFOD || check_servers(parser->value, err);
	}
	if (is_on != NULL) {
		*is_on = !parser->is_negated;
		return true;
	}
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
	case OPTION_TAG:
		add_text(&options->tags, &options->filter.tag_count, &parse->tag_capacity,
			parser->value);
		options->filter.tags = options->tags;
		return true;
	case OPTION_BUILD_ID_DIR:
		add_text(&options->build_id_dirs, &options->build_id_dir_count,
			&parse->build_id_dir_capacity, parser->value);
		return true;
	case OPTION_SORT:
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

bool report_options_parse(struct report_options *options, const struct verb *verb, int argc,
	char **argv, bool is_jeprof, struct error *err)
{
	struct parse parse = { .options = options };
	int id = 0;

	set_defaults(options, is_jeprof);
	option_begin(&parse.parser, verb, argc, argv);
	parse.parser.classic_count = report_option_classic_count();
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
	free(options->build_id_dirs);
	options->tags = NULL;
	options->build_id_dirs = NULL;
}
