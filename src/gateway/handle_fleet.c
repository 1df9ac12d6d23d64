/* SPDX-License-Identifier: Apache-2.0 */
/*
 * /api/v1/fleet: what the database of serve --store answers (docs/fleet.md), for the page's view of
 * the fleet.
 *
 * Times are rounded to minutes, so that the same question within a minute is the same request to
 * the database. A picture is asked for once and drawn by another process in each of its forms.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_writer.h"
#include "base/xalloc.h"
#include "gateway/fleet_store.h"
#include "gateway/handlers.h"
#include "gateway/profile_render.h"
#include "render/renderers.h"

#define MINUTE_MS INT64_C(60000)
#define HOUR_MS (60 * MINUTE_MS)

static const char *const site_questions[] = { "top", "growth", "versions", "outliers", NULL };
static const char *const picture_questions[] = { "flame", "diff", NULL };
/* Those of a profile that need no samples. */
static const char *const format_names[] = { "text", "tree", "graph", "flame", "flame-data",
	"collapsed", "rows", "json", NULL };

/* Ten years, and a time that has as many digits as any in this century. */
#define FLEET_LAST_MS (INT64_C(3660) * 24 * 3600 * 1000)
#define FLEET_TIME_MS INT64_C(4102444800000)

/* Which snapshots of a fleet. */
#define FLEET                                                                                   \
	{ "service", PARAMETER_TEXT, .help = "only this service" },                             \
		{ "version", PARAMETER_TEXT, .help = "only this version" },                     \
		{ "host", PARAMETER_TEXT, .help = "only this host" },                           \
		{ "label", PARAMETER_TEXT, .help = "only with this label: NAME=VALUE" },        \
		{ "last_ms", PARAMETER_NUMBER, .min = 60000, .max = FLEET_LAST_MS,              \
			.help = "the time before to_ms, in milliseconds; 30 minutes when left " \
				"out, of growth, versions and outliers a day" },                \
		{ "from_ms", PARAMETER_NUMBER, .min = 0, .max = FLEET_TIME_MS,                  \
			.help = "instead of last_ms: the begin, in milliseconds since 1970" },  \
	{                                                                                       \
		"to_ms", PARAMETER_NUMBER,                                                      \
			.min = 0, .max = FLEET_TIME_MS,                                         \
			.help = "the end; now when left out. Times are rounded to minutes"      \
	}

const struct parameter fleet_hosts_parameters[] = {
	FLEET,
	{ "limit", PARAMETER_NUMBER, .min = 1, .max = 5000,
		.help = "maximum number of hosts; 1000 when left out" },
	{ 0 },
};

const struct parameter fleet_sites_parameters[] = {
	{ "question", PARAMETER_CHOICE, .choices = site_questions, .is_required = true,
		.help = "of heapctl fleet; versions and outliers are of one service" },
	FLEET,
	{ "base_version", PARAMETER_TEXT,
		.help = "versions: the one that version is compared with; without both, the two "
			"that appeared last" },
	{ "limit", PARAMETER_NUMBER, .min = 1, .max = 1000,
		.help = "maximum number of sites; 100 when left out" },
	{ 0 },
};

const struct parameter fleet_picture_parameters[] = {
	{ "question", PARAMETER_CHOICE, .choices = picture_questions, .is_required = true,
		.help = "of heapctl fleet" },
	FLEET,
	{ "ago_ms", PARAMETER_NUMBER, .min = 60000, .max = FLEET_LAST_MS,
		.help = "diff: how much earlier to compare with; a day when left out" },
	{ "format", PARAMETER_CHOICE, .choices = format_names, .help = "json when left out" },
	{ "sort", PARAMETER_CHOICE, .choices = render_sort_names,
		.help = "rows and text: flat, of differences change when left out" },
	{ "first", PARAMETER_NUMBER, .min = 0, .max = INT32_MAX,
		.help = "rows: how many to leave out in front" },
	{ "limit", PARAMETER_NUMBER, .min = 0, .max = 5000, .help = "rows and text: how many" },
	{ "rows", PARAMETER_TEXT, .help = "rows: only those whose name matches" },
	{ "frames", PARAMETER_NUMBER, .min = 0, .max = INT32_MAX,
		.help = "flame-data: maximum number of frames" },
	{ "root", PARAMETER_TEXT, .help = "flame-data: as many frames more below this one" },
	{ 0 },
};

const struct route_status fleet_statuses[] = {
	{ 502, "the database cannot be reached, or refuses the question" },
	{ 503, "it takes too long, or too many questions wait for it" },
	{ 0 },
};

