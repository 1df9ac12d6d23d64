/* SPDX-License-Identifier: Apache-2.0 */
/* /mtev/, as in libmtev: GET for everything, and 500 for every failure. */
#include <string.h>

#include "base/xalloc.h"
#include "client/agent_client.h"
#include "gateway/handlers.h"

static void fail(const struct error *err, struct reply *reply)
{
	reply_error_text(reply, 500, err);
}

void mtev_memory(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	struct backend_answer answer;
	struct error err = { 0 };

	if (!gateway_find(gateway, request, &backend, &err) ||
		!backend_get(backend, "/v1/stats?options=J", BACKEND_PROFILE_MS, &answer, &err)) {
		fail(&err, reply);
		return;
	}
	reply_blob(reply, 200, "application/json", answer.body);
	blob_drop(answer.body);
}

static const char *word(const json_t *status, const char *path)
{
	const json_t *const value = json_at(status, path);

	/* Another allocator has no such settings, which is not false. */
	if (strcmp(json_text(status, "allocator.name"), "jemalloc") != 0)
		return "error";
	return json_is_boolean(value) ? (json_is_true(value) ? "true" : "false") : "error";
}

static void reply_state(struct backend *backend, struct reply *reply)
{
	CLEANUP(json_cleanup) json_t *status = NULL;
	struct error err = { 0 };

	if (!backend_get_json(backend, "/v1/status", &status, &err)) {
		fail(&err, reply);
		return;
	}
	const char *const enabled = word(status, "profiling.enabled");
	reply_text(reply, 200, "opt.prof: %s\n%sprof.active: %s\nprof.thread_active_init: %s\n",
		enabled,
		strcmp(enabled, "false") == 0 ? "# it has to be started with "
						"MALLOC_CONF=\"prof:true,prof_active:false\"\n"
					      : "",
		word(status, "profiling.active"), word(status, "profiling.thread_active_init"));
}

static void set_active(struct backend *backend, bool active, struct reply *reply)
{
	CLEANUP(blob_cleanup) struct blob *body = NULL;
	struct error err = { 0 };

	if (backend_post(backend, active ? "/v1/activate" : "/v1/deactivate", &body, NULL, &err))
		reply_text(
			reply, 200, "heap profiling is %s\n", active ? "activated" : "deactivated");
	else
		fail(&err, reply);
}

static void reply_dump(struct backend *backend, struct reply *reply)
{
	struct backend_answer answer;
	struct error err = { 0 };

	if (!backend_get_profile(backend, "/v1/profile", &answer, &err)) {
		fail(&err, reply);
		return;
	}
	reply_blob(reply, 200, "application/x-jemalloc-heap-profile", answer.body);
	blob_drop(answer.body);
}

void mtev_heap_profile(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	const char *const active = request_text(request, "active");
	const char *const dump = request_text(request, "trigger_dump");
	struct error err = { 0 };

	if (!gateway_find(gateway, request, &backend, &err))
		fail(&err, reply);
	else if (active != NULL)
		set_active(backend, strcmp(active, "true") == 0, reply);
	else if (dump != NULL && strcmp(dump, "true") == 0)
		reply_dump(backend, reply);
	else
		reply_state(backend, reply);
}
