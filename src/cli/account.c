/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl account: where the resident memory of a process is, in rows that add up. */
#include "analysis/account.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json_writer.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/option.h"
#include "cli/terminal.h"
#include "cli/unattached_process.h"
#include "cli/verb.h"
#include "analysis/allocator_stats.h"
#include "render/quantity.h"
#include "source/source.h"

static const char *const sources[] = {
	[ACCOUNT_COUNTED] = NULL, /* the allocator's name */
	[ACCOUNT_MEASURED] = "kernel",
	[ACCOUNT_ESTIMATED] = "estimate",
	[ACCOUNT_REPORTED] = "agent",
};

struct account_shown {
	const char *name, *process; /* what was named, and which process that is */
	int64_t time_ms;
	bool is_target;
	const struct unattached_process *unattached; /* NULL: it has an agent, or is a bundle */
	const json_t *stats;			     /* NULL: the allocator reports none */
	const char *allocator;
	struct account account;
	struct account_profile profile;
	struct account_malloc malloc; /* name "": it is jemalloc */
};

/* A process that cannot be profiled, and a bundle of it, have no profile. */
static bool read_profile(struct source *source, struct account_profile *ret, struct error *err)
{
	CLEANUP(profile_cleanup) struct profile *profile = NULL;
	struct cursor text;

	*ret = (struct account_profile){ 0 };
	if (!source_text(source, SOURCE_PROFILE, &text, err))
		return err->kind == ERROR_UNSUPPORTED || err->kind == ERROR_STATE;
	if (cursor_left(&text) == 0)
		return true;
	if (!source_profile(source, &profile, err))
		return false;
	*ret = account_profile_of(profile);
	return true;
}

static const char *source_of(const struct account_shown *shown, const struct account_row *row)
{
	return row->source == ACCOUNT_COUNTED ? shown->allocator : sources[row->source];
}

static bool is_jemalloc(const struct account_shown *shown)
{
	return shown->malloc.name[0] == '\0';
}

/* Six columns, or four where a terminal is too narrow for them. */
struct account_layout {
	struct table *table;
	bool is_narrow;
};

static struct account_layout make_layout(void)
{
	enum { WIDE_COLUMNS = 140 };
	const bool is_narrow =
		isatty(STDOUT_FILENO) == 1 && terminal_columns(stdout) < WIDE_COLUMNS;

	return (struct account_layout){ table_new(is_narrow ? "rrll" : "rrllll"), is_narrow };
}

static void add_line(
	const struct account_layout *layout, enum terminal_style style, const char *const texts[6])
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

static void add_row(const struct account_layout *layout, const struct account_shown *shown,
	const struct account_row *row)
{
	const double sum = shown->account.has_kernel ? shown->account.resident : 0;
	char share[16] = "", option[96] = "", text[128];

	if (sum > 0 && row->kind != ACCOUNT_OUTSIDE)
		snprintf(share, sizeof share, "%.1f%%", 100 * row->bytes / sum);
	if (row->option[0] != '\0')
		allocator_stats_describe_option(shown->stats, row->option, option, sizeof option);
	snprintf(text, sizeof text, "%s", row->text);
	if (row->count != 0)
		snprintf(text, sizeof text, "%s (%llu)", row->text, (unsigned long long)row->count);
	add_line(layout, TERMINAL_PLAIN,
		(const char *[]){ quantity_format(QUANTITY_BYTES, row->bytes, false).text, share,
			source_of(shown, row), text, option, row->advice });
}

static void print_label(const struct account_shown *shown)
{
	char moment[CONTROL_TIME_BYTES];

	CLEANUP(free_cleanup) char *label = terminal_copy(shown->name);
	CLEANUP(free_cleanup) char *process = terminal_copy(shown->process);
	fputs(label, stdout);
	if (shown->process[0] != '\0' && strcmp(shown->process, shown->name) != 0)
		printf(": %s, %s", process, control_format_time(shown->time_ms, moment));
	putchar('\n');
}

