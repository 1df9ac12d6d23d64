/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/routes.h"

#include <stdio.h>
#include <string.h>

#include "agent/run.h"
#include "agent/thread.h"
#include "base/units.h"
#include "sampler/entry_area.h"
#include "sampler/interposer.h"
#include "wire/http_target.h"

enum { STATS_BYTES_MAX = 64 << 20 };

struct route_call {
	struct core *core;
	const struct http_target *target;
	const char *segment; /* the part of the path that matched '*' */
	struct response *response;
};

static bool handle_status(struct route_call *exchange, struct error *err)
{
	struct json_writer json;

	(void)err;
	json_init(&json, &exchange->response->body);
	core_write_status(exchange->core, &json);
	return true;
}

static const char profile_type[] = "application/x-jemalloc-heap-profile";

static bool handle_profile(struct route_call *exchange, struct error *err)
{
	struct response *const response = exchange->response;
	struct captured_profile capture = CAPTURE_NONE;

	if (!core_profile(exchange->core, &capture, err))
		return false;
	response->content_type = profile_type;
	response->file = capture.file;
	response->file_size = capture.size_bytes;
	response->dump_ms = capture.duration_ms;
	response->time_ms = capture.time_ms;
	return true;
}

static bool handle_stats(struct route_call *exchange, struct error *err)
{
	const char *const options = http_target_parameter(exchange->target, "options");
	const char *const format = http_target_parameter(exchange->target, "format");
	const bool text = format != NULL && strcmp(format, "text") == 0;
	struct buffer *const body = &exchange->response->body;
	char letters[32];

	if (format != NULL && !text && strcmp(format, "json") != 0)
		return error_set(
			err, ERROR_USAGE, "format must be json or text, not '%.40s'", format);
	if (options != NULL && strspn(options, "Jgmdablxehw") != strlen(options))
		return error_set(err, ERROR_USAGE,
			"options must be letters of Jgmdablxehw, not '%.40s'", options);
	/* "J" selects JSON, and each other letter omits a section. */
	snprintf(letters, sizeof letters, "%s%.20s", text ? "" : "J",
		options == NULL ? (text ? "" : "abl") : options);
	body->limit = STATS_BYTES_MAX;
	if (!allocator_stats(exchange->core->allocator, letters, body, err))
		return false;
	if (text)
		exchange->response->content_type = "text/plain; charset=utf-8";
	return true;
}

static bool read_bool(
	const char *name, const struct http_target *target, bool *value, struct error *err)
{
	const char *const text = http_target_parameter(target, name);

	if (text == NULL)
		return true;
	*value = strcmp(text, "true") == 0 || strcmp(text, "1") == 0;
	if (*value || strcmp(text, "false") == 0 || strcmp(text, "0") == 0)
		return true;
	return error_set(err, ERROR_USAGE, "%s must be true or false, not '%.40s'", name, text);
}

/* A decimal number of at most 18 digits. */
static bool read_number(const char *name, const char *text, int64_t *number, struct error *err)
{
	int64_t value = 0;
	size_t digits = 0;

	for (; text[digits] >= '0' && text[digits] <= '9' && digits < 18; digits++)
		value = value * 10 + (text[digits] - '0');
	if (digits == 0 || text[digits] != '\0')
		return error_set(err, ERROR_USAGE, "%s must be a number, not '%.40s'", name, text);
	*number = value;
	return true;
}

static void write_switched(struct route_call *exchange, bool active, bool was_active)
{
	struct json_writer json;

	json_init(&json, &exchange->response->body);
	json_object_begin(&json);
	json_member_bool(&json, "active", active);
	json_member_bool(&json, "was_active", was_active);
	json_object_end(&json);
}

static bool handle_activate(struct route_call *exchange, struct error *err)
{
	bool was_active = false;

	if (!core_activate(exchange->core, true, &was_active, err))
		return false;
	write_switched(exchange, true, was_active);
	return true;
}

static bool handle_deactivate(struct route_call *exchange, struct error *err)
{
	const char *const text = http_target_parameter(exchange->target, "duration_ms");
	int64_t duration_ms = 0;
	bool was_active = false;

	if (text != NULL && !read_number("duration_ms", text, &duration_ms, err))
		return false;
	if (text != NULL ? !core_pause(exchange->core, duration_ms, &was_active, err)
			 : !core_activate(exchange->core, false, &was_active, err))
		return false;
	write_switched(exchange, false, was_active);
	return true;
}

