/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl top: which functions use the memory, live. */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/terminal.h"
#include "cli/top_job.h"
#include "cli/top_help.h"
#include "cli/top_table.h"
#include "cli/verb.h"
#include "client/target_resolve.h"

enum { OPTION_INTERVAL = 1, OPTION_SORT, OPTION_SHOW, OPTION_FILTER };

/* Lines of the screen that are no sites. */
enum { FOOT_ROWS = 1, FILTER_BYTES = 64 };

struct top {
	const char *operand;
	bool is_tree; /* several processes, which are found anew each time */
	struct target target;
	int64_t interval_ms;
	int64_t count; /* 0: no end */
	int64_t rows;
	enum top_order order;
	enum top_list list;
	char filter[FILTER_BYTES];

	struct top_snapshot base, now;
	bool has_base, has_now;
	int64_t taken;
	int64_t due_ms;
	size_t skip, matching;
	bool is_frozen, is_typing, is_done;
	bool has_left_out; /* processes, others than before */
	bool shows_help;   /* in the place of the sites, until a key */
	size_t help_skip;
	char typed[FILTER_BYTES];
	char message[256]; /* at the foot, until the next snapshot */

	struct top_job *job; /* under way; NULL: none */
	enum top_switch wanted;
	enum stack_pruning pruning;
};

static const struct verb_option options[] = {
	{ OPTION_INTERVAL, "interval", 'i', "TIME", .help = "how often to take a profile [2s]",
		.complete = "1s 2s 10s 1mins" },
	{ 0, "count", 'n', "N", .help = "end after this number of profiles",
		OPTION_NUMBER(struct top, count, 1, INT32_MAX) },
	{ OPTION_SORT, "sort", 's', "ORDER", .help = "inuse, growth or objects [inuse]",
		.complete = "inuse growth objects" },
	{ OPTION_SHOW, "show", 0, "WHAT", .help = "sites, threads or processes [sites]",
		.complete = "sites threads processes" },
	{ OPTION_FILTER, "filter", 'f', "TEXT", .help = "only what has this text in its name" },
	{ 0, "rows", 0, "N", .help = "rows of a table in a pipe [20]",
		OPTION_NUMBER(struct top, rows, 1, 1000000) },
	{ .name = "no-prune",
		.help = "keep the allocator's own functions, and wrappers of them",
		OPTION_CHOICE(struct top, enum stack_pruning, pruning, PRUNE_NOTHING) },
	{ 0 },
};

static void forget(struct top_snapshot *snapshot, bool *has_it)
{
	if (*has_it)
		top_snapshot_deinit(snapshot);
	*has_it = false;
}

/* Growth counts from the first snapshot of a process or of an attach. Takes ownership. */
static void accept_snapshot(struct top *top, const struct top_snapshot *snapshot)
{
	top->has_left_out = snapshot->left_out_count > 0 &&
			    (!top->has_now || top->now.left_out_count != snapshot->left_out_count);
	forget(&top->now, &top->has_now);
	top->now = *snapshot;
	top->has_now = true;
	top->taken++;
	if (!top->has_base || top->base.pid != snapshot->pid ||
		top->base.attached_ms != snapshot->attached_ms) {
		forget(&top->base, &top->has_base);
		top_snapshot_copy(&top->base, snapshot);
		top->has_base = true;
	}
	top_snapshot_compare(&top->now, &top->base);
}

static bool start_job(struct top *top, bool wants_snapshot, struct error *err)
{
	const struct top_request request = {
		.operand = top->operand,
		.is_tree = top->is_tree,
		.target = top->target,
		.sampling = top->wanted,
		.wants_snapshot = wants_snapshot,
		.pruning = top->pruning,
	};

	top->wanted = TOP_SWITCH_LEAVE;
	return top_job_start(&request, &top->job, err);
}