/* What the rows of the allocator are missing, and how to get it. */
static void print_reason(const struct account_shown *shown)
{
	const struct account_malloc *const malloc = &shown->malloc;

	if (is_jemalloc(shown) || malloc->has_figures)
		return;
	if (malloc->reason[0] == '\0')
		printf("\nThe malloc of %s reports no figures: the table has only the kernel's.\n",
			malloc->name);
	else
		printf("\nWithout figures of %s's malloc: %s.\n", malloc->name, malloc->reason);
	if (malloc->kind == ACCOUNT_MALLOC_GLIBC && shown->is_target)
		puts("heapctl account --walk reads them anyway: some tenths of a second for a "
		     "million free chunks.");
}

static void print_absence(const struct account_shown *shown)
{
	if (shown->unattached == NULL)
		return;
	CLEANUP(free_cleanup) char *absence = terminal_copy(shown->unattached->absence.message);
	CLEANUP(free_cleanup)
	char *attach = unattached_process_describe_attach(shown->unattached);
	CLEANUP(free_cleanup) char *advice = terminal_copy(attach);
	printf("\n%s: the table has the kernel's figures.\n%s.\n", absence, advice);
}

/* Ends that print alike are no interval: without samples there is none. */
static void print_interval(const char *subject, double low, double high, const char *confidence)
{
	const struct quantity_text from = quantity_format(QUANTITY_BYTES, low, false);
	const struct quantity_text to = quantity_format(QUANTITY_BYTES, high, false);

	if (strcmp(from.text, to.text) == 0)
		printf("%s is %s.\n", subject, from.text);
	else
		printf("%s lies between %s and %s%s.\n", subject, from.text, to.text, confidence);
}

static void print_attach(const struct account_shown *shown)
{
	const struct account *const account = &shown->account;

	if (account->has_before)
		print_interval(
			"What was in use before the attach, and what the sampler does not see,",
			account->before_low, account->before_high, "");
	else if (shown->profile.is_since_attach)
		puts("It is of what was allocated since the attach. What was in use before cannot "
		     "be distinguished from free memory, as the allocator's figures are missing.");
}

static void print_text(const struct account_shown *shown)
{
	const struct account *const account = &shown->account;
	const struct account_profile *const profile = &shown->profile;
	const struct account_layout layout = make_layout();
	CLEANUP(table_cleanup) struct table *table = layout.table;
	double sum = 0;

	add_line(&layout, TERMINAL_BOLD,
		(const char *[]){ "BYTES", "OF RSS", "FROM", "WHAT", "OPTION", "WHAT CHANGES IT" });
	for (size_t i = 0; i < account->row_count; i++) {
		if (account->rows[i].kind == ACCOUNT_OUTSIDE || account->rows[i].bytes == 0)
			continue;
		add_row(&layout, shown, &account->rows[i]);
		sum += account->rows[i].bytes;
	}
	add_line(&layout, TERMINAL_BOLD,
		(const char *[]){ quantity_format(QUANTITY_BYTES, sum, false).text,
			account->has_kernel ? "100.0%" : "", account->has_kernel ? "kernel" : "",
			account->has_kernel ? "resident (RSS)" : "held by the allocator", "", "" });
	for (size_t i = 0; i < account->row_count; i++) {
		if (account->rows[i].kind == ACCOUNT_OUTSIDE && account->rows[i].bytes != 0)
			add_row(&layout, shown, &account->rows[i]);
	}
	print_label(shown);
	table_print(table, true, stdout);
	if (profile->is_there && profile->inuse_high <= 0)
		puts("\nThe profile has no samples: it says nothing about what the program uses.");
	else if (profile->is_there)
		print_interval("\nThe profile's figure", profile->inuse_low, profile->inuse_high,
			" (95%)");
	print_attach(shown);
	print_reason(shown);
	print_absence(shown);
	if (!account->has_kernel)
		puts("\nThe kernel's figures are available only on the target's machine: there, "
		     "through a gateway that may read the process, or from a bundle.");
}

/* The keys of ps --all; after those that each account has. */
static void put_unattached(struct json_writer *json, const struct unattached_process *unattached)
{
	CLEANUP(free_cleanup) char *attach = unattached_process_describe_attach(unattached);

	json_member_string(json, "state", unattached_process_state(unattached));
	json_member_bool(json, "can_attach", unattached->can_attach);
	json_member_string(
		json, "problem", unattached->can_attach ? "" : unattached->refusal.message);
	json_member_string(json, "hint", attach);
}

