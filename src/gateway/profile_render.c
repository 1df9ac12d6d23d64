/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/profile_render.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "client/agent_client.h"

/* A page of its own origin that can run its own scripts and reach nothing else. */
static const char standalone_page[] =
	"sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
	"style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'";

static const struct profile_format formats[] = {
	{ "raw", NULL, "text/plain; charset=utf-8", "heap", NULL },
	{ "text", "--text", "text/plain; charset=utf-8", "txt", NULL },
	{ "tree", "--tree", "text/plain; charset=utf-8", "tree.txt", NULL },
	{ "graph", "--svg", "image/svg+xml", "svg", standalone_page },
	{ "flame", "--flame", "text/html; charset=utf-8", "html", standalone_page },
	{ "flame-data", "--flame-data", "application/json", "flame.json", NULL },
	{ "collapsed", "--collapsed", "text/plain; charset=utf-8", "collapsed.txt", NULL },
	{ "pprof", "--pprof", "application/vnd.google.protobuf+gzip", "pb.gz", NULL },
	{ "json", "--json", "application/json", "json", NULL },
	{ 0 },
};

const char *const profile_format_names[] = { "raw", "text", "tree", "graph", "flame", "flame-data",
	"collapsed", "pprof", "json", NULL };

const struct profile_format *profile_format_find(const char *name)
{
	for (const struct profile_format *format = formats; format->name != NULL; format++) {
		if (strcmp(format->name, name) == 0)
			return format;
	}
	return NULL;
}

const char *profile_format_media_type(const char *format)
{
	return profile_format_find(format)->media_type;
}

static void add_options(struct command_line *line, const struct profile_render *render)
{
	command_line_add(line, "report", NULL);
	command_line_add(line, render->format->option, NULL);
	if (render->counter != NULL) {
		char option[32];
		snprintf(option, sizeof option, "--%s", render->counter);
		command_line_add(line, option, NULL);
	}
	command_line_add_given(line, "--granularity", render->granularity);
	command_line_add_given(line, "--focus", render->focus);
	command_line_add_given(line, "--ignore", render->ignore);
	if (render->is_inverted)
		command_line_add(line, "--inverted", NULL);
	if (render->by_cumulative)
		command_line_add(line, "--cum", NULL);
}

/*
 * "the run of 2026-01-31 14:05:00 UTC", or which kind of profile else it is; in `text`, or a
 * constant. Below 0 it is what a run began with.
 */
static const char *describe_id(const struct profile_render *render, int64_t id, char text[64])
{
	const bool is_now = id == RUN_PROFILES_NOW;
	const time_t seconds = (time_t)((is_now ? clock_realtime_ms() : id) / 1000);
	struct tm moment;

	if (id < 0)
		return "what was in use before it";
	gmtime_r(&seconds, &moment);
	strftime(text, 64,
		render->is_of_moments ? "what was in use at %F %T UTC"
		: is_now	      ? "what is in use at %F %T UTC"
				      : "the run of %F %T UTC",
		&moment);
	return text;
}

static void add_heading(struct command_line *line, const struct backend *backend,
	const struct profile_render *render)
{
	char now[64], before[64], number[16];

	command_line_add(line, "--title", backend->target.label);
	describe_id(render, render->id, now);
	CLEANUP(free_cleanup)
	char *subtitle = render->base_id < 0
				 ? xstrdup(now)
				 : xasprintf("%s compared with %s", now,
					   describe_id(render, render->base_id, before));
	command_line_add(line, "--subtitle", subtitle);
	if (backend->pid == 0)
		return;
	snprintf(number, sizeof number, "%d", (int)backend->pid);
	command_line_add(line, "--pid", number);
}

/* What sampling that is off means for a scraper, which sees a fine answer with nothing in it. */
static void add_remark(struct command_line *line, struct backend *backend)
{
	CLEANUP(json_cleanup) json_t *status = NULL;
	CLEANUP(free_cleanup) char *text = NULL;
	struct error ignored;

	if (!backend_get_json(backend, "/v1/status", &status, &ignored) ||
		!json_is_false(json_at(status, "profiling.active")))
		return;
	text = xasprintf("sampling is off: nothing is added to this profile (heapctl activate %d, "
			 "or POST /v1/activate)",
		(int)backend->pid);
	command_line_add(line, "--remark", text);
}

