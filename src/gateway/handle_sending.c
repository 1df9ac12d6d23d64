/* SPDX-License-Identifier: Apache-2.0 */
/* /api/v1/sending: what serve --send does. */
#include "base/json_writer.h"
#include "base/xalloc.h"
#include "gateway/handlers.h"
#include "gateway/send_supervisor.h"

static const char *name_of(const struct send_state *state)
{
	if (state->problem.kind != ERROR_NONE)
		return "waiting";
	return state->unsent > state->left_out ? "sending" : "idle";
}

static void put_problem(struct json_writer *json, const struct error *problem)
{
	json_key(json, "problem");
	if (problem->kind == ERROR_NONE) {
		json_put_null(json);
		return;
	}
	json_object_begin(json);
	json_member_string(json, "code", error_kind_name(problem->kind));
	json_member_string(json, "message", problem->message);
	json_member_string(json, "hint", problem->hint);
	json_object_end(json);
}

bool api_sending(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;
	struct json_writer json;
	struct send_state state;

	(void)request;
	if (gateway->sender == NULL) {
		error_set(err, ERROR_NOT_FOUND, "this gateway sends nothing");
		return error_hint(err, "start heapctl serve with --history FOLDER --send URL");
	}
	send_supervisor_read(gateway->sender, &state);
	json_init(&json, &body);
	json_object_begin(&json);
	json_member_string(&json, "to", send_supervisor_url(gateway->sender));
	json_member_string(&json, "state", name_of(&state));
	json_member_unsigned(&json, "sent", state.sent);
	json_member_unsigned(&json, "known", state.known);
	json_member_unsigned(&json, "left_out", state.left_out);
	json_member_unsigned(&json, "unsent", state.unsent);
	json_member_integer_or_null(&json, "oldest_unsent_ms", state.oldest_unsent_ms);
	json_member_integer_or_null(&json, "last_sent_ms", state.last_sent_ms);
	json_member_integer_or_null(&json, "next_attempt_ms", state.next_attempt_ms);
	json_member_unsigned(&json, "restarts", state.restarts);
	put_problem(&json, &state.problem);
	json_object_end(&json);
	reply_buffer(reply, 200, "application/json", &body);
	return true;
}
