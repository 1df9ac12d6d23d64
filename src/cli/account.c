/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl account: where the resident memory of a process is, in rows that add up. */
#include "analysis/account.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json_writer.h"
#include "base/xalloc.h"
#include "cli/capture.h"
#include "cli/control.h"
#include "cli/option.h"
#include "cli/table.h"
#include "cli/terminal.h"
#include "cli/verbs.h"
#include "analysis/allocator_stats.h"
#include "profile/codec.h"
#include "render/quantity.h"

enum { OPTION_JSON = 1 };

static const struct verb_option options[] = {
	{ OPTION_JSON, "json", 0, NULL, "print JSON", NULL, NULL, false },
	{ 0 },
};

static bool read_classes(
	const json_t *document, struct account_stats *stats, double padding, struct error *err)
{
	struct allocator_stats classes = { 0 };

	if (!allocator_stats_add_classes(&classes, document, err))
		return false;
	for (size_t i = 0; i < classes.class_count; i++) {
		const struct size_class *const class = &classes.classes[i];
		if (class->is_large)
			stats->large_padding += (double)class->objects * padding;
		else
			stats->slab_waste +=
				(double)class->held_bytes - (double)class->allocated_bytes;
	}
	allocator_stats_deinit(&classes);
	return true;
}

/* Before 5.3 it was decided when jemalloc was built. */
static bool has_padding(const json_t *jemalloc)
{
	return json_at(jemalloc, "opt.cache_oblivious") != NULL
		       ? json_flag(jemalloc, "opt.cache_oblivious")
		       : json_flag(jemalloc, "config.cache_oblivious");
}

static bool read_stats(
	const struct capture *capture, struct account_stats *stats, struct error *err)
{
	const struct buffer *const part = &capture->parts[CAPTURE_STATS];
	json_error_t problem;
	CLEANUP(json_cleanup)
	json_t *document = json_loadb(part->size == 0 ? "" : part->data, part->size, 0, &problem);
	const json_t *const jemalloc = json_object_get(document, "jemalloc");
	const json_t *const merged =
		json_object_get(json_object_get(jemalloc, "stats.arenas"), "merged");

	if (merged == NULL || json_at(jemalloc, "stats.allocated") == NULL)
		return error_set(
			err, ERROR_INPUT, "%s has no statistics of jemalloc", capture->label);
	const double page = (double)json_number(jemalloc, "arenas.page");
	const char *const version = json_string_value(json_object_get(jemalloc, "version"));
	*stats = (struct account_stats){
		.allocated = (double)json_number(jemalloc, "stats.allocated"),
		.active = (double)json_number(jemalloc, "stats.active"),
		.mapped = (double)json_number(jemalloc, "stats.mapped"),
		.retained = (double)json_number(jemalloc, "stats.retained"),
		.dirty = (double)json_number(merged, "pdirty") * page,
		.muzzy = (double)json_number(merged, "pmuzzy") * page,
		.base = (double)json_number(merged, "base"),
		.internal = (double)json_number(merged, "internal"),
		.tcache = (double)json_number(merged, "tcache_bytes"),
		.is_in_break = strcmp(json_text(jemalloc, "opt.dss"), "primary") == 0,
		.has_one_arena = json_number(merged, "nthreads") <= 1 ||
				 json_number(jemalloc, "opt.narenas") == 1,
		.has_page_index = version != NULL && version[0] == '5' && page == 4096,
	};
	return read_classes(document, stats, has_padding(jemalloc) ? page : 0, err);
}

/* Eight bytes a row (src/unwind/table.h). */
static double agent_bytes(const struct capture *capture)
{
	const struct buffer *const part = &capture->parts[CAPTURE_STATUS];
	CLEANUP(json_cleanup)
	json_t *status = json_loadb(part->size == 0 ? "" : part->data, part->size, 0, NULL);
	const json_t *table;
	double rows = 0;
	size_t i;

	json_array_foreach(json_object_get(status, "unwind_tables"), i, table)
	{
		rows += (double)json_number(table, "rows");
	}
	return 8 * rows;
}

static const char *const sources[] = {
	[ACCOUNT_COUNTED] = "jemalloc",
	[ACCOUNT_MEASURED] = "kernel",
	[ACCOUNT_ESTIMATED] = "estimate",
	[ACCOUNT_REPORTED] = "agent",
};

