/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top_sites.h"
#include "cli/watchdog.h"

#include <stdlib.h>
#include <string.h>

#include "source/symbolize.h"
#include "analysis/view_builder.h"
#include "base/clock.h"
#include "base/xalloc.h"
#include "cli/report_session.h"
#include "client/agent_client.h"
#include "source/source.h"

enum { SITE_FUNCTIONS = 3 };

static bool fetch(const struct target *target, struct profile **profile, struct error *err)
{
	const struct source_options wanted = { .leaves_out_threads = true };
	CLEANUP(source_close) struct source source = { 0 };

	source_of_target(target, &wanted, &source);
	return source_profile(&source, profile, err);
}

static bool fetch_figures(const struct target *target, struct top_look *look, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	if (!agent_check_profiling(target, &status, err))
		return false;
	look->is_sampling = json_flag(status, "profiling.active");
	look->pid = json_number(status, "pid");
	look->allocated_bytes = json_number(status, "memory.allocated");
	look->resident_bytes = json_number(status, "memory.resident");
	look->time_ms = clock_realtime_ms();
	return true;
}

/* Names come from the cache on disk after the first time; nothing grows from look to look. */
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

	watchdog_begin("finding the names of functions");
	const bool is_done = symbolize(symbolizer, &profile, 1, &process, err);
	watchdog_end();
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

static void merge_sites(struct top_look *look)
{
	size_t kept = 0;

	if (look->site_count == 0)
		return;
	qsort(look->sites, look->site_count, sizeof *look->sites, compare_names);
	for (size_t i = 1; i < look->site_count; i++) {
		struct top_site *const last = &look->sites[kept];
		if (strcmp(last->name, look->sites[i].name) == 0) {
			estimate_add(&last->bytes, look->sites[i].bytes);
			last->objects += look->sites[i].objects;
		} else {
			look->sites[++kept] = look->sites[i];
		}
	}
	look->site_count = kept + 1;
}

static void collect_sites(const struct view *view, struct top_look *look)
{
	CLEANUP(buffer_cleanup) struct buffer name = { 0 };

	buffer_init(&name, &memory_or_exit);
	look->sites = xcalloc(view->path_count, sizeof *look->sites);
	for (size_t i = 0; i < view->path_count; i++) {
		const struct view_path *const path = &view->paths[i];
		const struct estimate bytes = path->now[PROFILE_INUSE_SPACE];
		if (bytes.value <= 0)
			continue;
		name_site(view, path, &name);
		look->sites[look->site_count++] = (struct top_site){
			.name = string_pool_add(&look->names, buffer_string(&name)),
			.bytes = bytes,
			.objects = path->now[PROFILE_INUSE_OBJECTS].value,
		};
		estimate_add(&look->bytes, bytes);
		look->objects += path->now[PROFILE_INUSE_OBJECTS].value;
	}
	merge_sites(look);
}

bool top_look_take(const struct target *target, enum stack_pruning pruning, struct top_look *look,
	struct error *err)
{
	struct profile *profile = NULL;
	CLEANUP(view_cleanup) struct view *view = NULL;
	struct top_look taken = { 0 };

	if (!fetch_figures(target, &taken, err) || !fetch(target, &profile, err))
		return false;
	const bool ok = make_view(target, profile, pruning, &view, err);
	if (ok) {
		string_pool_init(&taken.names);
		collect_sites(view, &taken);
		*look = taken;
	}
	profile_free(profile);
	return ok;
}

void top_look_deinit(struct top_look *look)
{
	free(look->sites);
	string_pool_deinit(&look->names);
	*look = (struct top_look){ 0 };
}

void top_look_copy(struct top_look *copy, const struct top_look *look)
{
	*copy = *look;
	string_pool_init(&copy->names);
	copy->sites = xcalloc(look->site_count, sizeof *copy->sites);
	for (size_t i = 0; i < look->site_count; i++) {
		copy->sites[i] = look->sites[i];
		copy->sites[i].name = string_pool_add(&copy->names, look->sites[i].name);
	}
}

void top_look_compare(struct top_look *look, const struct top_look *base)
{
	const size_t own_count = look->site_count;

	look->base_bytes = base->bytes.value;
	look->base_variance = base->bytes.variance;
	look->base_ms = base->time_ms;
	look->sites = xreallocarray(look->sites, own_count + base->site_count, sizeof *look->sites);
	for (size_t i = 0; i < base->site_count; i++) {
		const struct top_site *const before = &base->sites[i];
		struct top_site *const now = own_count == 0
						     ? NULL
						     : bsearch(before, look->sites, own_count,
							       sizeof *before, compare_names);
		if (now != NULL) {
			now->base_bytes = before->bytes.value;
			now->base_variance = before->bytes.variance;
			continue;
		}
		look->sites[look->site_count++] = (struct top_site){
			.name = string_pool_add(&look->names, before->name),
			.base_bytes = before->bytes.value,
			.base_variance = before->bytes.variance,
		};
	}
}