static bool take_snapshot(struct top *top, struct error *err)
{
	struct top_result result;

	if (!start_job(top, true, err))
		return false;
	struct pollfd pollers[] = {
		{ .fd = top_job_fd(top->job), .events = POLLIN },
		{ .fd = *terminal_interrupt_fd(), .events = POLLIN },
	};
	while (poll(pollers, 2, -1) <= 0)
		;
	if (pollers[0].revents == 0)
		return error_set(err, ERROR_TIMEOUT, "%s: interrupted", top->target.label);
	top_job_finish(top->job, &result);
	top->job = NULL;
	if (!result.has_snapshot) {
		*err = result.snapshot_err;
		return false;
	}
	top->target = result.target;
	accept_snapshot(top, &result.snapshot);
	return true;
}

static bool print_tables(struct top *top, struct error *err)
{
	terminal_catch_interrupts();
	while (!terminal_was_interrupted()) {
		CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;
		const struct top_table table = { .label = top->target.label,
			.list = top->list,
			.order = top->order,
			.filter = top->filter,
			.heading_rows = TOP_HEADING_ROWS,
			.rows = (size_t)top->rows };

		if (!take_snapshot(top, err))
			return terminal_was_interrupted();
		if (top->has_left_out)
			verb_warn("left out: %s", top->now.left_out);
		if (top->taken == 1 && top->list == TOP_THREADS &&
			top->now.lists[TOP_THREADS].count == 0 &&
			top->now.lists[TOP_SITES].count > 0)
			verb_warn("no threads: only jemalloc's profiles have them (--show sites)");
		buffer_append_string(&out, top->taken > 1 ? "\n" : "");
		top_table_write(&table, &top->now, &out);
		if (!file_write_fd(STDOUT_FILENO, "standard output", out.data, out.size, err))
			return false;
		if (top->count > 0 && top->taken >= top->count)
			return true;
		terminal_sleep_ms(top->interval_ms);
	}
	return true;
}

/* As many of the keys as fit, in order of use. */
static void write_keys(size_t columns, char *text, size_t size)
{
	static const char *const keys[] = { "q quit", "h help", "u use", "g growth", "o objects",
		"/ filter", "p processes", "t threads", "s sites", "f freeze", "a sampling",
		"b growth=0" };
	size_t used = 0;

	text[0] = '\0';
	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		const size_t more = strlen(keys[i]) + (used == 0 ? 0 : 2);
		if (used + more > columns || used + more >= size)
			return;
		used += (size_t)snprintf(
			text + used, size - used, "%s%s", used == 0 ? "" : "  ", keys[i]);
	}
}

static size_t help_rows(void)
{
	const int rows = screen_size().rows - FOOT_ROWS;

	return rows < 1 ? 1 : (size_t)rows;
}

/* Of texts that say the same, the longest that the terminal has room for. */
static void write_shortened(size_t columns, char *text, size_t size, const char *const texts[3])
{
	snprintf(text, size, "%s", top_table_choose(columns, texts, 3));
}

static void write_foot(const struct top *top, size_t columns, struct buffer *out)
{
	static const char *const scroll_keys[] = { "arrows scroll, any other key returns",
		"arrows scroll, others return", "any key returns" };
	static const char *const any_key[] = { "any key returns", "any key returns", "any key" };
	static const char *const waiting[] = { "q quit  waiting for the first profile",
		"q quit  waiting for a profile", "q quit  waiting" };
	static const char *const unsampled[] = { "nothing was sampled; a switches sampling on",
		"nothing sampled; a starts it", "a starts sampling" };
	static const char *const threadless[] = {
		"no threads: only jemalloc's profiles have them; s shows sites",
		"no threads: jemalloc alone has them", "no threads; s shows sites"
	};
	char text[400];

	if (top->shows_help)
		write_shortened(columns, text, sizeof text,
			top_help_is_cut(help_rows()) ? scroll_keys : any_key);
	else if (top->is_typing)
		snprintf(text, sizeof text, "only names with: %s_", top->typed);
	else if (top->message[0] != '\0')
		snprintf(text, sizeof text, "%s", top->message);
	else if (!top->has_now)
		write_shortened(columns, text, sizeof text, waiting);
	else if (top->now.lists[TOP_SITES].count == 0 && top->now.active_count == 0)
		write_shortened(columns, text, sizeof text, unsampled);
	else if (top->list == TOP_THREADS && top->now.lists[TOP_THREADS].count == 0)
		write_shortened(columns, text, sizeof text, threadless);
	else
		write_keys(columns, text, sizeof text);
	top_table_line(out, columns, text);
}

