/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/profile_render.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "profile/profile_read.h"

/* For all that a picture asks of debuginfod servers: a user waits for it. */
enum { DEBUGINFOD_SECONDS = 15 };

void run_profiles_deinit(struct run_profiles *profiles)
{
	blob_drop(profiles->profile);
	blob_drop(profiles->start);
	*profiles = (struct run_profiles){ 0 };
}

static bool is_running(const json_t *run)
{
	return strcmp(json_text(run, "state"), "running") == 0;
}

static bool fail_running(int64_t id, struct error *err)
{
	error_set(err, ERROR_STATE, "run %" PRId64 " is still on", id);
	return error_hint(err, "wait for its end or stop it; give an id for an earlier one");
}

bool run_profiles_newest(struct backend *backend, int64_t *id, struct error *err)
{
	CLEANUP(json_cleanup) json_t *answer = NULL;

	if (!backend_get_json(backend, "/v1/runs", &answer, err))
		return false;
	const json_t *const runs = json_at(answer, "runs");
	for (size_t i = json_array_size(runs); i > 0; i--) {
		const json_t *const run = json_array_get(runs, i - 1);
		if (is_running(run))
			return fail_running(json_number(run, "id"), err);
		if (strcmp(json_text(run, "state"), "finished") == 0) {
			*id = json_number(run, "id");
			return true;
		}
	}
	error_set(err, ERROR_NOT_FOUND, "there is no finished run");
	return error_hint(err, "start one: /memory-profiler/start?duration=5mins");
}

/* What a maker of a run's profile needs. */
struct profile_request {
	struct backend *backend;
	const char *path;
};

/* The agent has it already, and keeps it: nothing is cancelled. */
static bool fetch_profile(
	void *context, struct waiting_clients *clients, struct blob **blob, struct error *err)
{
	const struct profile_request *const job = context;
	struct backend_answer answer;

	(void)clients;
	if (!backend_get_profile(job->backend, job->path, NULL, &answer, err))
		return false;
	*blob = answer.body;
	return true;
}

/* A profile of a finished run never changes, so it is fetched once. */
static bool get_kept(struct gateway *gateway, struct backend *backend, int64_t id,
	const char *which, struct blob **blob, struct error *err)
{
	char path[96], key[128];
	struct profile_request job = { .backend = backend, .path = path };

	snprintf(path, sizeof path, "/v1/runs/%" PRId64 "/%s", id, which);
	snprintf(key, sizeof key, "%" PRIu64 "%s", backend->generation, path);
	return result_cache_get(&gateway->profile_cache, key, backend->owner, true, -1,
		fetch_profile, &job, blob, err);
}

/* Whether the profile records anything: its "t*:" line begins with a number of objects. */
static bool has_samples(const struct blob *profile)
{
	static const char line[] = "\n  t*: ";
	const char *const at =
		profile->data == NULL ? NULL
				      : memmem(profile->data, profile->size, line, sizeof line - 1);

	return at != NULL && (size_t)(at - profile->data) + sizeof line - 1 < profile->size &&
	       at[sizeof line - 1] != '0';
}

static bool load_run(struct gateway *gateway, struct backend *backend, struct run_profiles *loaded,
	struct error *err)
{
	CLEANUP(json_cleanup) json_t *run = NULL;
	char path[64];

	snprintf(path, sizeof path, "/v1/runs/%" PRId64, loaded->id);
	if (!backend_get_json(backend, path, &run, err))
		return false;
	if (is_running(run))
		return fail_running(loaded->id, err);
	if (json_number(run, "ended_ms") > json_number(run, "started_ms"))
		loaded->span_ms = json_number(run, "ended_ms") - json_number(run, "started_ms");
	if (!get_kept(gateway, backend, loaded->id, "profile", &loaded->profile, err))
		return false;
	if (json_number(run, "start_bytes") == 0)
		return true;
	struct error ignored;
	/* The agent may have dropped the start to save memory; the run is still worth showing. */
	if (!get_kept(gateway, backend, loaded->id, "start", &loaded->start, &ignored))
		return true;
	if (!has_samples(loaded->start)) {
		blob_drop(loaded->start);
		loaded->start = NULL;
	}
	return true;
}

bool run_profiles_load(struct gateway *gateway, struct backend *backend, int64_t id,
	struct waiting_clients *clients, struct run_profiles *profiles, struct error *err)
{
	struct run_profiles loaded = { .id = id };
	struct backend_answer now;

