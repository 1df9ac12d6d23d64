/* SPDX-License-Identifier: Apache-2.0 */
/* /metrics, for Prometheus. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/allocator_stats.h"
#include "base/buffer.h"
#include "base/json_writer.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "gateway/handlers.h"
#include "gateway/gateway.h"
#include "gateway/send_supervisor.h"
#include "gateway/watch_manager.h"

/*
 * Prometheus' text format 0.0.4 and OpenMetrics 1.0 (the same data, another ending and other names
 * for counters): one family after the other, as both demand.
 */
enum exposition_type {
	EXPOSITION_GAUGE,
	EXPOSITION_COUNTER,
};

struct exposition {
	struct buffer *out;
	bool is_openmetrics;
	const char *family;
	enum exposition_type type;
};

static void exposition_init(struct exposition *exposition, struct buffer *out, bool is_openmetrics)
{
	*exposition = (struct exposition){ .out = out, .is_openmetrics = is_openmetrics };
}

/* The media type of what is written. */
static const char *exposition_media_type(const struct exposition *exposition)
{
	return exposition->is_openmetrics
		       ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
		       : "text/plain; version=0.0.4; charset=utf-8";
}

/* The suffix belongs to the family's name in 0.0.4 and to the sample's only in OpenMetrics. */
static const char *total(const struct exposition *exposition, bool in_family)
{
	return exposition->type == EXPOSITION_COUNTER && !(in_family && exposition->is_openmetrics)
		       ? "_total"
		       : "";
}

/* Begins a family; `name` without "_total". Samples of it follow. */
static void exposition_family(struct exposition *exposition, const char *name,
	enum exposition_type type, const char *help)
{
	struct buffer *const out = exposition->out;

	exposition->family = name;
	exposition->type = type;
	buffer_printf(out, "# HELP %s%s %s\n", name, total(exposition, true), help);
	buffer_printf(out, "# TYPE %s%s %s\n", name, total(exposition, true),
		type == EXPOSITION_COUNTER ? "counter" : "gauge");
}

/* `labels` are written already (exposition_label); "" for none. */
static void exposition_sample(struct exposition *exposition, const char *labels, double value)
{
	struct buffer *const out = exposition->out;
	const bool has_labels = *labels != '\0';

	buffer_printf(out, "%s%s%s%s%s ", exposition->family, total(exposition, false),
		has_labels ? "{" : "", labels, has_labels ? "}" : "");
	/* Whole numbers up to 2^53 are written exactly. */
	if (value == floor(value) && fabs(value) < 9007199254740992.0)
		buffer_printf(out, "%.0f\n", value);
	else
		buffer_printf(out, "%.15g\n", value);
}

static void exposition_end(struct exposition *exposition)
{
	if (exposition->is_openmetrics)
		buffer_append_string(exposition->out, "# EOF\n");
}

/* Appends `name="value"` with a comma in front when something is there already. */
static void exposition_label(struct buffer *labels, const char *name, const char *value)
{
	if (labels->size > 0)
		buffer_append_char(labels, ',');
	buffer_append_string(labels, name);
	buffer_append_string(labels, "=\"");
	for (; *value != '\0'; value++) {
		if (*value == '\n') {
			buffer_append_string(labels, "\\n");
			continue;
		}
		if (*value == '"' || *value == '\\')
			buffer_append_char(labels, '\\');
		/* A process may have any name; the format requires UTF-8. */
		buffer_append_char(labels, (unsigned char)*value < 0x80 ? *value : '?');
	}
	buffer_append_char(labels, '"');
}

enum { SERIES_PER_TARGET_MAX = 256 };

/* A figure of a target: where it is in the agent's status, and the factor to its unit. */
struct figure {
	const char *name;
	const char *path;
	double factor;
	const char *needs; /* left out unless this object is there */
	const char *help;
};