/* The value that an option has: "dirty_decay_ms:10000". */
static void describe_option(
	const struct capture *capture, const char *option, char *text, size_t size)
{
	const struct buffer *const part = &capture->parts[CAPTURE_STATS];
	CLEANUP(json_cleanup) json_t *document = json_loadb(part->data, part->size, 0, NULL);
	const json_t *const value = json_object_get(
		json_object_get(json_object_get(document, "jemalloc"), "opt"), option);

	if (json_is_boolean(value))
		snprintf(text, size, "%s:%s", option, json_is_true(value) ? "true" : "false");
	else if (json_is_integer(value))
		snprintf(text, size, "%s:%lld", option, (long long)json_integer_value(value));
	else if (json_is_string(value))
		snprintf(text, size, "%s:%s", option, json_string_value(value));
	else
		snprintf(text, size, "%s", option);
}

static bool read_profile(
	const struct capture *capture, struct account_profile *ret, struct error *err)
{
	const struct buffer *const part = &capture->parts[CAPTURE_PROFILE];
	const struct profile_read_options wanted = { .leaves_out_threads = true };
	CLEANUP(profile_cleanup) struct profile *profile = NULL;

	*ret = (struct account_profile){ 0 };
	if (part->size == 0)
		return true;
	if (!profile_read(capture->label, part->data, part->size, &wanted, &profile, err))
		return false;
	*ret = account_profile_of(profile);
	return true;
}

/* Six columns, or four where a terminal is too narrow for them. */
struct layout {
	struct table *table;
	bool is_narrow;
};

static struct layout make_layout(void)
{
	enum { WIDE_COLUMNS = 140 };
	const bool is_narrow =
		isatty(STDOUT_FILENO) == 1 && terminal_columns(stdout) < WIDE_COLUMNS;

	return (struct layout){ table_new(is_narrow ? "rrll" : "rrllll"), is_narrow };
}

static void add_line(
	const struct layout *layout, enum terminal_style style, const char *const texts[6])
{
	const char *const option = texts[4], *const advice = texts[5];

	if (!layout->is_narrow) {
		table_add(layout->table, style, texts);
		return;
	}
	CLEANUP(free_cleanup)
	char *text = xasprintf("%s%s%s%s%s%s", texts[3], *option == '\0' ? "" : " [", option,
		*option == '\0' ? "" : "]", *advice == '\0' ? "" : ": ", advice);
	table_add(layout->table, style, (const char *[]){ texts[0], texts[1], texts[2], text });
}

static void add_row(const struct layout *layout, const struct capture *capture,
	const struct account *account, const struct account_row *row)
{
	const double sum = account->has_kernel ? account->resident : 0;
	char share[16] = "", option[96] = "";

	if (sum > 0 && row->kind != ACCOUNT_OUTSIDE)
		snprintf(share, sizeof share, "%.1f%%", 100 * row->bytes / sum);
	if (row->option[0] != '\0')
		describe_option(capture, row->option, option, sizeof option);
	add_line(layout, TERMINAL_PLAIN,
		(const char *[]){ quantity_format(QUANTITY_BYTES, row->bytes, false).text, share,
			sources[row->source], row->text, option, row->advice });
}

static void print_label(const struct capture *capture)
{
	char moment[CONTROL_MOMENT_BYTES];

	CLEANUP(free_cleanup) char *label = terminal_copy(capture->label);
	CLEANUP(free_cleanup) char *process = terminal_copy(capture->process);
	fputs(label, stdout);
	if (capture->process[0] != '\0' && strcmp(capture->process, capture->label) != 0)
		printf(": %s, %s", process, control_moment(capture->time_ms, moment));
	putchar('\n');
}

static void print_text(const struct capture *capture, const struct account *account,
	const struct account_profile *profile)
{
	const struct layout layout = make_layout();
	CLEANUP(table_cleanup) struct table *table = layout.table;
	double sum = 0;

	add_line(&layout, TERMINAL_BOLD,
		(const char *[]){ "BYTES", "OF RSS", "FROM", "WHAT", "OPTION", "WHAT CHANGES IT" });
	for (size_t i = 0; i < account->row_count; i++) {
		if (account->rows[i].kind == ACCOUNT_OUTSIDE || account->rows[i].bytes == 0)
			continue;
		add_row(&layout, capture, account, &account->rows[i]);
		sum += account->rows[i].bytes;
	}
	add_line(&layout, TERMINAL_BOLD,
		(const char *[]){ quantity_format(QUANTITY_BYTES, sum, false).text,
			account->has_kernel ? "100.0%" : "", account->has_kernel ? "kernel" : "",
			account->has_kernel ? "resident (RSS)" : "held by jemalloc", "", "" });
	for (size_t i = 0; i < account->row_count; i++) {
		if (account->rows[i].kind == ACCOUNT_OUTSIDE && account->rows[i].bytes != 0)
			add_row(&layout, capture, account, &account->rows[i]);
	}
	print_label(capture);
	table_print(table, true, stdout);
	if (profile->is_there && profile->inuse_high <= 0)
		puts("\nThe profile has no samples: it says nothing about what the program uses.");
	else if (profile->is_there)
		printf("\nThe profile's figure lies between %s and %s (95%%).\n",
			quantity_format(QUANTITY_BYTES, profile->inuse_low, false).text,
			quantity_format(QUANTITY_BYTES, profile->inuse_high, false).text);
	if (!account->has_kernel)
		puts("\nThe kernel's part is known only on the target's own machine: from here, "
		     "from a "
		     "gateway there that may read the process, or from a bundle taken there.");
}

