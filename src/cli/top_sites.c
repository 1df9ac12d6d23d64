/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top_sites.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>

#include "analysis/view_builder.h"
#include "base/clock.h"
#include "base/units.h"
#include "base/utf8.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/input_guard.h"
#include "cli/report_session.h"
#include "cli/terminal.h"
#include "client/agent_client.h"
#include "render/quantity.h"
#include "source/source.h"
#include "source/symbolize.h"
#include "client/target_resolve.h"

enum { SITE_FUNCTIONS = 3 };

static bool fetch(const struct target *target, struct profile **profile, struct error *err)
{
	const struct source_options wanted = { .leaves_out_threads = true };
	CLEANUP(source_close) struct source source = { 0 };

	source_of_target(target, &wanted, &source);
	return source_profile(&source, profile, err);
}

static bool fetch_figures(
	const struct target *target, struct top_snapshot *snapshot, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	if (!agent_check_profiling(target, &status, err))
		return false;
	snapshot->is_sampling = json_flag(status, "profiling.active");
	snapshot->pid = json_number(status, "pid");
	snapshot->allocated_bytes = json_number(status, "memory.allocated");
	snapshot->resident_bytes = json_number(status, "memory.resident");
	snapshot->time_ms = clock_realtime_ms();
	return true;
}

/* Names come from the cache on disk after the first time; nothing grows from snapshot to snapshot.
 */
static bool make_view(const struct target *target, struct profile *profile,
	enum stack_pruning pruning, struct view **view, struct error *err)
{
	CLEANUP(free_cleanup) char *cache_dir = report_session_cache_dir();
	const struct symbolizer_options symbols = { .cache_dir = cache_dir, .no_inlines = true };
	const struct symbolize_options process = {
		.pid = target->kind == TARGET_AGENT ? target->process.pid : 0
	};
	const struct filter_text everything = { 0 };
	const struct view_input input = { .profile = profile };
	CLEANUP(symbolizer_cleanup) struct symbolizer *symbolizer = symbolizer_new(&symbols);
	CLEANUP(filter_cleanup) struct filter *filter = NULL;

	input_guard_begin("finding the names of functions");
	const bool is_done = symbolize(symbolizer, &profile, 1, &process, err);
	input_guard_end();
	if (!is_done || !filter_new(&everything, &filter, err))
		return false;
	const struct view_request request = { .granularity = VIEW_FUNCTIONS,
		.counter = PROFILE_INUSE_SPACE,
		.filter = filter,
		.pruning = pruning,
		.no_inlines = true,
		.title = "",
		.subtitle = "" };
	return view_build(&input, 1, &request, view, err);
}

/* Innermost first. */
static void name_site(const struct view *view, const struct view_path *path, struct buffer *name)
{
	buffer_clear(name);
	if (path->depth == 0)
		buffer_append_string(name, "(no stack)");
	for (uint32_t i = 0; i < SITE_FUNCTIONS && i < path->depth; i++) {
		const uint32_t node = view->path_nodes[path->first + path->depth - 1 - i];
		buffer_append_string(name, i == 0 ? "" : " < ");
		buffer_append_string(name, view->nodes[node].name);
	}
}

static int compare_names(const void *a, const void *b)
{
	const struct top_site *const x = a, *const y = b;

	return strcmp(x->name, y->name);
}

static void merge_sites(struct top_snapshot *snapshot)
{
	size_t kept = 0;

	if (snapshot->site_count == 0)
		return;
	qsort(snapshot->sites, snapshot->site_count, sizeof *snapshot->sites, compare_names);
	for (size_t i = 1; i < snapshot->site_count; i++) {
		struct top_site *const last = &snapshot->sites[kept];
		if (strcmp(last->name, snapshot->sites[i].name) == 0) {
			estimate_add(&last->bytes, snapshot->sites[i].bytes);
			last->objects += snapshot->sites[i].objects;
		} else {
			snapshot->sites[++kept] = snapshot->sites[i];
		}
	}
	snapshot->site_count = kept + 1;
}