	if (id != RUN_PROFILES_NOW) {
		if (!load_run(gateway, backend, &loaded, err)) {
			run_profiles_deinit(&loaded);
			return false;
		}
	} else {
		if (!backend_get_profile(backend, "/v1/profile", clients, &now, err))
			return false;
		loaded.profile = now.body;
	}
	*profiles = loaded;
	return true;
}

/* A page of its own origin that can run its own scripts and reach nothing else. */
static const char standalone_page[] =
	"sandbox allow-scripts allow-downloads; default-src 'none'; script-src 'unsafe-inline'; "
	"style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'";

/* ROW(name, option of heapctl report, media type, extension, Content-Security-Policy) */
/* clang-format off */
#define FORMATS(ROW) \
	ROW("raw", NULL, "text/plain; charset=utf-8", "heap", NULL), \
	ROW("text", "--text", "text/plain; charset=utf-8", "txt", NULL), \
	ROW("tree", "--tree", "text/plain; charset=utf-8", "tree.txt", NULL), \
	ROW("graph", "--svg", "image/svg+xml", "svg", standalone_page), \
	ROW("flame", "--flame", "text/html; charset=utf-8", "html", standalone_page), \
	ROW("flame-data", "--flame-data", "application/json", "flame.json", NULL), \
	ROW("collapsed", "--collapsed", "text/plain; charset=utf-8", "collapsed.txt", NULL), \
	ROW("pprof", "--pprof", "application/vnd.google.protobuf+gzip", "pb.gz", NULL), \
	ROW("source", "--list", "text/plain; charset=utf-8", "source.txt", NULL), \
	ROW("disasm", "--disasm", "text/plain; charset=utf-8", "disasm.txt", NULL), \
	ROW("rows", "--rows", "application/json", "rows.json", NULL), \
	ROW("json", "--json", "application/json", "json", NULL)
/* clang-format on */
#define FORMAT_ROW(...)     \
	{                   \
		__VA_ARGS__ \
	}
#define FORMAT_NAME(name, ...) name

static const struct profile_format formats[] = { FORMATS(FORMAT_ROW), { 0 } };
const char *const profile_format_names[] = { FORMATS(FORMAT_NAME), NULL };

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

static bool is_source(const struct profile_format *format)
{
	return strcmp(format->name, "source") == 0;
}

static bool is_disasm(const struct profile_format *format)
{
	return strcmp(format->name, "disasm") == 0;
}

/* Only these show what is in the files that a profile names. */
static bool check_code(
	const struct profile_render *render, const struct gateway *gateway, struct error *err)
{
	if (is_source(render->format) && gateway->source_root == NULL &&
		gateway->debuginfod == NULL) {
		error_set(err, ERROR_DENIED, "this gateway shows no source");
		return error_hint(
			err, "start heapctl serve with --source-root DIR or --debuginfod URL");
	}
	if (is_disasm(render->format) && !gateway->shows_disasm) {
		error_set(err, ERROR_DENIED, "this gateway shows no assembly");
		return error_hint(err, "start heapctl serve with --disasm");
	}
	/* It may name any program of this machine. */
	if (is_disasm(render->format) && render->file != NULL) {
		error_set(err, ERROR_DENIED, "no assembly is shown of a file that was sent");
		return error_hint(err, "use heapctl report --disasm where its program is");
	}
	return render->function != NULL ||
	       error_set(err, ERROR_USAGE, "the parameter function is missing");
}

bool profile_render_read(struct profile_render *render, const struct gateway *gateway,
	const struct request *request, struct error *err)
{
	const char *const format = request_text(request, "format");

	render->format = profile_format_find(format == NULL ? "json" : format);
	render->counter = request_text(request, "counter");
	render->granularity = request_text(request, "granularity");
	render->focus = request_text(request, "focus");
	render->ignore = request_text(request, "ignore");
	render->show = request_text(request, "show");
	render->hide = request_text(request, "hide");
	render->show_from = request_text(request, "show_from");
	render->prune_from = request_text(request, "prune_from");
	render->ignored_tag = request_text(request, "tagignore");
	render->thread = request_text(request, "thread");
	render->bytes = request_text(request, "bytes");
	render->first = request_number(request, "first", 0);
	render->limit = request_number(request, "limit", 0);
	render->sort = request_text(request, "sort");
	render->rows = request_text(request, "rows");
	render->frame_limit = request_number(request, "frames", 0);
	render->frame_root = request_text(request, "root");
	render->is_churn = request_number(request, "churn", 0) != 0;
	render->function = request_text(request, "function");
	render->source_root = gateway->source_root;
	render->debuginfod = gateway->debuginfod;
	return (!is_source(render->format) && !is_disasm(render->format)) ||
	       check_code(render, gateway, err);
}