static const struct figure figures[] = {
	{ "heapctl_allocated_bytes", "memory.allocated", 1, NULL,
		"Bytes that the application has allocated and not freed." },
	{ "heapctl_active_bytes", "memory.active", 1, NULL,
		"Bytes in pages that hold allocations." },
	{ "heapctl_metadata_bytes", "memory.metadata", 1, NULL,
		"Bytes of the allocator's own data." },
	{ "heapctl_resident_bytes", "memory.resident", 1, NULL,
		"Bytes that the allocator keeps in physical memory, dirty pages included." },
	{ "heapctl_mapped_bytes", "memory.mapped", 1, NULL,
		"Bytes of address space in active extents." },
	{ "heapctl_retained_bytes", "memory.retained", 1, NULL,
		"Bytes of address space kept without pages." },
	{ "heapctl_profiling_enabled", "profiling.enabled", 1, NULL,
		"1 when the process was started with prof:true." },
	{ "heapctl_profiling_active", "profiling.active", 1, NULL,
		"1 while allocations are being sampled." },
	{ "heapctl_profiling_available", "profiling.available", 1, NULL,
		"1 when a profile can be taken." },
	{ "heapctl_sample_interval_bytes", "profiling.sample_interval", 1, NULL,
		"Mean number of allocated bytes between two samples." },
	{ "heapctl_run_remaining_seconds", "run.remaining_ms", 1e-3, "run",
		"Time left of the current profiling run." },
	{ "heapctl_last_dump_seconds", "last_dump.ms", 1e-3, "last_dump",
		"How long taking the last profile took." },
	{ "heapctl_last_dump_bytes", "last_dump.bytes", 1, "last_dump",
		"Size of the last profile." },
	{ "heapctl_last_dump_stacks", "last_dump.stacks", 1, "last_dump",
		"Distinct stacks in the last profile." },
	{ "heapctl_last_dump_timestamp_seconds", "last_dump.time_ms", 1e-3, "last_dump",
		"When the last profile was taken, in seconds since 1970." },
};

/* What is asked of each target, beside its labels. */
struct scrape {
	struct target_poll status, runs;
	char **labels; /* one text for each target */
};

static char *make_labels(const struct poll_result *item)
{
	CLEANUP(buffer_deinit) struct buffer labels = BUFFER_OR_EXIT;
	char pid[16];

	snprintf(pid, sizeof pid, "%d", (int)item->backend->pid);
	exposition_label(&labels, "pid", pid);
	exposition_label(&labels, "name", item->backend->name);
	exposition_label(&labels, "allocator", json_text(item->value, "allocator.name"));
	/* Behind other gateways several targets may share a name, and there is no pid. */
	if (item->backend->pid == 0)
		exposition_label(&labels, "target", item->backend->target.label);
	char *const text = buffer_take(&labels);
	return text;
}

static void put_up(struct exposition *out, const struct scrape *scrape)
{
	exposition_family(
		out, "heapctl_up", EXPOSITION_GAUGE, "1 when the agent of the target answered.");
	for (size_t i = 0; i < scrape->status.count; i++)
		exposition_sample(out, scrape->labels[i], scrape->status.items[i].value != NULL);
	exposition_family(out, "heapctl_agent_answer_seconds", EXPOSITION_GAUGE,
		"How long the agent took to answer.");
	for (size_t i = 0; i < scrape->status.count; i++) {
		if (scrape->status.items[i].value != NULL)
			exposition_sample(
				out, scrape->labels[i], scrape->status.items[i].milliseconds / 1e3);
	}
}

static void put_figure(
	struct exposition *out, const struct scrape *scrape, const struct figure *figure)
{
	exposition_family(out, figure->name, EXPOSITION_GAUGE, figure->help);
	for (size_t i = 0; i < scrape->status.count; i++) {
		const json_t *const status = scrape->status.items[i].value;
		const json_t *const value = json_at(status, figure->path);
		if (value == NULL || json_is_null(value) ||
			(figure->needs != NULL && !json_is_object(json_at(status, figure->needs))))
			continue;
		exposition_sample(out, scrape->labels[i],
			json_is_boolean(value) ? (double)json_is_true(value)
					       : json_number_value(value) * figure->factor);
	}
}