static void collect_sites(const struct view *view, struct top_snapshot *snapshot)
{
	CLEANUP(buffer_deinit) struct buffer name = BUFFER_OR_EXIT;

	snapshot->sites = xcalloc(view->path_count, sizeof *snapshot->sites);
	for (size_t i = 0; i < view->path_count; i++) {
		const struct view_path *const path = &view->paths[i];
		const struct estimate bytes = path->now[PROFILE_INUSE_SPACE];
		if (bytes.value <= 0)
			continue;
		name_site(view, path, &name);
		snapshot->sites[snapshot->site_count++] = (struct top_site){
			.name = string_pool_add(&snapshot->names, buffer_string(&name)),
			.bytes = bytes,
			.objects = path->now[PROFILE_INUSE_OBJECTS].value,
		};
		estimate_add(&snapshot->bytes, bytes);
		snapshot->objects += path->now[PROFILE_INUSE_OBJECTS].value;
	}
	merge_sites(snapshot);
}

/* Asks the target. Initialises `snapshot`, which is to be deinited when that went well. */
MUST_CHECK static bool top_snapshot_take(const struct target *target, enum stack_pruning pruning,
	struct top_snapshot *snapshot, struct error *err)
{
	struct profile *profile = NULL;
	CLEANUP(view_cleanup) struct view *view = NULL;
	struct top_snapshot taken = { 0 };

	if (!fetch_figures(target, &taken, err) || !fetch(target, &profile, err))
		return false;
	const bool ok = make_view(target, profile, pruning, &view, err);
	if (ok) {
		string_pool_init(&taken.names);
		collect_sites(view, &taken);
		taken.attached_ms = view->attached_ms;
		*snapshot = taken;
	}
	profile_free(profile);
	return ok;
}

void top_snapshot_deinit(struct top_snapshot *snapshot)
{
	free(snapshot->sites);
	string_pool_deinit(&snapshot->names);
	*snapshot = (struct top_snapshot){ 0 };
}

void top_snapshot_copy(struct top_snapshot *copy, const struct top_snapshot *snapshot)
{
	*copy = *snapshot;
	string_pool_init(&copy->names);
	copy->sites = xcalloc(snapshot->site_count, sizeof *copy->sites);
	for (size_t i = 0; i < snapshot->site_count; i++) {
		copy->sites[i] = snapshot->sites[i];
		copy->sites[i].name = string_pool_add(&copy->names, snapshot->sites[i].name);
	}
}

void top_snapshot_compare(struct top_snapshot *snapshot, const struct top_snapshot *base)
{
	const size_t own_count = snapshot->site_count;

	snapshot->base_bytes = base->bytes.value;
	snapshot->base_variance = base->bytes.variance;
	snapshot->base_ms = base->time_ms;
	snapshot->sites = xreallocarray(
		snapshot->sites, own_count + base->site_count, sizeof *snapshot->sites);
	for (size_t i = 0; i < base->site_count; i++) {
		const struct top_site *const before = &base->sites[i];
		struct top_site *const now = own_count == 0
						     ? NULL
						     : bsearch(before, snapshot->sites, own_count,
							       sizeof *before, compare_names);
		if (now != NULL) {
			now->base_bytes = before->bytes.value;
			now->base_variance = before->bytes.variance;
			continue;
		}
		snapshot->sites[snapshot->site_count++] = (struct top_site){
			.name = string_pool_add(&snapshot->names, before->name),
			.base_bytes = before->bytes.value,
			.base_variance = before->bytes.variance,
		};
	}
}

/* Half the width of a 95% interval, in standard errors. */
static const double INTERVAL = 1.96;

static double growth(const struct top_site *site)
{
	return site->bytes.value - site->base_bytes;
}

/*
 * As if no object were in both profiles: what stayed was sampled once, so that the error is this at
 * most. A site that did not change at all is the same samples.
 */
static double growth_error(struct estimate now, double base_bytes, double base_variance)
{
	return now.value == base_bytes ? 0 : INTERVAL * sqrt(now.variance + base_variance);
}

static int descending(double x, double y)
{
	return (x < y) - (x > y);
}

static int by_bytes(const void *a, const void *b)
{
	const struct top_site *const x = a, *const y = b;
	const int order = descending(x->bytes.value, y->bytes.value);

	return order != 0 ? order : strcmp(x->name, y->name);
}

static int by_growth(const void *a, const void *b)
{
	const int order = descending(growth(a), growth(b));

	return order != 0 ? order : by_bytes(a, b);
}