static void print_json(const struct capture *capture, const struct account *account,
	const struct account_profile *profile)
{
	static const char *const kinds[] = { "jemalloc", "kernel", "outside" };
	CLEANUP(buffer_cleanup) struct buffer out = { 0 };
	struct json_writer json;
	char option[96];

	buffer_init(&out, &memory_or_exit);
	json_init(&json, &out);
	json_object_begin(&json);
	json_member_string(&json, "target", capture->label);
	json_member_string(&json, "process", capture->process);
	json_member_integer(&json, "time_ms", capture->time_ms);
	json_key(&json, "resident");
	if (account->has_kernel)
		json_put_real(&json, account->resident);
	else
		json_put_null(&json);
	json_key(&json, "profile_interval95");
	json_array_begin(&json);
	if (profile->is_there) {
		json_put_real(&json, profile->inuse_low);
		json_put_real(&json, profile->inuse_high);
	}
	json_array_end(&json);
	json_key(&json, "rows");
	json_array_begin(&json);
	for (size_t i = 0; i < account->row_count; i++) {
		const struct account_row *const row = &account->rows[i];
		option[0] = '\0';
		if (row->option[0] != '\0')
			describe_option(capture, row->option, option, sizeof option);
		json_object_begin(&json);
		json_member_string(&json, "name", row->name);
		json_member_string(&json, "kind", kinds[row->kind]);
		json_member_string(&json, "source", sources[row->source]);
		json_member_string(&json, "text", row->text);
		json_member_real(&json, "bytes", row->bytes);
		json_member_string(&json, "option", option);
		json_member_string(&json, "advice", row->advice);
		json_object_end(&json);
	}
	json_array_end(&json);
	json_object_end(&json);
	puts(buffer_string(&out));
}

static bool make(const char *operand, bool as_json, struct error *err)
{
	CLEANUP(capture_deinit) struct capture capture = { 0 };
	struct account_profile profile;
	struct account_stats stats;
	struct smaps smaps;

	capture_init(&capture);
	if (!capture_open(operand, &capture, err) || !read_stats(&capture, &stats, err) ||
		!read_profile(&capture, &profile, err))
		return false;
	stats.agent = agent_bytes(&capture);
	const struct buffer *const part = &capture.parts[CAPTURE_SMAPS];
	const bool has_smaps = part->size != 0;
	if (has_smaps && !smaps_read(part->data, part->size, &smaps))
		return error_set(err, ERROR_INPUT, "%s: smaps in it has no mapping: it is damaged",
			capture.label);
	const struct account account = account_make(&stats, has_smaps ? &smaps : NULL, &profile);
	(as_json ? print_json : print_text)(&capture, &account, &profile);
	return true;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct option_parser parser;
	struct error err = { 0 };
	bool as_json = false;

	option_begin(&parser, verb, argc, argv);
	for (int id; (id = option_next(&parser)) != OPTION_END;) {
		if (id != OPTION_JSON)
			return parser.exit_code;
		as_json = true;
	}
	return make(parser.operands[0], as_json, &err) ? EXIT_DONE : verb_fail(&err);
}

const struct verb verb_account = {
	.name = "account",
	.arguments = "TARGET | BUNDLE [--json]",
	.summary = "why the process is bigger than its profile: rows that add up",
	.description =
		"Puts jemalloc's statistics, the kernel's account of the process (smaps) and a "
		"profile into one table: what the program uses, what thread caches, slabs, freed "
		"pages and jemalloc's own data hold, files, stacks and other memory. The rows add "
		"up to RSS. Each row says whether it is jemalloc's own count, what the kernel "
		"measures, what the agent reports of its own memory, or an estimate; it names the "
		"option of jemalloc that governs it, with "
		"its value in this process, and what changing it would do.\n\n"
		"What jemalloc counts and the kernel does not have is a row below zero: memory "
		"that the program asked for and never touched, mostly. Rows of no bytes are left "
		"out of the table; --json has all.",
	.examples = "heapctl account redis-server\n"
		    "heapctl account night.tar",
	.options = options,
	.complete = "@target",
	.least_operands = 1,
	.most_operands = 1,
	.run = run,
};
