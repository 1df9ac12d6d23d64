/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forwards the agent's protocol, for heapctl status http://... and the page. The path
 * is built from the matched route and the checked parameters. Beside it what the kernel
 * says of the target, for heapctl account and dump --bundle behind a gateway.
 */
#include <inttypes.h>
#include <string.h>

#include "base/xalloc.h"
#include "client/kernel_view.h"
#include "gateway/handlers.h"
#include "wire/http_target.h"

static const char *path_value(const struct request *request, const char *name, size_t size)
{
	const struct parameter *const parameters = request->route->parameters;

	for (size_t i = 0; parameters != NULL && parameters[i].name != NULL; i++) {
		if (parameters[i].is_in_path && strlen(parameters[i].name) == size &&
			strncmp(parameters[i].name, name, size) == 0)
			return request->values[i].text;
	}
	return "";
}

static void append_path(const struct request *request, struct buffer *out)
{
	const char *pattern = request->route->pattern;

	while (*pattern != '\0') {
		if (*pattern != '{') {
			buffer_append_char(out, *pattern++);
			continue;
		}
		const size_t size = strcspn(pattern, "}") - 1;
		http_append_encoded(out, path_value(request, pattern + 1, size));
		pattern += size + 2;
	}
}

static void append_query(const struct request *request, struct buffer *out)
{
	const struct parameter *const parameters = request->route->parameters;
	char separator = '?';

	for (size_t i = 0; parameters != NULL && parameters[i].name != NULL; i++) {
		if (parameters[i].is_in_path || request->values[i].text == NULL)
			continue;
		buffer_append_char(out, separator);
		buffer_append_string(out, parameters[i].name);
		buffer_append_char(out, '=');
		http_append_encoded(out, request->values[i].text);
		separator = '&';
	}
}

static bool is_profile(const struct request *request)
{
	return strcmp(request->route->media_type, "application/x-jemalloc-heap-profile") == 0;
}

static bool read_answer(struct backend *backend, const struct request *request, const char *path,
	struct backend_answer *answer, struct error *err)
{
	CLEANUP(waiting_clients_deinit) struct waiting_clients clients = WAITING_CLIENTS_NONE;

	waiting_clients_add(&clients, request->client_fd);
	if (is_profile(request))
		return backend_get_profile(backend, path, &clients, answer, err);
	return backend_get(backend, path,
		strcmp(request->route->pattern, "/v1/stats") == 0 ? BACKEND_PROFILE_MS
								  : BACKEND_READ_MS,
		answer, err);
}

const char *stats_media_type(const char *format)
{
	return strcmp(format, "text") == 0 ? "text/plain; charset=utf-8" : "application/json";
}

static const char *media_type(const struct request *request)
{
	const struct route *const route = request->route;
	const char *const format = request_text(request, "format");

	return format == NULL || route->format_media_type == NULL
		       ? route->media_type
		       : route->format_media_type(format);
}

bool agent_read(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	struct backend_answer answer;
	CLEANUP(buffer_deinit) struct buffer path = BUFFER_OR_EXIT;

	append_path(request, &path);
	append_query(request, &path);
	if (!gateway_find(gateway, request, &backend, err) ||
		!read_answer(backend, request, buffer_string(&path), &answer, err))
		return false;
	reply_blob(reply, 200, media_type(request), answer.body);
	if (is_profile(request) && answer.time_ms != 0) {
		reply_header(reply, "Heapctl-Dump-Ms", "%.0f", answer.milliseconds);
		reply_header(reply, "Heapctl-Time-Ms", "%" PRId64, answer.time_ms);
	}
	blob_drop(answer.body);
	return true;
}

/* force=true is not passed through (docs/decisions.md). */
static void correct_hint(struct error *err)
{
	if (strstr(err->hint, "force=true") != NULL)
		error_hint(err, "not through a gateway: on the target's machine, with force=true");
}

bool agent_change(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(blob_cleanup) struct blob *body = NULL;
	bool created = false;
	CLEANUP(buffer_deinit) struct buffer path = BUFFER_OR_EXIT;

	append_path(request, &path);
	append_query(request, &path);
	if (!gateway_find(gateway, request, &backend, err) ||
		!backend_post(backend, buffer_string(&path), &body, &created, err)) {
		correct_hint(err);
		return false;
	}
	reply_blob(reply, created ? 201 : 200, "application/json", body);
	return true;
}

enum { KERNEL_PART_BYTES = 256 * 1024 * 1024 };

bool api_kernel(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	const enum kernel_part part = (enum kernel_part)request_number(request, "part", 0);

	body.limit = KERNEL_PART_BYTES;
	if (!gateway_find(gateway, request, &backend, err) ||
		!kernel_view_fetch(&backend->target, part, &body, err))
		return false;
	reply_buffer(reply, 200, "text/plain; charset=utf-8", &body);
	return true;
}
