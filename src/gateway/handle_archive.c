/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/timeline and /api/v1/moment: what serve --history has kept. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "gateway/archive.h"
#include "gateway/handlers.h"
#include "gateway/picture.h"
#include "gateway/route.h"
#include "profile/input.h"

#define JSON_TYPE "application/json"

/*
 * Whose history: a target that has ended is no longer among the backends, and its history is all
 * the more wanted. At the root it is that of the gateway's own target.
 */
static bool find_name(
	struct gateway *gateway, const struct request *request, char name[128], struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;

	if (gateway->archive == NULL) {
		error_set(err, ERROR_NOT_FOUND, "this gateway keeps no history");
		return error_hint(err, "start heapctl serve with --history FOLDER");
	}
	if (request->target_name != NULL) {
		snprintf(name, 128, "%s", request->target_name);
		return true;
	}
	if (gateway_find(gateway, request, &backend, err))
		snprintf(name, 128, "%s", backend->name);
	else if (gateway->backends.wanted_count > 0)
		snprintf(name, 128, "%s", gateway->backends.wanted[0]);
	else
		return false;
	return true;
}

void api_timeline(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	struct error err = { 0 };
	struct json_writer json;
	struct buffer body;
	char name[128];

	buffer_init(&body, &memory_or_exit);
	json_init(&json, &body);
	json_object_begin(&json);
	json_key(&json, "moments");
	if (find_name(gateway, request, name, &err) &&
		archive_list(gateway->archive, name, request_number(request, "from_ms", 0),
			request_number(request, "to_ms", INT64_MAX), &json, &err)) {
		json_object_end(&json);
		reply_buffer(reply, 200, JSON_TYPE, &body);
	} else {
		route_reply_error(request, &err, reply);
	}
	buffer_deinit(&body);
}

/* What was kept is compressed; a client that wants the profile itself need not know. */
static bool expand(const struct blob *kept, struct blob **blob, struct error *err)
{
	struct input input = { 0 };
	struct buffer text;

	if (!input_over("a kept profile", kept->data, kept->size, NULL, &input, err))
		return false;
	buffer_init(&text, &memory_or_exit);
	buffer_append(&text, input.data, input.size);
	*blob = blob_take(&text);
	input_close(&input);
	return true;
}

static bool draw(struct gateway *gateway, struct picture *picture, const char *name,
	struct blob *profile, struct blob *base, struct blob **product, struct error *err)
{
	struct target target = { .kind = TARGET_AGENT };
	CLEANUP(backend_cleanup) struct backend *backend = NULL;

	if (picture->format->option == NULL)
		return base == NULL ? expand(profile, product, err)
				    : error_set(err, ERROR_USAGE, "a difference has no raw form");
	/* Its process may be gone, and its pid another's: only the names are used. */
	snprintf(target.label, sizeof target.label, "%s", name);
	backend = backend_new(&target, name);
	backend->pid = 0;
	return picture_draw(gateway, backend, picture, profile, base, product, err);
}

void api_moment(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	CLEANUP(blob_cleanup) struct blob *profile = NULL;
	CLEANUP(blob_cleanup) struct blob *base = NULL;
	CLEANUP(blob_cleanup) struct blob *product = NULL;
	const char *const format = request_text(request, "format");
	const int64_t base_ms = request_number(request, "base_ms", -1);
	struct archive_moment now, before;
	struct error err = { 0 };
	char name[128];

	if (!find_name(gateway, request, name, &err) ||
		!archive_get(gateway->archive, name,
			request_number(request, "at_ms", clock_realtime_ms()), &now, &profile,
			&err) ||
		(base_ms >= 0 &&
			!archive_get(gateway->archive, name, base_ms, &before, &base, &err))) {
		route_reply_error(request, &err, reply);
		return;
	}
	struct picture picture = {
		.format = picture_format_find(format == NULL ? "json" : format),
		.id = now.time_ms,
		.base_id = base_ms >= 0 ? before.time_ms : -1,
		.counter = request_text(request, "counter"),
		.granularity = request_text(request, "granularity"),
		.focus = request_text(request, "focus"),
		.ignore = request_text(request, "ignore"),
	};
	if (!draw(gateway, &picture, now.target, profile, base, &product, &err)) {
		route_reply_error(request, &err, reply);
		return;
	}
	reply_blob(reply, 200, picture.format->media_type, product);
	reply->policy = picture.format->policy;
	reply_header(reply, "Heapctl-Time-Ms", "%lld", (long long)now.time_ms);
}