static bool handle_detach(struct route_call *exchange, struct error *err)
{
	/* The slots are restored when the answer is on its way. */
	const size_t taken_slots = interposer_count_taken();
	bool unmap = false, is_replaced = false;
	struct json_writer json;

	if (!read_bool("unmap", exchange->target, &unmap, err) ||
		!read_bool("replace", exchange->target, &is_replaced, err) ||
		!core_detach(exchange->core, is_replaced, err))
		return false;
	/* An attach that failed may have left an area to which no function leads. */
	if (unmap || entry_area_get() == NULL)
		entry_area_unmap();
	json_init(&json, &exchange->response->body);
	json_object_begin(&json);
	json_member_bool(&json, "detached", true);
	json_member_unsigned(&json, "mapped_bytes", thread_own_module_bytes());
	json_member_unsigned(&json, "taken_slots", taken_slots);
	json_object_end(&json);
	return true;
}

/* ALLOCATOR_LG_SAMPLE_KEEP when it is left out. */
static bool read_lg_sample(const struct http_target *target, int *lg_sample, struct error *err)
{
	const char *const text = http_target_parameter(target, "lg_sample");
	int64_t number = ALLOCATOR_LG_SAMPLE_KEEP;

	if (text != NULL && !read_number("lg_sample", text, &number, err))
		return false;
	if (number > ALLOCATOR_LG_SAMPLE_MAX)
		return error_set(err, ERROR_USAGE, "lg_sample must be from 0 to 40");
	*lg_sample = (int)number;
	return true;
}

static bool handle_reset(struct route_call *exchange, struct error *err)
{
	int lg_sample = ALLOCATOR_LG_SAMPLE_KEEP;
	bool force = false;
	unsigned now = 0;
	struct json_writer json;

	if (!read_lg_sample(exchange->target, &lg_sample, err) ||
		!read_bool("force", exchange->target, &force, err) ||
		!core_reset(exchange->core, lg_sample, force, err) ||
		!allocator_lg_sample(exchange->core->allocator, &now, err))
		return false;
	json_init(&json, &exchange->response->body);
	json_object_begin(&json);
	json_member_unsigned(&json, "lg_sample", now);
	json_member_unsigned(&json, "sample_interval", sample_interval_bytes(now));
	json_object_end(&json);
	return true;
}

static void write_run(struct route_call *exchange, const struct run *run, bool already_running)
{
	struct json_writer json;

	json_init(&json, &exchange->response->body);
	run_write_json(&json, run, core_remaining_ms(exchange->core, run), already_running);
}

static bool handle_run_start(struct route_call *exchange, struct error *err)
{
	const char *const text = http_target_parameter(exchange->target, "duration_ms");
	struct core_run_request request = { .duration_ms = DURATION_DEFAULT_RUN_MS };
	struct run run;
	bool already_running = false;

	if ((text != NULL && !read_number("duration_ms", text, &request.duration_ms, err)) ||
		!read_bool("keep_active", exchange->target, &request.keep_active, err) ||
		!read_lg_sample(exchange->target, &request.lg_sample, err) ||
		!core_run_start(exchange->core, &request, &run, &already_running, err))
		return false;
	exchange->response->status = already_running ? 200 : 201;
	write_run(exchange, &run, already_running);
	return true;
}

static bool handle_run_stop(struct route_call *exchange, struct error *err)
{
	struct run run;

	if (!core_run_stop(exchange->core, &run, err))
		return false;
	write_run(exchange, &run, false);
	return true;
}

struct run_list {
	struct core *core;
	struct json_writer json;
};

static void write_listed_run(void *context, const struct run *run)
{
	struct run_list *const list = context;

	run_write_json(&list->json, run, core_remaining_ms(list->core, run), false);
}

static bool handle_run_list(struct route_call *exchange, struct error *err)
{
	struct run_list list = { .core = exchange->core };

	(void)err;
	json_init(&list.json, &exchange->response->body);
	json_object_begin(&list.json);
	json_key(&list.json, "runs");
	json_array_begin(&list.json);
	core_run_list(exchange->core, write_listed_run, &list);
	json_array_end(&list.json);
	json_object_end(&list.json);
	return true;
}

static bool handle_run(struct route_call *exchange, struct error *err)
{
	int64_t id = 0;
	struct run run;

	if (!read_number("a run's id", exchange->segment, &id, err) ||
		!core_run_find(exchange->core, id, &run, err))
		return false;
	write_run(exchange, &run, false);
	return true;
}

static bool open_run_profile(
	struct route_call *exchange, enum run_store_profile which, struct error *err)
{
	struct response *const response = exchange->response;
	int64_t id = 0;

	if (!read_number("a run's id", exchange->segment, &id, err) ||
		!core_run_open(
			exchange->core, id, which, &response->file, &response->file_size, err))
		return false;
	response->content_type = profile_type;
	return true;
}