static void put_rss(struct exposition *out, const struct scrape *scrape)
{
	exposition_family(out, "heapctl_rss_bytes", EXPOSITION_GAUGE,
		"Resident memory of the whole process, as the kernel counts it.");
	for (size_t i = 0; i < scrape->status.count; i++) {
		const uint64_t bytes = backend_resident_bytes(scrape->status.items[i].backend);
		if (bytes > 0)
			exposition_sample(out, scrape->labels[i], (double)bytes);
	}
}

static bool is_running(const json_t *status)
{
	return strcmp(json_text(status, "run.state"), "running") == 0;
}

static void put_runs(struct exposition *out, const struct scrape *scrape)
{
	exposition_family(
		out, "heapctl_run_active", EXPOSITION_GAUGE, "1 while a profiling run is on.");
	for (size_t i = 0; i < scrape->status.count; i++) {
		if (scrape->status.items[i].value != NULL)
			exposition_sample(
				out, scrape->labels[i], is_running(scrape->status.items[i].value));
	}
	exposition_family(out, "heapctl_runs_kept", EXPOSITION_GAUGE,
		"Profiling runs that the agent keeps, the current one included.");
	for (size_t i = 0; i < scrape->runs.count; i++) {
		const json_t *const runs = json_at(scrape->runs.items[i].value, "runs");
		if (runs != NULL)
			exposition_sample(out, scrape->labels[i], (double)json_array_size(runs));
	}
	exposition_family(out, "heapctl_warnings", EXPOSITION_GAUGE,
		"What the agent finds wrong with the profiling of its process.");
	for (size_t i = 0; i < scrape->status.count; i++) {
		const json_t *const warnings = json_at(scrape->status.items[i].value, "warnings");
		if (warnings != NULL)
			exposition_sample(
				out, scrape->labels[i], (double)json_array_size(warnings));
	}
}

/* The statistics of one target that ?collect= selects. */
struct details {
	struct allocator_stats stats;
	const char *labels;
};

struct detail_figure {
	const char *name;
	const char *help;
	size_t offset; /* of a uint64_t in the struct */
};

static const struct detail_figure class_figures[] = {
	{ "heapctl_class_allocated_bytes", "Bytes allocated in this size class.",
		offsetof(struct size_class, allocated_bytes) },
	{ "heapctl_class_held_bytes", "Bytes of slabs and extents that this size class holds.",
		offsetof(struct size_class, held_bytes) },
};

static const struct detail_figure arena_figures[] = {
	{ "heapctl_arena_allocated_bytes", "Bytes allocated in this arena.",
		offsetof(struct arena_stats, allocated_bytes) },
	{ "heapctl_arena_active_bytes", "Bytes in pages of this arena that hold allocations.",
		offsetof(struct arena_stats, active_bytes) },
	{ "heapctl_arena_dirty_bytes", "Bytes of freed pages that this arena keeps for reuse.",
		offsetof(struct arena_stats, dirty_bytes) },
	{ "heapctl_arena_resident_bytes", "Bytes of this arena in physical memory.",
		offsetof(struct arena_stats, resident_bytes) },
};

static void put_detail(struct exposition *out, const char *labels, const char *label,
	uint64_t number, const void *item, size_t offset)
{
	CLEANUP(buffer_deinit) struct buffer all = BUFFER_OR_EXIT;
	char text[32];

	buffer_append_string(&all, labels);
	snprintf(text, sizeof text, "%llu", (unsigned long long)number);
	exposition_label(&all, label, text);
	exposition_sample(out, buffer_string(&all),
		(double)*(const uint64_t *)(const void *)((const char *)item + offset));
}

static void put_target_classes(
	struct exposition *out, const struct details *details, const struct detail_figure *figure)
{
	const struct allocator_stats *const stats = &details->stats;

	for (size_t i = 0; i < stats->class_count && i < SERIES_PER_TARGET_MAX; i++) {
		/* An unused class is no series. */
		if (stats->classes[i].held_bytes > 0)
			put_detail(out, details->labels, "size", stats->classes[i].size,
				&stats->classes[i], figure->offset);
	}
}