static int by_objects(const void *a, const void *b)
{
	const struct top_site *const x = a, *const y = b;
	const int order = descending(x->objects, y->objects);

	return order != 0 ? order : by_bytes(a, b);
}

static int (*const orders[])(const void *, const void *) = {
	[TOP_BY_BYTES] = by_bytes,
	[TOP_BY_GROWTH] = by_growth,
	[TOP_BY_OBJECTS] = by_objects,
};

void top_table_line(struct buffer *out, size_t columns, const char *text)
{
	size_t left = strlen(text);

	for (size_t column = 0; left > 0 && (columns == 0 || column < columns); column++) {
		size_t size = utf8_length(text, left);
		if (size != 0 && utf8_is_printable(text, size))
			buffer_append(out, text, size);
		else
			buffer_append_char(out, '?');
		size = size == 0 ? 1 : size;
		text += size;
		left -= size;
	}
	buffer_append_char(out, '\n');
}

static struct quantity_text bytes_text(double bytes, bool is_change)
{
	return quantity_format(QUANTITY_BYTES, bytes, is_change);
}

static void write_styled(
	struct buffer *out, size_t columns, enum terminal_style style, const char *text)
{
	CLEANUP(buffer_deinit) struct buffer line = BUFFER_OR_EXIT;

	top_table_line(&line, columns, text);
	buffer_append_string(out, terminal_begin(stdout, style));
	buffer_append(out, line.data, line.size - 1);
	buffer_append_string(out, terminal_end(stdout));
	buffer_append_char(out, '\n');
}

/* A terminal that is narrower than this has no room for every column beside names. */
enum { WIDE_COLUMNS = 100 };

static bool is_narrow(const struct top_table *table)
{
	return table->columns != 0 && table->columns < WIDE_COLUMNS;
}

/* The columns before the names, in their order. */
enum site_column {
	SITE_BYTES,
	SITE_BYTES_ERROR,
	SITE_GROWTH,
	SITE_GROWTH_ERROR,
	SITE_OBJECTS,
	SITE_COLUMNS
};

/* "1023.9 MiB", the same with a sign, objects by the million. */
static const int site_widths[SITE_COLUMNS] = { 10, 10, 11, 10, 11 };

/* In the order of use by what is sorted by: the names get the room of the last ones first. */
static const enum site_column columns_by_use[][SITE_COLUMNS] = {
	[TOP_BY_BYTES] = { SITE_BYTES, SITE_BYTES_ERROR, SITE_GROWTH, SITE_GROWTH_ERROR,
		SITE_OBJECTS },
	[TOP_BY_GROWTH] = { SITE_GROWTH, SITE_GROWTH_ERROR, SITE_BYTES, SITE_BYTES_ERROR,
		SITE_OBJECTS },
	[TOP_BY_OBJECTS] = { SITE_OBJECTS, SITE_BYTES, SITE_BYTES_ERROR, SITE_GROWTH,
		SITE_GROWTH_ERROR },
};

/* Of a name, for each column before it. */
enum { NAME_COLUMNS = 12, NAME_COLUMNS_MORE = 8, GAP = 2 };

/*
 * The first is always there. Growth is not to be judged without its error, so both are shown or
 * neither; unless it is what is sorted by, and there is no room.
 */
static void choose_columns(const struct top_table *table, bool is_shown[SITE_COLUMNS])
{
	const enum site_column *const by_use = columns_by_use[table->order];
	int used = 0;

	for (int i = 0; i < SITE_COLUMNS; i++) {
		const enum site_column column = by_use[i];
		const int name = NAME_COLUMNS + NAME_COLUMNS_MORE * (i - 1);
		const bool has_pair = i > 1 && column == SITE_GROWTH_ERROR;
		int needed = site_widths[column] + 1;
		if (column == SITE_GROWTH)
			needed += site_widths[SITE_GROWTH_ERROR] + 1;
		if (table->columns != 0 && i > 0 && !has_pair &&
			used + needed + GAP + name > (int)table->columns)
			return;
		is_shown[column] = true;
		used += site_widths[column] + 1;
	}
}

