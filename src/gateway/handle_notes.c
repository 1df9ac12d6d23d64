/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/notes: what users wrote about times in a history. */
#include <stdio.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "gateway/gateway.h"
#include "gateway/handlers.h"
#include "store/notes.h"

#define JSON_TYPE "application/json"

/* A pid stands for the name of its process. A process that has just begun has no snapshot yet. */
static bool find_target(struct gateway *gateway, const struct request *request,
	char name[GATEWAY_NAME_BYTES], struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	char text[GATEWAY_NAME_BYTES];
	struct error ignored;

	if (!gateway_find_history(gateway, request, text, err))
		return false;
	if (store_find_name(gateway->store, text, name, err))
		return true;
	if (err->kind != ERROR_NOT_FOUND || !gateway_find(gateway, request, &backend, &ignored))
		return false;
	snprintf(name, GATEWAY_NAME_BYTES, "%s", backend->name);
	return true;
}

bool api_notes(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	struct json_writer json;
	char name[GATEWAY_NAME_BYTES];

	if (!find_target(gateway, request, name, err))
		return false;
	const struct store_query query = {
		.target = name,
		.from_ms = request_number(request, "from_ms", 0),
		.to_ms = request_number(request, "to_ms", INT64_MAX),
	};
	json_init(&json, &body);
	json_object_begin(&json);
	json_key(&json, "notes");
	if (!store_list_notes(gateway->store, &query, &json, NULL, err))
		return false;
	json_object_end(&json);
	reply_buffer(reply, 200, JSON_TYPE, &body);
	return true;
}

bool api_add_note(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	struct json_writer json;
	char name[GATEWAY_NAME_BYTES];

	if (!find_target(gateway, request, name, err))
		return false;
	struct store_note note = {
		.time_ms = request_number(request, "time_ms", clock_realtime_ms()),
		.target = name,
		.text = request_text(request, "text"),
	};
	if (!store_add_note(gateway->store, &note, err))
		return false;
	json_init(&json, &body);
	store_put_note(&json, &note);
	reply_buffer(reply, 201, JSON_TYPE, &body);
	return true;
}

bool api_remove_note(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	const int64_t id = request_number(request, "id", 0);
	struct json_writer json;
	char name[GATEWAY_NAME_BYTES];

	if (!find_target(gateway, request, name, err) ||
		!store_remove_note(gateway->store, name, id, err))
		return false;
	json_init(&json, &body);
	json_object_begin(&json);
	json_member_integer(&json, "removed", id);
	json_object_end(&json);
	reply_buffer(reply, 200, JSON_TYPE, &body);
	return true;
}