const char *fleet_format_media_type(const char *format)
{
	return profile_format_media_type(format);
}

static bool find_store(struct gateway *gateway, struct fleet_store **store, struct error *err)
{
	*store = gateway->fleet_store;
	if (*store != NULL)
		return true;
	error_set(err, ERROR_NOT_FOUND, "this gateway shows no fleet");
	return error_hint(err, "start heapctl serve with --store clickhouse://USER@HOST/DATABASE");
}

bool api_fleet(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	struct json_writer json;

	(void)request;
	(void)err;
	json_init(&json, &body);
	json_object_begin(&json);
	json_key(&json, "store");
	if (gateway->fleet_store == NULL)
		json_put_null(&json);
	else
		json_put_string(&json, gateway->fleet_store->url);
	json_object_end(&json);
	reply_buffer(reply, 200, "application/json", &body);
	return true;
}

static bool is_of_days(const char *question)
{
	return strcmp(question, "growth") == 0 || strcmp(question, "versions") == 0 ||
	       strcmp(question, "outliers") == 0;
}

static void add_time(struct command_line *line, const char *option, int64_t time_ms)
{
	char text[32];

	snprintf(text, sizeof text, "@%" PRId64, time_ms / 1000);
	command_line_add(line, option, text);
}

/* The end is rounded up: what was sent a moment ago is part of it. */
static bool add_range(struct command_line *line, const struct request *request,
	const char *question, struct error *err)
{
	const int64_t last_ms = request_number(
		request, "last_ms", is_of_days(question) ? 24 * HOUR_MS : 30 * MINUTE_MS);
	const int64_t end_ms = request_number(request, "to_ms", clock_realtime_ms());
	const int64_t to_ms = (end_ms + MINUTE_MS - 1) / MINUTE_MS * MINUTE_MS;
	const int64_t begin_ms = request_number(request, "from_ms", to_ms - last_ms);
	const int64_t from_ms = begin_ms / MINUTE_MS * MINUTE_MS;

	if (from_ms <= 0 || from_ms >= to_ms)
		return error_set(err, ERROR_USAGE, "the time begins after 1970 and before its end");
	add_time(line, "--since", from_ms);
	add_time(line, "--until", to_ms);
	return true;
}

static bool begin_question(struct command_line *line, const struct request *request,
	const char *question, struct error *err)
{
	command_line_add(line, "fleet", NULL);
	command_line_add(line, question, NULL);
	if (!add_range(line, request, question, err))
		return false;
	command_line_add_given(line, "--service", request_text(request, "service"));
	command_line_add_given(line, "--version", request_text(request, "version"));
	command_line_add_given(line, "--host", request_text(request, "host"));
	command_line_add_given(line, "--label", request_text(request, "label"));
	return true;
}

/* A failure of the database is none of the gateway's, and none of the request. */
static bool fail_by_store(const struct error *err, struct reply *reply)
{
	if (err->kind == ERROR_NOT_FOUND || err->kind == ERROR_USAGE || err->kind == ERROR_TIMEOUT)
		return false;
	reply_error(reply, err);
	reply->status = 502;
	return true;
}

static bool reply_list(struct fleet_store *store, const struct request *request,
	struct command_line *line, int64_t limit, struct reply *reply, struct error *err)
{
	CLEANUP(blob_cleanup) struct blob *answer = NULL;
	char number[24];

	snprintf(number, sizeof number, "%" PRId64, limit);
	command_line_add(line, "--top", number);
	command_line_add(line, "--json", NULL);
	if (!fleet_store_ask(store, request, line, &answer, err))
		return fail_by_store(err, reply);
	reply_blob(reply, 200, "application/json", answer);
	return true;
}

bool api_fleet_hosts(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(command_line_deinit) struct command_line line = { 0 };
	struct fleet_store *store = NULL;

	return find_store(gateway, &store, err) && begin_question(&line, request, "hosts", err) &&
	       reply_list(
		       store, request, &line, request_number(request, "limit", 1000), reply, err);
}

/* What heapctl fleet would refuse, in the words of a request. */
static bool check_sites(const struct request *request, const char *question, struct error *err)
{
	const bool is_versions = strcmp(question, "versions") == 0;
	const char *const version = request_text(request, "version");
	const char *const base = request_text(request, "base_version");

	if ((is_versions || strcmp(question, "outliers") == 0) &&
		request_text(request, "service") == NULL)
		return error_set(err, ERROR_USAGE,
			"%s is of one service: the parameter service is missing", question);
	if (base != NULL && !is_versions)
		return error_set(err, ERROR_USAGE, "base_version goes with question=versions");
	if (is_versions && (base != NULL) != (version != NULL))
		return error_set(err, ERROR_USAGE, "version and base_version are given together");
	if (base != NULL && strcmp(base, version) == 0)
		return error_set(err, ERROR_USAGE, "version and base_version are the same");
	return true;
}