static void print_json(const struct account_shown *shown)
{
	const struct account *const account = &shown->account;
	const struct account_profile *const profile = &shown->profile;
	const char *const kinds[] = { is_jemalloc(shown) ? "jemalloc" : "allocator", "kernel",
		"outside" };
	CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;
	struct json_writer json;
	char option[96];

	json_init(&json, &out);
	json_object_begin(&json);
	json_member_string(&json, "target", shown->name);
	json_member_string(&json, "process", shown->process);
	json_member_integer(&json, "time_ms", shown->time_ms);
	json_member_string(&json, "allocator", shown->allocator);
	json_member_string(&json, "without_figures",
		shown->unattached != NULL ? shown->unattached->absence.message
					  : shown->malloc.reason);
	json_key(&json, "resident");
	if (account->has_kernel)
		json_put_real(&json, account->resident);
	else
		json_put_null(&json);
	json_member_array(&json, "profile_interval95");
	if (profile->is_there) {
		json_put_real(&json, profile->inuse_low);
		json_put_real(&json, profile->inuse_high);
	}
	json_array_end(&json);
	json_member_array(&json, "before_attach_interval95");
	if (account->has_before) {
		json_put_real(&json, account->before_low);
		json_put_real(&json, account->before_high);
	}
	json_array_end(&json);
	json_member_array(&json, "rows");
	for (size_t i = 0; i < account->row_count; i++) {
		const struct account_row *const row = &account->rows[i];
		option[0] = '\0';
		if (row->option[0] != '\0')
			allocator_stats_describe_option(
				shown->stats, row->option, option, sizeof option);
		json_object_begin(&json);
		json_member_string(&json, "name", row->name);
		/* Until 0.3. */
		if (strcmp(row->name, "slab_fragmentation") == 0)
			json_member_string(&json, "former_name", "slab_waste");
		json_member_string(&json, "kind", kinds[row->kind]);
		json_member_string(&json, "source", source_of(shown, row));
		json_member_string(&json, "text", row->text);
		json_member_real(&json, "bytes", row->bytes);
		json_member_string(&json, "option", option);
		json_member_string(&json, "advice", row->advice);
		json_key(&json, "count");
		if (row->count != 0)
			json_put_unsigned(&json, row->count);
		else
			json_put_null(&json);
		json_object_end(&json);
	}
	json_array_end(&json);
	if (shown->unattached != NULL)
		put_unattached(&json, shown->unattached);
	json_object_end(&json);
	puts(buffer_string(&out));
}

/* Statistics of jemalloc in `stats`, or of another malloc in shown->malloc. */
static bool read_stats(struct source *source, struct account_shown *shown,
	struct account_stats *stats, struct error *err)
{
	struct error problem;

	if (source_stats(source, &shown->stats, &problem)) {
		shown->allocator = "jemalloc";
		if (!account_malloc_read(shown->stats, &shown->malloc))
			return account_stats_read(source->name, shown->stats, stats, err);
		shown->allocator = shown->malloc.name;
		return true;
	}
	const char *const name = json_text(source_status(source), "allocator.malloc_name");
	if ((problem.kind != ERROR_UNSUPPORTED && source->kind != SOURCE_BUNDLE) ||
		name[0] == '\0') {
		*err = problem;
		return false;
	}
	shown->allocator = name;
	snprintf(shown->malloc.name, sizeof shown->malloc.name, "%s", name);
	return true;
}

struct account_request {
	bool as_json, walks_heap;
};

static void show(const struct account_request *request, const struct account_shown *shown)
{
	(request->as_json ? print_json : print_text)(shown);
}

static bool make_without_agent(
	const char *operand, const struct account_request *request, struct error *err)
{
	struct unattached_process unattached;
	struct account_shown shown = { .allocator = "", .unattached = &unattached };
	char label[128];

	if (!unattached_process_read(operand, &unattached, err))
		return false;
	snprintf(label, sizeof label, "%s[%d]", unattached.process.name,
		(int)unattached.process.pid);
	shown.name = shown.process = label;
	shown.time_ms = unattached.time_ms;
	shown.account =
		account_kernel_make(&unattached.smaps, unattached_process_has_glibc(&unattached));
	show(request, &shown);
	return true;
}