static void add_number(struct command_line *line, const char *option, int64_t number)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRId64, number);
	if (number > 0)
		command_line_add(line, option, text);
}

void profile_render_add_options(const struct profile_render *render, struct command_line *line)
{
	command_line_add(line, "report", NULL);
	if (is_source(render->format) || is_disasm(render->format)) {
		/* Nothing matches, and nothing is read, where a route did not ask for these. */
		command_line_add(line, render->format->option,
			render->function == NULL ? "^$" : render->function);
		command_line_add(line, "--source-root",
			render->source_root == NULL ? "/dev/null" : render->source_root);
	} else {
		command_line_add(line, render->format->option, NULL);
	}
	if (render->debuginfod != NULL) {
		command_line_add(line, "--debuginfod", render->debuginfod);
		add_number(line, "--debuginfod-timeout", DEBUGINFOD_SECONDS);
	}
	if (render->counter != NULL) {
		char option[32];
		snprintf(option, sizeof option, "--%s", render->counter);
		command_line_add(line, option, NULL);
	}
	command_line_add_given(line, "--granularity", render->granularity);
	command_line_add_given(line, "--focus", render->focus);
	command_line_add_given(line, "--ignore", render->ignore);
	command_line_add_given(line, "--show", render->show);
	command_line_add_given(line, "--hide", render->hide);
	command_line_add_given(line, "--show-from", render->show_from);
	command_line_add_given(line, "--prune-from", render->prune_from);
	command_line_add_given(line, "--tag-ignore", render->ignored_tag);
	command_line_add_given(line, "--frame-root", render->frame_root);
	command_line_add_given(line, "--thread", render->thread);
	command_line_add_given(line, "--sort", render->sort);
	command_line_add_given(line, "--row-pattern", render->rows);
	add_number(line, "--frame-limit", render->frame_limit);
	add_number(line, "--first", render->first);
	add_number(line, "--top", render->limit);
	if (render->bytes != NULL) {
		CLEANUP(free_cleanup) char *tag = xasprintf("bytes=%s", render->bytes);
		command_line_add(line, "--tag", tag);
	}
	if (render->is_churn)
		command_line_add(line, "--churn", NULL);
	if (render->is_inverted)
		command_line_add(line, "--inverted", NULL);
	if (render->by_cumulative)
		command_line_add(line, "--cum", NULL);
	if (render->has_file_addresses)
		command_line_add(line, "--file-addresses", NULL);
	if (render->strips_names)
		command_line_add(line, "--strip-names", NULL);
	if (render->strips_labels)
		command_line_add(line, "--strip-labels", NULL);
	if (render->drops_negative)
		command_line_add(line, "--drop_negative", NULL);
}

/*
 * "the run of 2026-01-31 14:05:00 UTC", or which kind of profile else it is; in `text`, or a
 * constant. Below 0 it is what a run began with.
 */
static const char *describe_id(
	const struct profile_render *render, int64_t id, char text[PROFILE_TIME_BYTES])
{
	const bool is_now = id == RUN_PROFILES_NOW;
	const time_t seconds = (time_t)((is_now ? clock_realtime_ms() : id) / 1000);
	struct tm parts;

	if (render->file != NULL)
		return id == render->base_id ? render->base_file : render->file;
	if (id < 0)
		return "what was in use before it";
	gmtime_r(&seconds, &parts);
	strftime(text, PROFILE_TIME_BYTES,
		render->is_of_snapshots ? "what was in use at %F %T UTC"
		: is_now		? "what is in use at %F %T UTC"
					: "the run of %F %T UTC",
		&parts);
	return text;
}

const char *profile_time_describe(char text[PROFILE_TIME_BYTES])
{
	static const struct profile_render now = { .base_id = -1 };

	return describe_id(&now, RUN_PROFILES_NOW, text);
}

