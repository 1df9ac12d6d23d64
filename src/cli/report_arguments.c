/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_arguments.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/xalloc.h"
#include "cli/debuginfod_urls.h"
#include "cli/option.h"
#include "cli/report_option_ids.h"

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

/* A word from a list, and what else it chooses. */
static bool apply_word(struct parse *parse, int id, struct error *err)
{
	struct report_options *const options = parse->options;
	void *const member = (char *)options + parse->parser.option->offset;

	if (!option_word(&parse->parser, member, err))
		return false;
	if (id == OPTION_SAMPLE_INDEX)
		return set_counter(parse, options->counter, err);
	if (id == OPTION_GRANULARITY)
		return set_granularity(parse, options->granularity, err);
	options->has_sort = true;
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

/* Which figures are shown and of what. */
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
		return true;
	}
}

static bool apply(struct parse *parse, int id, struct error *err)
{
	struct report_options *const options = parse->options;
	const struct option_parser *const parser = &parse->parser;
	enum report_output output = REPORT_RENDER;
	int64_t ignored = 0;

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
	case OPTION_TEST_STRIDE:
		return option_integer(parser, 0, INT64_MAX, &ignored, err);
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
	case OPTION_SAMPLE_INDEX:
	case OPTION_GRANULARITY:
		return apply_word(parse, id, err);
	case OPTION_REFUSED:
		return error_set(err, ERROR_USAGE, "there is no --%s: %s", parser->option->name,
			parser->option->help);
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
		.divide_by = 1,
		.relative_percentages = true,
		.trim = true,
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
	if (!options->trim && options->output != REPORT_INTERACTIVE)
		options->render.graph = GRAPH_LIMITS_NONE;
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