static char *format_row(
	const struct top_table *table, const char *const columns[SITE_COLUMNS], const char *site)
{
	CLEANUP(buffer_deinit) struct buffer row = BUFFER_OR_EXIT;
	bool is_shown[SITE_COLUMNS] = { false };
	const char *before = "";

	choose_columns(table, is_shown);
	for (int i = 0; i < SITE_COLUMNS; i++) {
		if (!is_shown[i])
			continue;
		buffer_printf(&row, "%s%*s", before, site_widths[i], columns[i]);
		before = " ";
	}
	buffer_printf(&row, "  %s", site);
	return buffer_take(&row);
}

/* What the figure is of: " by the profile", or " allocated since the attach 12 min ago". */
static void describe_attach(
	const struct top_table *table, const struct top_snapshot *snapshot, char *text, size_t size)
{
	char age[DURATION_TEXT_BYTES];

	snprintf(text, size, "%s", is_narrow(table) ? "" : " by the profile");
	if (snapshot->attached_ms != 0 && snapshot->attached_ms <= snapshot->time_ms)
		snprintf(text, size, "%s since the attach %s ago",
			is_narrow(table) ? "" : " allocated",
			duration_format(snapshot->time_ms - snapshot->attached_ms, age));
}

static void write_heading(
	const struct top_table *table, const struct top_snapshot *snapshot, struct buffer *out)
{
	char text[512], attach[64], moment[CONTROL_TIME_BYTES];

	snprintf(text, sizeof text, "%s  %s  sampling is %s%s%s%s", table->label,
		control_format_time(snapshot->time_ms, moment),
		snapshot->is_sampling ? "on" : "off", table->is_frozen ? "  FROZEN" : "",
		*table->filter == '\0' ? "" : "  only ", table->filter);
	if (table->heading_rows > 1)
		write_styled(out, table->columns, TERMINAL_BOLD, text);
	describe_attach(table, snapshot, attach, sizeof attach);
	snprintf(text, sizeof text, "in use %s +-%s%s, %s +-%s since %s",
		bytes_text(snapshot->bytes.value, false).text,
		bytes_text(INTERVAL * sqrt(snapshot->bytes.variance), false).text, attach,
		bytes_text(snapshot->bytes.value - snapshot->base_bytes, true).text,
		bytes_text(growth_error(
				   snapshot->bytes, snapshot->base_bytes, snapshot->base_variance),
			false)
			.text,
		control_format_time(snapshot->base_ms, moment));
	if (table->heading_rows > 2)
		top_table_line(out, table->columns, text);
	if (snapshot->resident_bytes == 0)
		snprintf(text, sizeof text, "no statistics: the process does not use jemalloc");
	else
		snprintf(text, sizeof text, "allocated %s, resident %s by jemalloc's count",
			bytes_text((double)snapshot->allocated_bytes, false).text,
			bytes_text((double)snapshot->resident_bytes, false).text);
	if (table->heading_rows > 3)
		top_table_line(out, table->columns, text);
	const char *const headings[SITE_COLUMNS] = { table->order == TOP_BY_BYTES ? "IN USE*"
										  : "IN USE",
		"+-", table->order == TOP_BY_GROWTH ? "GROWTH*" : "GROWTH", "+-",
		table->order == TOP_BY_OBJECTS ? "OBJECTS*" : "OBJECTS" };
	CLEANUP(free_cleanup)
	char *row = format_row(table, headings, "SITE (innermost functions)");
	write_styled(out, table->columns, TERMINAL_DIM, row);
}

static void write_site(
	const struct top_table *table, const struct top_site *site, struct buffer *out)
{
	const struct quantity_text in_use = bytes_text(site->bytes.value, false);
	const struct quantity_text error = bytes_text(INTERVAL * sqrt(site->bytes.variance), false);
	const struct quantity_text grown = bytes_text(growth(site), true);
	const struct quantity_text grown_error =
		bytes_text(growth_error(site->bytes, site->base_bytes, site->base_variance), false);
	const struct quantity_text objects = quantity_format(QUANTITY_COUNT, site->objects, false);
	const char *const columns[SITE_COLUMNS] = { in_use.text, error.text, grown.text,
		grown_error.text, objects.text };
	CLEANUP(free_cleanup) char *text = format_row(table, columns, site->name);

	top_table_line(out, table->columns, text);
}