static bool make(const char *operand, const struct account_request *request, struct error *err)
{
	const struct source_options wanted = {
		.needs_agent = true, .leaves_out_threads = true, .walks_heap = request->walks_heap
	};
	CLEANUP(source_close) struct source source = { 0 };
	struct account_shown shown = { 0 };
	struct account_stats stats = { 0 };
	struct cursor status_text, smaps_text;
	struct smaps smaps;

	/* Statistics and the kernel's view one right after the other: they are compared. */
	if (!source_open(operand, &wanted, &source, err))
		return make_without_agent(operand, request, err);
	if (!source_text(&source, SOURCE_STATUS, &status_text, err))
		return unattached_process_is_stopped(&source.target.process, err) &&
		       make_without_agent(operand, request, err);
	if (!read_stats(&source, &shown, &stats, err) ||
		!source_text(&source, SOURCE_SMAPS, &smaps_text, err) ||
		!read_profile(&source, &shown.profile, err))
		return false;
	shown.name = source.name;
	shown.process = source_process(&source);
	shown.time_ms = source.time_ms;
	shown.is_target = source.kind == SOURCE_TARGET;
	stats.agent = account_agent_bytes(source_status(&source));
	shown.malloc.agent = stats.agent;
	const size_t size = cursor_left(&smaps_text);
	if (size != 0 && !smaps_read((const char *)smaps_text.start, size, &smaps))
		return error_set(err, ERROR_INPUT, "%s: smaps in it has no mapping: it is damaged",
			source.name);
	const struct smaps *const kernel = size != 0 ? &smaps : NULL;
	shown.account = is_jemalloc(&shown)
				? account_make(&stats, kernel, &shown.profile)
				: account_malloc_make(&shown.malloc, kernel, &shown.profile);
	account_split_at_attach(&shown.account, &shown.profile);
	show(request, &shown);
	return true;
}

static const struct verb_option options[] = {
	{ .name = "json", .help = "print JSON", OPTION_SWITCH(struct account_request, as_json) },
	{ .name = "walk",
		.help = "read glibc's figures even if its heaps are large: it walks all free "
			"chunks, and the program's malloc waits meanwhile",
		OPTION_SWITCH(struct account_request, walks_heap) },
	{ 0 },
};

static int run(const struct verb *verb, int argc, char **argv)
{
	struct option_parser parser;
	struct error err = { 0 };
	struct account_request request = { 0 };

	if (!option_parse(&parser, verb, argc, argv, &request))
		return parser.exit_code;
	return make(parser.operands[0], &request, &err) ? EXIT_DONE : verb_fail(&err);
}

const struct verb verb_account = {
	.name = "account",
	.arguments = "TARGET | BUNDLE [--json] [--walk]",
	.summary = "explain why a process is bigger than its profile",
	.description =
		"Puts the allocator's statistics, the kernel's account of the process (smaps) and "
		"a "
		"profile into one table: what the program uses, thread caches, slabs, freed pages, "
		"the allocator's own data, files, stacks and other memory. The rows "
		"add "
		"up to RSS. Each row says whether it is the allocator's own count, what the kernel "
		"measures, what the agent reports of its own memory, or an estimate; it names the "
		"option of the allocator that governs it, with "
		"its value in this process, and what changing it would do.\n\n"
		"jemalloc reports the most. glibc's malloc reports what is in use, free between "
		"blocks, at the top and in mapped blocks; it walks its free chunks for this while "
		"the program's malloc waits, so heapctl reads it only while its heaps are below 16 "
		"MiB, or with --walk. tcmalloc reports its caches, mimalloc its committed memory; "
		"for other mallocs there are only the kernel's figures.\n\n"
		"A process without an agent gets the kernel's rows only, and the reason. It "
		"is not stopped or woken for them. So does one that is stopped or frozen, whose "
		"agent cannot answer.\n\n"
		"With an attached agent, memory in use takes two rows: allocated since the "
		"attach, by the profile, and before the attach, which is the rest.\n\n"
		"Memory that the allocator counts and the kernel does not is a row below zero: "
		"mostly memory that the program requested and never touched. Rows of 0 bytes are "
		"left out of the table; --json has all.",
	.examples = "heapctl account redis-server\n"
		    "heapctl account night.tar",
	.options = options,
	VERB_OF_ONE_TARGET,
	.run = run,
};