static void put_target_arenas(
	struct exposition *out, const struct details *details, const struct detail_figure *figure)
{
	const struct allocator_stats *const stats = &details->stats;

	for (size_t i = 0; i < stats->arena_count && i < SERIES_PER_TARGET_MAX; i++)
		put_detail(out, details->labels, "arena", stats->arenas[i].index, &stats->arenas[i],
			figure->offset);
}

/* What ?collect= may select. */
struct collection {
	const char *path;
	bool (*read)(struct allocator_stats *stats, const json_t *document, struct error *err);
	const struct detail_figure *figures;
	size_t count;
	void (*put)(struct exposition *out, const struct details *details,
		const struct detail_figure *figure);
};

static const struct collection classes = { ALLOCATOR_STATS_CLASSES, allocator_stats_add_classes,
	class_figures, sizeof class_figures / sizeof class_figures[0], put_target_classes };
static const struct collection arenas = { ALLOCATOR_STATS_ARENAS, allocator_stats_add_arenas,
	arena_figures, sizeof arena_figures / sizeof arena_figures[0], put_target_arenas };

/* Of all targets; those that do not answer have none. */
static void collect(struct exposition *out, const struct backend_list *list,
	const struct scrape *scrape, const struct collection *what)
{
	CLEANUP(target_poll_deinit) struct target_poll poll = { 0 };
	CLEANUP(free_cleanup)
	struct details *details = xcalloc(list->count, sizeof *details);

	target_poll_run(&poll, list, what->path, &scrape->status);
	for (size_t i = 0; i < poll.count; i++) {
		struct error ignored;
		details[i].labels = scrape->labels[i];
		if (poll.items[i].value != NULL &&
			!what->read(&details[i].stats, poll.items[i].value, &ignored))
			continue;
	}
	for (size_t f = 0; f < what->count; f++) {
		exposition_family(
			out, what->figures[f].name, EXPOSITION_GAUGE, what->figures[f].help);
		for (size_t i = 0; i < poll.count; i++)
			what->put(out, &details[i], &what->figures[f]);
	}
	for (size_t i = 0; i < poll.count; i++)
		allocator_stats_deinit(&details[i].stats);
}

static uint64_t load(const uint64_t *counter)
{
	return __atomic_load_n(counter, __ATOMIC_RELAXED);
}

static void put_gateway(struct exposition *out, struct gateway *gateway, size_t target_count)
{
	exposition_family(out, "heapctl_targets", EXPOSITION_GAUGE, "Targets of this gateway.");
	exposition_sample(out, "", (double)target_count);
	exposition_family(out, "heapctl_gateway_start_time_seconds", EXPOSITION_GAUGE,
		"When this gateway was started, in seconds since 1970.");
	exposition_sample(out, "", (double)gateway->started_ms / 1e3);
	exposition_family(out, "heapctl_gateway_responses", EXPOSITION_COUNTER,
		"Answers of this gateway by the first digit of their status.");
	for (int class = 1; class < GATEWAY_STATUS_CLASSES; class ++) {
		char label[32];
		snprintf(label, sizeof label, "class=\"%dxx\"", class);
		exposition_sample(out, label, (double)load(&gateway->counters.answers[class]));
	}
	exposition_family(out, "heapctl_gateway_refused", EXPOSITION_COUNTER,
		"Requests refused for their token or their origin.");
	exposition_sample(out, "", (double)load(&gateway->counters.refused));
	pthread_mutex_lock(&gateway->render_cache.mutex);
	const uint64_t made = gateway->render_cache.made, shared = gateway->render_cache.shared,
		       failed = gateway->render_cache.failed;
	const size_t kept = gateway->render_cache.kept_bytes;
	pthread_mutex_unlock(&gateway->render_cache.mutex);
	exposition_family(out, "heapctl_gateway_pictures", EXPOSITION_COUNTER,
		"Rendered profiles: new, from the cache, failed.");
	exposition_sample(out, "result=\"made\"", (double)made);
	exposition_sample(out, "result=\"shared\"", (double)shared);
	exposition_sample(out, "result=\"failed\"", (double)failed);
	exposition_family(out, "heapctl_gateway_kept_bytes", EXPOSITION_GAUGE,
		"Rendered profiles that are kept in memory.");
	exposition_sample(out, "", (double)kept);
}