/* pprof's readers put profiles on a time line, and divide by what they cover. */
static void add_times(
	struct command_line *line, struct backend *backend, const struct profile_render *render)
{
	const bool is_now = render->id == RUN_PROFILES_NOW;
	const int64_t when_ms = is_now ? clock_realtime_ms() : render->id;
	const int64_t base_ms = render->base_id;
	char number[32];
	int64_t span_ms = render->span_ms;

	if (strcmp(render->format->name, "pprof") != 0)
		return;
	if (span_ms == 0 && base_ms > 0 && when_ms > base_ms)
		span_ms = when_ms - base_ms;
	snprintf(number, sizeof number, "%" PRId64, when_ms);
	command_line_add(line, "--when-ms", number);
	snprintf(number, sizeof number, "%" PRId64, span_ms);
	command_line_add(line, "--span-ms", number);
	if (is_now)
		add_remark(line, backend);
}

bool profile_render_run(struct gateway *gateway, struct backend *backend,
	const struct profile_render *render, struct blob *profile, struct blob *base,
	struct blob **blob, struct error *err)
{
	struct command_line line = { 0 };
	char now[64], before[64];

	add_options(&line, render);
	add_heading(&line, backend, render);
	add_times(&line, backend, render);
	if (base != NULL)
		command_line_add(&line, "--base", "/proc/self/fd/4");
	/* Of a run, what was there before it and went away is no part. */
	if (base != NULL && render->base_id < 0)
		command_line_add(&line, "--drop_negative", NULL);
	command_line_add(&line, "/proc/self/fd/3", NULL);
	const struct worker_job job = {
		.arguments = line.arguments,
		.inputs = { profile, base },
		.names = { describe_id(render, render->id, now),
			describe_id(render, render->base_id, before) },
	};
	const bool ok = worker_run(&gateway->workers, &job, blob, err);
	command_line_deinit(&line);
	return ok;
}

char *profile_render_key(const char *owner, const struct profile_render *render)
{
	/* Patterns come last: nothing in them can be taken for another part of the key. */
	return xasprintf("%s/%" PRId64 "/%" PRId64 "/%s/%s/%s/%d%d/%zu:%s/%s", owner, render->id,
		render->base_id, render->format->name,
		render->counter == NULL ? "" : render->counter,
		render->granularity == NULL ? "" : render->granularity, render->is_inverted,
		render->by_cumulative, render->focus == NULL ? (size_t)0 : strlen(render->focus),
		render->focus == NULL ? "" : render->focus,
		render->ignore == NULL ? "" : render->ignore);
}

/* What make_render() needs. */
struct render_order {
	struct gateway *gateway;
	struct backend *backend;
	const struct profile_render *render;
};

static bool make_render(void *context, struct blob **blob, struct error *err)
{
	const struct render_order *const order = context;
	const struct profile_render *const render = order->render;
	CLEANUP(run_profiles_cleanup) struct run_profiles shown = { 0 };
	CLEANUP(run_profiles_cleanup) struct run_profiles base = { 0 };

	if (!run_profiles_load(order->gateway, order->backend, render->id, &shown, err))
		return false;
	if (render->format->option == NULL) {
		*blob = blob_share(shown.profile);
		return true;
	}
	if (render->base_id < 0) {
		struct profile_render own = *render;
		own.span_ms = shown.span_ms;
		return profile_render_run(order->gateway, order->backend, &own, shown.profile,
			shown.start, blob, err);
	}
	return run_profiles_load(order->gateway, order->backend, render->base_id, &base, err) &&
	       profile_render_run(order->gateway, order->backend, render, shown.profile,
		       base.profile, blob, err);
}

bool profile_render_get(struct gateway *gateway, struct backend *backend,
	const struct profile_render *render, struct blob **blob, struct error *err)
{
	struct render_order order = { gateway, backend, render };
	CLEANUP(free_cleanup) char *owner = xasprintf("%" PRIu64, backend->generation);
	CLEANUP(free_cleanup) char *key = profile_render_key(owner, render);
	const bool keep = render->id != RUN_PROFILES_NOW && render->base_id != RUN_PROFILES_NOW;

	return result_cache_get(&gateway->render_cache, key, keep, make_render, &order, blob, err);
}