static bool handle_run_profile(struct route_call *exchange, struct error *err)
{
	return open_run_profile(exchange, RUN_STORE_END, err);
}

static bool handle_run_start_profile(struct route_call *exchange, struct error *err)
{
	return open_run_profile(exchange, RUN_STORE_START, err);
}

static bool handle_run_remove(struct route_call *exchange, struct error *err)
{
	int64_t id = 0;
	struct json_writer json;

	if (!read_number("a run's id", exchange->segment, &id, err) ||
		!core_run_remove(exchange->core, id, err))
		return false;
	json_init(&json, &exchange->response->body);
	json_object_begin(&json);
	json_member_integer(&json, "removed", id);
	json_object_end(&json);
	return true;
}

static bool read_type(const struct http_target *target, enum mallctl_type *type, struct error *err)
{
	const char *const word = http_target_parameter(target, "type");

	*type = MALLCTL_UNKNOWN;
	if (word == NULL)
		return true;
	*type = mallctl_type_parse(word);
	if (*type != MALLCTL_UNKNOWN)
		return true;
	return error_set(err, ERROR_USAGE,
		"type must be one of bool u32 u64 size ssize string unit, not '%.40s'", word);
}

static void write_value(
	struct json_writer *json, const char *key, const struct mallctl_value *value, bool known)
{
	json_key(json, key);
	if (known)
		mallctl_value_json(json, value);
	else
		json_put_null(json);
}

static bool handle_mallctl_read(struct route_call *exchange, struct error *err)
{
	enum mallctl_type type = MALLCTL_UNKNOWN;
	struct mallctl_value value;
	struct json_writer json;

	if (!read_type(exchange->target, &type, err) ||
		!allocator_read(exchange->core->allocator, exchange->segment, type, &value, err))
		return false;
	json_init(&json, &exchange->response->body);
	json_object_begin(&json);
	json_member_string(&json, "name", exchange->segment);
	json_member_string(&json, "type", mallctl_type_name(value.type));
	write_value(&json, "value", &value, true);
	json_object_end(&json);
	return true;
}

static bool handle_mallctl_write(struct route_call *exchange, struct error *err)
{
	const char *const text = http_target_parameter(exchange->target, "value");
	struct allocator *const allocator = exchange->core->allocator;
	const char *const name = exchange->segment;
	enum mallctl_type type = MALLCTL_UNKNOWN;
	struct mallctl_value before, after;
	struct error ignored;
	struct json_writer json;
	bool force = false;

	if (!read_type(exchange->target, &type, err) ||
		!read_bool("force", exchange->target, &force, err))
		return false;
	const bool read_before = allocator_read(allocator, name, type, &before, &ignored);
	if (!core_mallctl_write(exchange->core, name, type, text == NULL ? "" : text, force, err))
		return false;
	const bool read_after = allocator_read(allocator, name, type, &after, &ignored);
	if (type == MALLCTL_UNKNOWN)
		type = mallctl_name_type(name);
	json_init(&json, &exchange->response->body);
	json_object_begin(&json);
	json_member_string(&json, "name", name);
	json_member_string(&json, "type", mallctl_type_name(type));
	write_value(&json, "before", &before, read_before);
	write_value(&json, "value", &after, read_after);
	json_object_end(&json);
	return true;
}

static const char *const no_parameters[] = { NULL };
static const char *const pause_parameters[] = { "duration_ms", NULL };
static const char *const detach_parameters[] = { "unmap", "replace", NULL };
static const char *const stats_parameters[] = { "format", "options", NULL };
static const char *const start_parameters[] = { "duration_ms", "keep_active", "lg_sample", NULL };
static const char *const reset_parameters[] = { "lg_sample", "force", NULL };
static const char *const read_parameters[] = { "type", NULL };
static const char *const write_parameters[] = { "type", "value", "force", NULL };

static const struct agent_route {
	const char *method;
	const char *path; /* '*' matches one segment */
	const char *const *parameters;
	bool (*handle)(struct route_call *exchange, struct error *err);
} routes[] = {
	{ "GET", "/v1/status", no_parameters, handle_status },
	{ "POST", "/v1/activate", no_parameters, handle_activate },
	{ "POST", "/v1/deactivate", pause_parameters, handle_deactivate },
	{ "POST", "/v1/detach", detach_parameters, handle_detach },
	{ "GET", "/v1/profile", no_parameters, handle_profile },
	{ "GET", "/v1/stats", stats_parameters, handle_stats },
	{ "POST", "/v1/reset", reset_parameters, handle_reset },
	{ "POST", "/v1/runs", start_parameters, handle_run_start },
	{ "GET", "/v1/runs", no_parameters, handle_run_list },
	{ "POST", "/v1/runs/stop", no_parameters, handle_run_stop },
	{ "GET", "/v1/runs/*", no_parameters, handle_run },
	{ "GET", "/v1/runs/*/profile", no_parameters, handle_run_profile },
	{ "GET", "/v1/runs/*/start", no_parameters, handle_run_start_profile },
	{ "POST", "/v1/runs/*/remove", no_parameters, handle_run_remove },
	{ "GET", "/v1/mallctl/*", read_parameters, handle_mallctl_read },
	{ "POST", "/v1/mallctl/*", write_parameters, handle_mallctl_write },
};