static void put_sending(struct exposition *out, struct gateway *gateway)
{
	struct send_state state;

	if (gateway->sender == NULL)
		return;
	send_supervisor_read(gateway->sender, &state);
	exposition_family(out, "heapctl_sending_up", EXPOSITION_GAUGE,
		"0 when the last attempt to send snapshots failed; it is repeated.");
	exposition_sample(out, "", state.problem.kind == ERROR_NONE);
	exposition_family(out, "heapctl_sending_snapshots", EXPOSITION_COUNTER,
		"Snapshots sent; those that the database had already; those that cannot be read.");
	exposition_sample(out, "result=\"sent\"", (double)state.sent);
	exposition_sample(out, "result=\"known\"", (double)state.known);
	exposition_sample(out, "result=\"left_out\"", (double)state.left_out);
	exposition_family(out, "heapctl_sending_restarts", EXPOSITION_COUNTER,
		"How often the process that sends was started again.");
	exposition_sample(out, "", (double)state.restarts);
	exposition_family(out, "heapctl_sending_unsent", EXPOSITION_GAUGE,
		"Snapshots of the history that were not sent yet.");
	exposition_sample(out, "", (double)state.unsent);
	exposition_family(out, "heapctl_sending_oldest_unsent_timestamp_seconds", EXPOSITION_GAUGE,
		"When the oldest of them was taken, in seconds since 1970.");
	if (state.oldest_unsent_ms != 0)
		exposition_sample(out, "", (double)state.oldest_unsent_ms / 1e3);
}

static void put_targets(
	struct exposition *out, const struct backend_list *list, const char *collect_what)
{
	struct scrape scrape;

	target_poll_run(&scrape.status, list, "/v1/status", NULL);
	target_poll_run(&scrape.runs, list, "/v1/runs", &scrape.status);
	scrape.labels = xcalloc(list->count, sizeof *scrape.labels);
	for (size_t i = 0; i < list->count; i++)
		scrape.labels[i] = make_labels(&scrape.status.items[i]);
	put_up(out, &scrape);
	for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
		put_figure(out, &scrape, &figures[i]);
	put_rss(out, &scrape);
	put_runs(out, &scrape);
	if (collect_what != NULL && strcmp(collect_what, "classes") != 0)
		collect(out, list, &scrape, &arenas);
	if (collect_what != NULL && strcmp(collect_what, "arenas") != 0)
		collect(out, list, &scrape, &classes);
	for (size_t i = 0; i < list->count; i++)
		free(scrape.labels[i]);
	free(scrape.labels);
	target_poll_deinit(&scrape.runs);
	target_poll_deinit(&scrape.status);
}

/* Processes of one name and section are one series, which survives restarts. */
static bool is_same_watch(const struct watch_report *a, const struct watch_report *b)
{
	return strcmp(a->name, b->name) == 0 && a->section.number == b->section.number &&
	       strcmp(a->section.pattern, b->section.pattern) == 0;
}

static size_t merge_watches(struct watch_report *reports, size_t count)
{
	size_t merged = 0;

	for (size_t i = 0; i < count; i++) {
		size_t at = 0;
		while (at < merged && !is_same_watch(&reports[at], &reports[i]))
			at++;
		if (at == merged) {
			reports[merged++] = reports[i];
			continue;
		}
		reports[at].captures += reports[i].captures;
		reports[at].failures += reports[i].failures;
		if (reports[i].captured_ms > reports[at].captured_ms)
			reports[at].captured_ms = reports[i].captured_ms;
		if (reports[i].state == WATCH_WATCHING)
			reports[at].state = WATCH_WATCHING;
	}
	return merged;
}

static double captures_of(const struct watch_report *report)
{
	return (double)report->captures;
}

static double failures_of(const struct watch_report *report)
{
	return (double)report->failures;
}