/* On a low terminal the sites have more use than the totals above them. */
static size_t heading_rows(void)
{
	enum { ROWS_BESIDE = 6, ROWS_MIN = 3 };
	const int rows = screen_size().rows - ROWS_BESIDE;

	if (screen_size().rows < ROWS_MIN)
		return 0;
	return rows >= TOP_HEADING_ROWS ? TOP_HEADING_ROWS : rows < 1 ? 1 : (size_t)rows;
}

static size_t site_rows(void)
{
	const int rows = screen_size().rows - (int)heading_rows() - FOOT_ROWS;

	return rows < 1 ? 1 : (size_t)rows;
}

static void draw(struct top *top)
{
	CLEANUP(buffer_deinit) struct buffer lines = BUFFER_OR_EXIT;
	const size_t columns = (size_t)screen_size().columns;
	const struct top_table table = { .label = top->target.label,
		.list = top->list,
		.order = top->order,
		.filter = top->filter,
		.skip = top->skip,
		.rows = site_rows(),
		.columns = columns,
		.heading_rows = heading_rows(),
		.is_frozen = top->is_frozen };

	if (top->shows_help)
		top_help_write(columns, help_rows(), top->help_skip, &lines);
	else if (top->has_now)
		top->matching = top_table_write(&table, &top->now, &lines);
	else
		top_table_line(&lines, columns, top->target.label);
	if (screen_size().rows > FOOT_ROWS)
		write_foot(top, columns, &lines);
	screen_draw(&lines);
}

/* With the next job, which begins at once. */
static void switch_sampling(struct top *top)
{
	const bool on = !(top->has_now && top->now.is_sampling);

	top->wanted = on ? TOP_SWITCH_ON : TOP_SWITCH_OFF;
	snprintf(top->message, sizeof top->message, "switching sampling %s", on ? "on" : "off");
}

static void type(struct top *top, int key)
{
	const size_t size = strlen(top->typed);

	if (key == '\r' || key == '\n') {
		memcpy(top->filter, top->typed, sizeof top->filter);
		top->skip = 0;
		top->is_typing = false;
	} else if (key == '\033') {
		top->is_typing = false;
	} else if ((key == '\b' || key == 0x7f) && size > 0) {
		top->typed[size - 1] = '\0';
	} else if (key >= ' ' && key < 256 && key != 0x7f && size + 1 < sizeof top->typed) {
		top->typed[size] = (char)key;
		top->typed[size + 1] = '\0';
	}
}

static void scroll(struct top *top, int64_t by)
{
	const int64_t wanted = (int64_t)top->skip + by;

	top->skip = wanted < 0 ? 0
		    : wanted >= (int64_t)top->matching
			    ? (top->matching == 0 ? 0 : top->matching - 1)
			    : (size_t)wanted;
}

static void sort_by(struct top *top, enum top_order order)
{
	top->order = order;
	top->skip = 0;
}

static void show_list(struct top *top, enum top_list list)
{
	top->list = list;
	top->skip = 0;
}

static void act(struct top *top, int key)
{
	if (top->shows_help && key != 'q') {
		top->shows_help = top_help_scroll(key, help_rows(), &top->help_skip);
		return;
	}
	switch (key) {
	case 'q':
		top->is_done = true;
		break;
	case 'h':
	case '?':
		top->shows_help = true;
		top->help_skip = 0;
		break;
	case 'u':
		sort_by(top, TOP_BY_BYTES);
		break;
	case 'g':
		sort_by(top, TOP_BY_GROWTH);
		break;
	case 'o':
		sort_by(top, TOP_BY_OBJECTS);
		break;
	case 's':
		show_list(top, TOP_SITES);
		break;
	case 't':
		show_list(top, TOP_THREADS);
		break;
	case 'p':
		show_list(top, TOP_PROCESSES);
		break;
	case '/':
		memcpy(top->typed, top->filter, sizeof top->typed);
		top->is_typing = true;
		break;
	case 'f':
	case ' ':
		top->is_frozen = !top->is_frozen;
		break;
	case 'a':
		switch_sampling(top);
		break;
	case 'b':
		forget(&top->base, &top->has_base);
		top->due_ms = 0;
		break;
	case SCREEN_KEY_UP:
	case SCREEN_KEY_DOWN:
		scroll(top, key == SCREEN_KEY_UP ? -1 : 1);
		break;
	case SCREEN_KEY_PAGE_UP:
	case SCREEN_KEY_PAGE_DOWN:
		scroll(top,
			key == SCREEN_KEY_PAGE_UP ? -(int64_t)site_rows() : (int64_t)site_rows());
		break;
	case SCREEN_KEY_HOME:
		top->skip = 0;
		break;
	default:
		break;
	}
}