/* Whether the path fits; copies what matches '*'. */
static bool path_matches(const char *pattern, const char *path, char *segment, size_t size)
{
	for (; *pattern != '\0'; pattern++) {
		if (*pattern != '*') {
			if (*path++ != *pattern)
				return false;
			continue;
		}
		const size_t length = strcspn(path, "/");
		if (length == 0 || length >= size)
			return false;
		memcpy(segment, path, length);
		segment[length] = '\0';
		path += length;
	}
	return *path == '\0';
}

static bool method_fits(const char *wanted, const char *method)
{
	return strcmp(wanted, method) == 0 ||
	       (strcmp(wanted, "GET") == 0 && strcmp(method, "HEAD") == 0);
}

/* The methods of a path, as bits. */
enum { METHOD_GET = 1, METHOD_POST = 2 };

/* The route, or NULL with `methods` set to those that the path has. */
static const struct agent_route *find_route(
	const char *method, const char *path, char *segment, size_t segment_size, unsigned *methods)
{
	bool is_named = false;

	for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
		const bool is_pattern = strchr(routes[i].path, '*') != NULL;
		/* The last part of "/v1/runs/stop" is no id. */
		if ((is_pattern && is_named) ||
			!path_matches(routes[i].path, path, segment, segment_size))
			continue;
		is_named = !is_pattern;
		if (method_fits(routes[i].method, method))
			return &routes[i];
		*methods |= strcmp(routes[i].method, "GET") == 0 ? METHOD_GET : METHOD_POST;
	}
	return NULL;
}

static void answer_without_route(
	struct response *response, const char *method, const char *path, unsigned methods)
{
	static const struct {
		const char *names, *allow;
	} texts[] = {
		[METHOD_GET] = { "GET", "GET, HEAD" },
		[METHOD_POST] = { "POST", "POST" },
		[METHOD_GET | METHOD_POST] = { "GET or POST", "GET, HEAD, POST" },
	};
	struct error err;

	if (methods == 0) {
		error_set(&err, ERROR_NOT_FOUND, "there is no '%.80s'", path);
		error_hint(&err, "docs/protocol.md lists the paths; GET /v1/status is one");
		response_set_error(response, &err);
		return;
	}
	error_set(&err, ERROR_USAGE, "'%.80s' needs %s, not %.16s", path, texts[methods].names,
		method);
	error_hint(&err, "send it by %s", texts[methods].names);
	response_set_status_error(response, 405, &err);
	response->allow = texts[methods].allow;
}

static bool parse_parameters(
	const struct agent_request *request, struct http_target *target, struct error *err)
{
	return http_target_parse(request->target, target, err) &&
	       (request->form == NULL || http_target_add_query(request->form, target, err));
}

static void run_route(const struct agent_route *route, struct route_call *exchange)
{
	struct response *const response = exchange->response;
	struct error err;

	if (!http_target_allow(exchange->target, route->parameters, &err) ||
		!route->handle(exchange, &err)) {
		response_set_error(response, &err);
		return;
	}
	if (strcmp(response->content_type, "application/json") == 0)
		buffer_append_char(&response->body, '\n');
	if (response->body.failed) {
		error_set(&err, ERROR_MEMORY, "no memory for the answer");
		response_set_error(response, &err);
	}
}

void routes_handle(
	struct core *core, const struct agent_request *request, struct response *response)
{
	char segment[MALLCTL_NAME_MAX];
	unsigned methods = 0;
	struct http_target target;
	struct error err;

	if (!parse_parameters(request, &target, &err)) {
		response_set_error(response, &err);
		return;
	}
	const struct agent_route *const route =
		find_route(request->method, target.path, segment, sizeof segment, &methods);
	if (route == NULL) {
		answer_without_route(response, request->method, target.path, methods);
		return;
	}
	struct route_call exchange = {
		.core = core, .target = &target, .segment = segment, .response = response
	};
	run_route(route, &exchange);
}
