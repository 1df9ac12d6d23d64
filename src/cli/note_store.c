/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/note_store.h"

#include "base/xalloc.h"
#include "client/agent_client.h"
#include "store/notes.h"

static bool act(struct store *store, const struct note_request *request, const char *name,
	struct json_writer *json, struct error *err)
{
	if (request->text != NULL) {
		struct store_note note = {
			.time_ms = request->time_ms, .target = name, .text = request->text
		};
		if (!store_add_note(store, &note, err))
			return false;
		store_put_note(json, &note);
		return true;
	}
	if (request->remove != 0 && !store_remove_note(store, name, request->remove, err))
		return false;
	json_object_begin(json);
	if (request->remove != 0) {
		json_member_integer(json, "removed", request->remove);
	} else {
		const struct store_query query = { .target = name, .to_ms = INT64_MAX };
		json_key(json, "notes");
		if (!store_list_notes(store, &query, json, NULL, err))
			return false;
	}
	json_object_end(json);
	return true;
}

bool note_store_run(const struct note_request *request, json_t **answer, struct error *err)
{
	CLEANUP(store_cleanup) struct store *store = NULL;
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct json_writer json;
	json_error_t problem;
	char name[128];

	json_init(&json, &text);
	if (!store_open_reader(request->folder, STORE_HISTORY, &store, err) ||
		!store_find_name(store, request->target, name, err) ||
		!act(store, request, name, &json, err))
		return false;
	*answer = agent_json_parse(text.data, text.size, 0, &problem);
	return *answer != NULL ||
	       error_set(err, ERROR_INPUT, "%s: %s", request->folder, problem.text);
}