size_t top_table_write(
	const struct top_table *table, struct top_snapshot *snapshot, struct buffer *out)
{
	size_t matching = 0;

	write_heading(table, snapshot, out);
	if (snapshot->site_count > 0)
		qsort(snapshot->sites, snapshot->site_count, sizeof *snapshot->sites,
			orders[table->order]);
	for (size_t i = 0; i < snapshot->site_count; i++) {
		const struct top_site *const site = &snapshot->sites[i];
		if (strcasestr(site->name, table->filter) == NULL)
			continue;
		if (matching >= table->skip && matching - table->skip < table->rows)
			write_site(table, site, out);
		matching++;
	}
	return matching;
}

enum { CANCEL_MS = 200 };

struct top_job {
	pthread_t thread;
	struct top_request request;
	struct top_result result;
	int done_fd, cancel_fd;
};

/* The usual reason of a failure, which says more than the state of the socket. */
static bool explain(const struct target *target, struct error *err)
{
	struct process process;
	struct error why = { 0 };

	if (target->kind == TARGET_AGENT && target->process.pid != 0 &&
		!process_read(target->process.pid, &process, &why) && why.kind == ERROR_NOT_FOUND)
		return error_set(err, ERROR_NOT_FOUND, "%s has ended", target->label);
	return false;
}

static bool switch_sampling(struct top_job *job)
{
	CLEANUP(json_cleanup) json_t *answer = NULL;
	const bool on = job->request.sampling == TOP_SWITCH_ON;

	return agent_call_json(&job->result.target, "POST", on ? "/v1/activate" : "/v1/deactivate",
		&answer, &job->result.switch_err);
}

static bool take_snapshot(struct top_job *job)
{
	struct top_result *const result = &job->result;
	struct target again;
	struct error ignored;

	if (top_snapshot_take(&result->target, job->request.pruning, &result->snapshot,
		    &result->snapshot_err))
		return true;
	explain(&result->target, &result->snapshot_err);
	if (!target_resolve(job->request.operand, &again, &ignored))
		return false;
	again.cancel_fd = &job->cancel_fd;
	result->target = again;
	return top_snapshot_take(
		&result->target, job->request.pruning, &result->snapshot, &ignored);
}

static void *work(void *context)
{
	struct top_job *const job = context;

	if (job->request.sampling != TOP_SWITCH_LEAVE)
		job->result.has_switched = switch_sampling(job);
	if (job->request.wants_snapshot)
		job->result.has_snapshot = take_snapshot(job);
	eventfd_write(job->done_fd, 1);
	return NULL;
}

static void job_free(struct top_job *job)
{
	fd_cleanup(&job->done_fd);
	fd_cleanup(&job->cancel_fd);
	free(job);
}

/* Signals are for the thread that has the screen. */
static int start_thread(struct top_job *job)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	const int problem = pthread_create(&job->thread, NULL, work, job);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return problem;
}

bool top_job_start(const struct top_request *request, struct top_job **ret, struct error *err)
{
	struct top_job *const job = xcalloc(1, sizeof *job);

	job->request = *request;
	job->done_fd = eventfd(0, EFD_CLOEXEC);
	job->cancel_fd = eventfd(0, EFD_CLOEXEC);
	job->result.target = request->target;
	job->result.target.cancel_fd = &job->cancel_fd;
	const int problem = job->done_fd < 0 || job->cancel_fd < 0 ? errno : start_thread(job);
	if (problem != 0) {
		job_free(job);
		return error_system(err, problem, "starting a thread");
	}
	*ret = job;
	return true;
}

int top_job_fd(const struct top_job *job)
{
	return job->done_fd;
}

void top_job_finish(struct top_job *job, struct top_result *result)
{
	pthread_join(job->thread, NULL);
	*result = job->result;
	result->target.cancel_fd = NULL;
	job_free(job);
}

bool top_job_cancel(struct top_job *job)
{
	/* pthread_timedjoin_np has no other clock. */
	const struct timespec end = clock_timespec(clock_realtime_ms() + CANCEL_MS);

	eventfd_write(job->cancel_fd, 1);
	if (pthread_timedjoin_np(job->thread, NULL, &end) != 0)
		return false;
	if (job->result.has_snapshot)
		top_snapshot_deinit(&job->result.snapshot);
	job_free(job);
	return true;
}