static void add_heading(struct command_line *line, const struct backend *backend,
	const struct profile_render *render)
{
	char now[PROFILE_TIME_BYTES], before[PROFILE_TIME_BYTES], number[16];

	/* Otherwise the profile says what it is of. */
	if (backend->target.label[0] != '\0')
		command_line_add(line, "--title", backend->target.label);
	const char *const shown = describe_id(render, render->id, now);
	CLEANUP(free_cleanup)
	char *subtitle = render->base_id < 0
				 ? xstrdup(shown)
				 : xasprintf("%s compared with %s", shown,
					   describe_id(render, render->base_id, before));
	command_line_add(line, "--subtitle", subtitle);
	if (backend->pid == 0)
		return;
	snprintf(number, sizeof number, "%d", (int)backend->pid);
	command_line_add(line, "--pid", number);
	command_line_add(line, "--pid-may-have-ended", NULL);
}

/* Tells a scraper that sampling is off: its answer looks fine but is empty. */
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

/* pprof's readers need the time of a profile and the time that it covers. */
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
	const struct profile_render *render, struct waiting_clients *clients, struct blob *profile,
	struct blob *base, struct blob **blob, struct error *err)
{
	struct command_line line = { 0 };
	char now[PROFILE_TIME_BYTES], before[PROFILE_TIME_BYTES];

	profile_render_add_options(render, &line);
	add_heading(&line, backend, render);
	add_times(&line, backend, render);
	if (base != NULL)
		command_line_add(&line, "--base", "/proc/self/fd/4");
	/* What was there before a run and was freed is not part of it. */
	if (base != NULL && render->base_id < 0)
		command_line_add(&line, "--drop_negative", NULL);
	command_line_add(&line, "/proc/self/fd/3", NULL);
	struct blob *const inputs[] = { profile, base };
	const char *const names[] = { describe_id(render, render->id, now),
		describe_id(render, render->base_id, before) };
	const struct worker_job job = {
		.owner = backend->owner,
		.clients = clients,
		.arguments = line.arguments,
		.inputs = inputs,
		.names = names,
		.input_count = base == NULL ? 1 : 2,
	};
	const bool ok = worker_run(&gateway->workers, &job, blob, err);
	command_line_deinit(&line);
	return ok;
}

char *profile_render_key(const char *owner, const struct profile_render *render)
{
	const char *const texts[] = { render->focus, render->ignore, render->show, render->hide,
		render->show_from, render->prune_from, render->ignored_tag, render->frame_root,
		render->thread, render->bytes, render->sort, render->rows, render->function };
	struct buffer key;

	buffer_init(&key, &memory_or_exit);
	buffer_printf(&key,
		"%s/%" PRId64 "/%" PRId64 "/%s/%s/%s/%d%d%d%d%d%d%d%d/%" PRId64 "/%" PRId64
		"/%" PRId64,
		owner, render->id, render->base_id, render->format->name,
		render->counter == NULL ? "" : render->counter,
		render->granularity == NULL ? "" : render->granularity, render->is_churn,
		render->is_whole, render->is_inverted, render->by_cumulative,
		render->has_file_addresses, render->strips_names, render->strips_labels,
		render->drops_negative, render->frame_limit, render->first, render->limit);
	/* With their sizes, so that nothing in one can be another. */
	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
		buffer_printf(&key, "/%zu:%s", texts[i] == NULL ? (size_t)0 : strlen(texts[i]),
			texts[i] == NULL ? "" : texts[i]);
	return buffer_take(&key);
}

/* What make_render() needs. */
struct render_request {
	struct gateway *gateway;
	struct backend *backend;
	const struct profile_render *render;
};

static bool make_render(
	void *context, struct waiting_clients *clients, struct blob **blob, struct error *err)
{
	const struct render_request *const job = context;
	const struct profile_render *const render = job->render;
	CLEANUP(run_profiles_deinit) struct run_profiles shown = { 0 };
	CLEANUP(run_profiles_deinit) struct run_profiles base = { 0 };

	if (!run_profiles_load(job->gateway, job->backend, render->id, clients, &shown, err))
		return false;
	if (render->format->option == NULL) {
		*blob = blob_share(shown.profile);
		return true;
	}
	if (render->base_id < 0 && render->is_whole)
		return profile_render_run(job->gateway, job->backend, render, clients,
			shown.profile, NULL, blob, err);
	if (render->base_id < 0) {
		struct profile_render own = *render;
		own.span_ms = shown.span_ms;
		return profile_render_run(job->gateway, job->backend, &own, clients, shown.profile,
			shown.start, blob, err);
	}
	return run_profiles_load(
		       job->gateway, job->backend, render->base_id, clients, &base, err) &&
	       profile_render_run(job->gateway, job->backend, render, clients, shown.profile,
		       base.profile, blob, err);
}