static void note_switch(struct top *top, const struct top_result *result, bool on)
{
	if (!result->has_switched) {
		snprintf(top->message, sizeof top->message, "%s", result->switch_err.message);
		return;
	}
	if (top->has_now) {
		top->now.is_sampling = on;
		top->now.active_count = on ? top->now.process_count : 0;
	}
	snprintf(top->message, sizeof top->message, "sampling is %s now", on ? "on" : "off");
}

/* False when the first snapshot failed: there is nothing to show. */
static bool finish_job(struct top *top, const struct top_request *request, struct error *err)
{
	struct top_result result;

	top_job_finish(top->job, &result);
	top->job = NULL;
	top->message[0] = '\0';
	if (result.has_snapshot) {
		top->target = result.target;
		accept_snapshot(top, &result.snapshot);
		if (top->has_left_out)
			snprintf(top->message, sizeof top->message, "left out: %s",
				top->now.left_out);
	} else if (request->wants_snapshot) {
		snprintf(top->message, sizeof top->message, "%s", result.snapshot_err.message);
		*err = result.snapshot_err;
	}
	if (request->sampling != TOP_SWITCH_LEAVE)
		note_switch(top, &result, request->sampling == TOP_SWITCH_ON);
	if (request->wants_snapshot)
		top->due_ms = clock_monotonic_ms() + top->interval_ms;
	return !request->wants_snapshot || top->has_now;
}

/* Whether there is something to ask, unless a question is under way. */
static bool is_due(const struct top *top)
{
	const bool is_time = !top->is_frozen && clock_monotonic_ms() >= top->due_ms;

	return top->job == NULL && (top->wanted != TOP_SWITCH_LEAVE || is_time);
}

static int await_key(const struct top *top)
{
	const bool waits = top->job != NULL || top->is_frozen;

	return screen_read_key(waits ? 3600 * 1000 : top->due_ms - clock_monotonic_ms(),
		top->job == NULL ? -1 : top_job_fd(top->job));
}

static bool is_ready(const struct top_job *job)
{
	struct pollfd poller = { .fd = top_job_fd(job), .events = POLLIN };

	return poll(&poller, 1, 0) > 0;
}

/* False, with the reason, when not even the first snapshot succeeded. */
static bool run_screen(struct top *top, struct error *err)
{
	struct top_request request = { 0 };

	while (!top->is_done && !screen_has_ended()) {
		if (is_due(top)) {
			if (top->count > 0 && top->taken >= top->count)
				return true;
			request = (struct top_request){ .sampling = top->wanted,
				.wants_snapshot = !top->is_frozen || !top->has_now };
			if (!start_job(top, request.wants_snapshot, err))
				return false;
		}
		draw(top);
		const int key = await_key(top);
		if (key != SCREEN_KEY_NONE && top->is_typing)
			type(top, key);
		else if (key != SCREEN_KEY_NONE)
			act(top, key);
		if (top->job != NULL && is_ready(top->job) && !finish_job(top, &request, err))
			return false;
	}
	return true;
}

static bool show(struct top *top, struct error *err)
{
	if (!screen_open(err))
		return false;
	/* The picture has no place for it. */
	agent_on_silence(NULL);
	const bool ok = run_screen(top, err);
	screen_close();
	return ok;
}