bool api_fleet_sites(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(command_line_deinit) struct command_line line = { 0 };
	const char *const question = request_text(request, "question");
	struct fleet_store *store = NULL;

	if (!find_store(gateway, &store, err) || !check_sites(request, question, err) ||
		!begin_question(&line, request, question, err))
		return false;
	command_line_add_given(&line, "--base-version", request_text(request, "base_version"));
	return reply_list(store, request, &line, request_number(request, "limit", 100), reply, err);
}

struct picture_order {
	struct gateway *gateway;
	struct blob *picture;
	const struct command_line *drawing;
};

static bool draw(
	void *context, struct waiting_clients *clients, struct blob **blob, struct error *err)
{
	const struct picture_order *const order = context;
	static const char *const names[] = { "the fleet" };
	const struct worker_job job = {
		.owner = USER_ANY,
		.clients = clients,
		.arguments = order->drawing->arguments,
		.inputs = &order->picture,
		.names = names,
		.input_count = 1,
	};

	return worker_run(&order->gateway->workers, &job, blob, err);
}

static void add_number(struct command_line *line, const char *option, int64_t number)
{
	char text[24];

	snprintf(text, sizeof text, "%" PRId64, number);
	if (number > 0)
		command_line_add(line, option, text);
}

static void add_drawing(struct command_line *line, const struct request *request,
	const char *question, const struct profile_format *format)
{
	command_line_add(line, "fleet", NULL);
	command_line_add(line, question, NULL);
	command_line_add(line, format->option, NULL);
	command_line_add_given(line, "--sort", request_text(request, "sort"));
	command_line_add_given(line, "--row-pattern", request_text(request, "rows"));
	command_line_add_given(line, "--frame-root", request_text(request, "root"));
	add_number(line, "--first", request_number(request, "first", 0));
	add_number(line, "--top", request_number(request, "limit", 0));
	add_number(line, "--frame-limit", request_number(request, "frames", 0));
	command_line_add(line, "--from", "/proc/self/fd/3");
}

static bool draw_picture(struct gateway *gateway, const struct request *request,
	const struct command_line *question, const struct command_line *drawing,
	struct blob *picture, struct blob **result, struct error *err)
{
	struct picture_order order = { gateway, picture, drawing };
	CLEANUP(free_cleanup) char *asked = command_line_key(question);
	CLEANUP(free_cleanup) char *drawn = command_line_key(drawing);
	CLEANUP(free_cleanup) char *key = xasprintf("fleet/%s %s", asked, drawn);

	return result_cache_get(&gateway->render_cache, key, USER_ANY, true, request->client_fd,
		draw, &order, result, err);
}

bool api_fleet_picture(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(command_line_deinit) struct command_line line = { 0 };
	CLEANUP(command_line_deinit) struct command_line drawing = { 0 };
	CLEANUP(blob_cleanup) struct blob *picture = NULL;
	CLEANUP(blob_cleanup) struct blob *result = NULL;
	const char *const question = request_text(request, "question");
	const char *const name = request_text(request, "format");
	const struct profile_format *const format =
		profile_format_find(name == NULL ? "json" : name);
	const int64_t ago_ms = request_number(request, "ago_ms", 0);
	struct fleet_store *store = NULL;

	if (!find_store(gateway, &store, err) || !begin_question(&line, request, question, err))
		return false;
	if (ago_ms != 0 && strcmp(question, "diff") != 0)
		return error_set(err, ERROR_USAGE, "ago_ms goes with question=diff");
	if (ago_ms != 0) {
		CLEANUP(free_cleanup) char *ago = xasprintf("%" PRId64 "ms", ago_ms);
		command_line_add(&line, "--ago", ago);
	}
	command_line_add(&line, "--picture", NULL);
	add_drawing(&drawing, request, question, format);
	if (!fleet_store_ask(store, request, &line, &picture, err))
		return fail_by_store(err, reply);
	if (!draw_picture(gateway, request, &line, &drawing, picture, &result, err))
		return false;
	reply_blob(reply, 200, format->media_type, result);
	reply->policy = format->policy;
	return true;
}
