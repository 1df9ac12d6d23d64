/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/trend_render.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"

/* A page that runs no script and reaches nothing. */
static const char standalone_page[] =
	"sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
	"frame-ancestors 'self'";

static const struct trend_format trend_formats[] = {
	{ "json", "--json", "application/json", NULL },
	{ "text", "--text", "text/plain; charset=utf-8", NULL },
	{ "svg", "--svg", "image/svg+xml", standalone_page },
	{ "html", "--html", "text/html; charset=utf-8", standalone_page },
	{ "raw", NULL, "application/x-tar", NULL },
	{ 0 },
};

const char *const trend_format_names[] = { "json", "text", "svg", "html", "raw", NULL };

const char *const trend_unit_names[] = { "functions", "cumulative", "lines", "stacks", NULL };

const struct trend_format *trend_format_find(const char *name)
{
	for (const struct trend_format *format = trend_formats; format->name != NULL; format++) {
		if (strcmp(format->name, name) == 0)
			return format;
	}
	return NULL;
}

const char *trend_media_type(const char *format)
{
	return trend_format_find(format)->media_type;
}

static void add_unit(struct command_line *line, const char *unit)
{
	static const char *const options[][2] = { { "cumulative", "--cum" }, { "lines", "--lines" },
		{ "stacks", "--stacks" } };

	for (size_t i = 0; unit != NULL && i < sizeof options / sizeof options[0]; i++) {
		if (strcmp(unit, options[i][0]) == 0)
			command_line_add(line, options[i][1], NULL);
	}
}

static void add_options(struct command_line *line, const struct trend_render *render)
{
	char number[24];

	command_line_add(line, "trend", NULL);
	command_line_add(line, render->format->option, NULL);
	command_line_add(line, "--title", render->query.target);
	snprintf(number, sizeof number, "%" PRId64, render->top);
	command_line_add(line, "--top", number);
	add_unit(line, render->unit);
	if (render->counter != NULL && strcmp(render->counter, "inuse_space") != 0) {
		char option[32];
		snprintf(option, sizeof option, "--%s", render->counter);
		command_line_add(line, option, NULL);
	}
	command_line_add_given(line, "--focus", render->focus);
	command_line_add_given(line, "--ignore", render->ignore);
	command_line_add_given(line, "--exclude", render->exclude);
	command_line_add(line, "/proc/self/fd/3", NULL);
}

struct trend_order {
	struct gateway *gateway;
	const struct trend_render *render;
};

static bool make(void *context, struct blob **blob, struct error *err)
{
	const struct trend_order *const order = context;
	const struct trend_render *const render = order->render;
	CLEANUP(blob_cleanup) struct blob *series = NULL;
	CLEANUP(fd_cleanup) int scratch = -1;
	struct command_line line = { 0 };

	if (!blob_open_scratch(&scratch, err) ||
		!store_series_gather(order->gateway->store, &render->query, (size_t)render->most,
			TREND_BYTES_MAX, scratch, err) ||
		!blob_take_fd(TAKE_FD(scratch), &series, err))
		return false;
	if (render->format->option == NULL) {
		*blob = blob_share(series);
		return true;
	}
	add_options(&line, render);
	const struct worker_job job = {
		.arguments = line.arguments,
		.inputs = { series },
		.names = { store_folder(order->gateway->store) },
	};
	const bool ok = worker_run(&order->gateway->workers, &job, blob, err);
	command_line_deinit(&line);
	return ok;
}

static const char *or_nothing(const char *text)
{
	return text == NULL ? "" : text;
}

/* Texts of a client come last, each with its length in front. */
static char *make_key(const struct trend_render *render, const struct store_series *series)
{
	const char *const focus = or_nothing(render->focus);
	const char *const ignore = or_nothing(render->ignore);

	return xasprintf("trend/%" PRId64 "-%" PRId64 "x%zu/%" PRId64 "/%" PRId64 "/%s/%s/%s/"
			 "%zu:%s/%zu:%s/%zu:%s/%s",
		series->first_id, series->last_id, series->count, render->most, render->top,
		render->format->name, or_nothing(render->unit), or_nothing(render->counter),
		strlen(render->query.target), render->query.target, strlen(focus), focus,
		strlen(ignore), ignore, or_nothing(render->exclude));
}

bool trend_render_get(struct gateway *gateway, const struct trend_render *render,
	struct store_series *series, struct blob **blob, struct error *err)
{
	struct trend_order order = { gateway, render };

	if (!store_series_look(gateway->store, &render->query, series, err))
		return false;
	CLEANUP(free_cleanup) char *key = make_key(render, series);
	/* The profiles themselves are large, and gathered quickly. */
	const bool keep = render->format->option != NULL;
	return result_cache_get(&gateway->render_cache, key, keep, make, &order, blob, err);
}