static double captured_at(const struct watch_report *report)
{
	return report->captured_ms == 0 ? -1 : (double)report->captured_ms / 1e3;
}

static double is_watching(const struct watch_report *report)
{
	return report->state == WATCH_WATCHING;
}

static const struct {
	const char *name;
	enum exposition_type type;
	double (*value)(const struct watch_report *report); /* negative: none */
	const char *help;
} watch_families[] = {
	{ "heapctl_watch_up", EXPOSITION_GAUGE, is_watching,
		"1 while the target exists and is watched." },
	{ "heapctl_watch_captures", EXPOSITION_COUNTER, captures_of,
		"Profiles that the watch has captured." },
	{ "heapctl_watch_failures", EXPOSITION_COUNTER, failures_of,
		"Captures that failed; each is tried again." },
	{ "heapctl_watch_last_capture_timestamp_seconds", EXPOSITION_GAUGE, captured_at,
		"When the watch captured last, in seconds since 1970." },
};

static void put_sample(struct exposition *out, const struct watch_report *report, double value)
{
	CLEANUP(buffer_deinit) struct buffer labels = BUFFER_OR_EXIT;
	char section[WATCH_PATTERN_BYTES + 16];

	snprintf(section, sizeof section, "%s", report->section.pattern);
	if (report->section.number > 1)
		snprintf(section, sizeof section, "%s#%u", report->section.pattern,
			report->section.number);
	exposition_label(&labels, "name", report->name);
	exposition_label(&labels, "section", section);
	exposition_sample(out, buffer_string(&labels), value);
}

/* The families of the watches: of that target, or of all (NULL). */
static void put_watches(struct gateway *gateway, const char *name, struct exposition *out)
{
	CLEANUP(free_cleanup) struct watch_report *reports = NULL;
	struct watch_manager_state state;

	if (gateway->watch_manager == NULL)
		return;
	size_t count = watch_manager_report(gateway->watch_manager, &state, &reports);
	count = merge_watches(reports, count);
	for (size_t f = 0; f < sizeof watch_families / sizeof watch_families[0]; f++) {
		exposition_family(out, watch_families[f].name, watch_families[f].type,
			watch_families[f].help);
		for (size_t i = 0; i < count; i++) {
			const double value = watch_families[f].value(&reports[i]);
			if (value >= 0 &&
				(name == NULL || watch_report_is_about(&reports[i], name)))
				put_sample(out, &reports[i], value);
		}
	}
	if (name != NULL)
		return;
	exposition_family(out, "heapctl_watch_file_good", EXPOSITION_GAUGE,
		"0 when the watch file could not be read again; the old rules apply.");
	exposition_sample(out, "", state.problem.kind == ERROR_NONE);
}

/* Below /targets/NAME only that one; at the root all of them. */
static bool choose(struct gateway *gateway, const struct request *request,
	struct backend_list *list, struct error *err)
{
	struct backend *only = NULL;

	if (request->target_name == NULL) {
		backend_set_list(&gateway->backends, list);
		return true;
	}
	if (!gateway_find(gateway, request, &only, err))
		return false;
	*list = (struct backend_list){ .items = xcalloc(1, sizeof only), .count = 1 };
	list->items[0] = only;
	return true;
}

bool metrics(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_list_deinit) struct backend_list list = { 0 };
	struct exposition out;
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;

	if (!choose(gateway, request, &list, err))
		return false;
	exposition_init(
		&out, &body, strstr(request->accept, "application/openmetrics-text") != NULL);
	exposition_family(&out, "heapctl_build_info", EXPOSITION_GAUGE, "The gateway's version.");
	exposition_sample(&out, "version=\"" HEAPCTL_VERSION "\"", 1);
	put_targets(&out, &list, request_text(request, "collect"));
	put_watches(gateway, request->target_name == NULL ? NULL : list.items[0]->name, &out);
	if (request->target_name == NULL) {
		put_sending(&out, gateway);
		put_gateway(&out, gateway, list.count);
	}
	exposition_end(&out);
	reply_buffer(reply, 200, exposition_media_type(&out), &body);
	return true;
}