bool profile_render_get(struct gateway *gateway, struct backend *backend,
	const struct request *request, const struct profile_render *render, struct blob **blob,
	struct error *err)
{
	struct render_request job = { gateway, backend, render };
	CLEANUP(free_cleanup) char *owner = xasprintf("%" PRIu64, backend->generation);
	CLEANUP(free_cleanup) char *key = profile_render_key(owner, render);
	const bool keep = render->id != RUN_PROFILES_NOW && render->base_id != RUN_PROFILES_NOW;

	return result_cache_get(&gateway->render_cache, key, backend->owner, keep,
		request->client_fd, make_render, &job, blob, err);
}

void snapshot_profiles_deinit(struct snapshot_profiles *kept)
{
	free(kept->owner);
	blob_drop(kept->profile);
	blob_drop(kept->base);
	*kept = (struct snapshot_profiles){ 0 };
}

/* Piece by piece, so that only the file has all of it. */
static bool copy_expanded(struct input *input, int out, uint64_t *held, struct error *err)
{
	struct cursor in;

	if (!input_cursor(input, &in, err))
		return false;
	while (cursor_more(&in)) {
		const size_t size = cursor_left(&in);
		const unsigned char *const piece = cursor_take(&in, size);
		if (!blob_scratch_take(held, size, err) ||
			!file_write_fd(out, "a scratch file", piece, size, err))
			return false;
	}
	return !input_failure(input, err);
}

/* The history's profiles are compressed; clients get them expanded. */
static bool expand(struct blob *kept, struct blob **blob, struct error *err)
{
	CLEANUP(input_close) struct input input = { 0 };
	CLEANUP(fd_cleanup) int scratch = -1;
	uint64_t held = 0;

	if (!input_over("a kept profile", kept->data, kept->size, NULL, &input, err))
		return false;
	if (input.data == kept->data) {
		*blob = blob_share(kept);
		return true;
	}
	if (blob_open_scratch(&scratch, err) && copy_expanded(&input, scratch, &held, err))
		return blob_take_scratch(TAKE_FD(scratch), held, blob, err);
	byte_budget_give(&blob_scratch_budget, held);
	return false;
}

/* What is needed to draw one. */
struct kept_render {
	struct gateway *gateway;
	const struct profile_render *render;
	const struct snapshot_profiles *kept;
};

/* By the target's name alone: its pid may be another process's by now. */
static bool draw(
	void *context, struct waiting_clients *clients, struct blob **blob, struct error *err)
{
	const struct kept_render *const job = context;
	const struct snapshot_profiles *const kept = job->kept;
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	struct target target = { .kind = TARGET_AGENT };

	if (job->render->format->option == NULL)
		return kept->base == NULL
			       ? expand(kept->profile, blob, err)
			       : error_set(err, ERROR_USAGE, "a difference has no raw form");
	snprintf(target.label, sizeof target.label, "%s", kept->name);
	backend = backend_new(&target, kept->name);
	backend->pid = 0;
	backend->owner = kept->user;
	return profile_render_run(
		job->gateway, backend, job->render, clients, kept->profile, kept->base, blob, err);
}

bool snapshot_render_reply(struct gateway *gateway, const struct request *request,
	const struct snapshot_profiles *kept, struct reply *reply, struct error *err)
{
	struct profile_render render = {
		.id = kept->time_ms,
		.base_id = kept->base == NULL ? -1 : kept->base_ms,
		.is_of_snapshots = true,
	};
	if (!profile_render_read(&render, gateway, request, err))
		return false;
	struct kept_render job = { gateway, &render, kept };
	CLEANUP(free_cleanup) char *key = profile_render_key(kept->owner, &render);
	CLEANUP(blob_cleanup) struct blob *result = NULL;

	if (!result_cache_get(&gateway->render_cache, key, kept->user,
		    render.format->option != NULL, request->client_fd, draw, &job, &result, err))
		return false;
	reply_blob(reply, 200, render.format->media_type, result);
	reply->policy = render.format->policy;
	return true;
}