/* Ends what is under way; where that takes long, the program with it. */
static void end_job(struct top *top, int exit_code)
{
	if (top->job == NULL || top_job_cancel(top->job))
		return;
	fflush(NULL);
	_exit(exit_code);
}

/* The position of a word in a list that ends with NULL. */
static bool parse_word(const char *text, const char *const *words, unsigned *at)
{
	for (unsigned i = 0; words[i] != NULL; i++) {
		if (strcmp(words[i], text) == 0) {
			*at = i;
			return true;
		}
	}
	return false;
}

static bool find_target(struct top *top, struct error *err)
{
	top->is_tree = target_tree_detect(top->operand);
	if (!top->is_tree)
		return target_resolve(top->operand, &top->target, err);
	snprintf(top->target.label, sizeof top->target.label, "%s", top->operand);
	return true;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct top top = { .interval_ms = 2000, .rows = 20 };
	static const char *const orders[] = { "inuse", "growth", "objects", NULL };
	static const char *const lists[] = { "sites", "threads", "processes", NULL };
	struct option_parser parser;
	struct error err;
	unsigned at;

	option_begin(&parser, verb, argc, argv, &top);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		switch (id) {
		case OPTION_INTERVAL:
			if (!duration_parse(parser.value, &top.interval_ms, &err))
				return option_refuse_error(&parser, &err);
			if (top.interval_ms < 100 || top.interval_ms > 24 * 3600 * 1000)
				return option_refuse(
					&parser, "'%s' is not from 100ms to 24hrs", parser.value);
			break;
		case OPTION_SORT:
			if (!parse_word(parser.value, orders, &at))
				return option_refuse(&parser,
					"'%s' is not inuse, growth or objects", parser.value);
			top.order = (enum top_order)at;
			break;
		case OPTION_SHOW:
			if (!parse_word(parser.value, lists, &at))
				return option_refuse(&parser,
					"'%s' is not sites, threads or processes", parser.value);
			top.list = (enum top_list)at;
			break;
		case OPTION_FILTER:
			if (strlen(parser.value) >= sizeof top.filter)
				return option_refuse(&parser, "the text is longer than %zu bytes",
					sizeof top.filter - 1);
			strcpy(top.filter, parser.value);
			break;
		default:
			return parser.exit_code;
		}
	}
	top.operand = parser.operands[0];
	const bool ok = find_target(&top, &err) &&
			(screen_is_possible() ? show(&top, &err) : print_tables(&top, &err));
	end_job(&top, ok ? EXIT_DONE : EXIT_FAILED);
	forget(&top.now, &top.has_now);
	forget(&top.base, &top.has_base);
	return ok ? EXIT_DONE : verb_fail(&err);
}

const struct verb verb_top = {
	.name = "top",
	.arguments = "TARGET [--show WHAT] [--interval TIME] [--sort ORDER] [--filter TEXT]",
	.summary = "show live which sites use memory and which grow",
	.description =
		"Takes a profile every two seconds and shows the sites that use the "
		"most memory, or have grown the most since the start of the view, with "
		"the 95% interval of the sampling. A site is named by the innermost "
		"functions of its stacks.\n\n"
		"TARGET:* adds up the processes that TARGET names and all their descendants.\n\n"
		"Keys: u, g, o sort by bytes in use, growth, objects; s, t, p show sites, "
		"threads (of jemalloc), or processes as a tree; / filters by a "
		"part of the name; f or the space bar freezes; a switches sampling on "
		"or off; b counts growth from now; arrows scroll; h explains the keys; q "
		"quits. A narrow terminal has the "
		"column that is sorted by, and others as far as names have room.\n\n"
		"In a pipe it prints a table each time, with the maximum error of the "
		"growth, which assumes that no object of the start is left.",
	.examples = "heapctl top redis-server\n"
		    "# a server that forks: its processes as a tree\n"
		    "heapctl top 'redis-server:*' --show processes\n"
		    "# what grows within a minute, for a log\n"
		    "heapctl top redis-server --sort growth --interval 1mins --count 2 | cat",
	.options = options,
	VERB_OF_ONE_TARGET,
	.run = run,
};
