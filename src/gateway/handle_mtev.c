/* SPDX-License-Identifier: Apache-2.0 */
/* /mtev/, as in libmtev: GET for everything, and 500 for every failure. */
#include <string.h>

#include "base/xalloc.h"
#include "client/agent_client.h"
#include "gateway/handlers.h"

bool mtev_memory(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	struct backend_answer answer;

	if (!gateway_find(gateway, request, &backend, err) ||
		!backend_get(backend, "/v1/stats?options=J", BACKEND_PROFILE_MS, &answer, err))
		return false;
	reply_blob(reply, 200, "application/json", answer.body);
	blob_drop(answer.body);
	return true;
}

static const char *word(const json_t *status, const char *path)
{
	const json_t *const value = json_at(status, path);

	/* Another allocator has no such settings, which is not false. */
	if (strcmp(json_text(status, "allocator.name"), "jemalloc") != 0)
		return "error";
	return json_is_boolean(value) ? (json_is_true(value) ? "true" : "false") : "error";
}

static bool reply_state(struct backend *backend, struct reply *reply, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	if (!backend_get_json(backend, "/v1/status", &status, err))
		return false;
	const char *const enabled = word(status, "profiling.enabled");
	reply_text(reply, 200, "opt.prof: %s\n%sprof.active: %s\nprof.thread_active_init: %s\n",
		enabled,
		strcmp(enabled, "false") == 0 ? "# it has to be started with "
						"MALLOC_CONF=\"prof:true,prof_active:false\"\n"
					      : "",
		word(status, "profiling.active"), word(status, "profiling.thread_active_init"));
	return true;
}

static bool set_active(struct backend *backend, bool active, struct reply *reply, struct error *err)
{
	CLEANUP(blob_cleanup) struct blob *body = NULL;

	if (!backend_post(backend, active ? "/v1/activate" : "/v1/deactivate", &body, NULL, err))
		return false;
	reply_text(reply, 200, "heap profiling is %s\n", active ? "activated" : "deactivated");
	return true;
}

static bool reply_dump(struct backend *backend, struct reply *reply, struct error *err)
{
	struct backend_answer answer;

	if (!backend_get_profile(backend, "/v1/profile", &answer, err))
		return false;
	reply_blob(reply, 200, "application/x-jemalloc-heap-profile", answer.body);
	blob_drop(answer.body);
	return true;
}

bool mtev_heap_profile(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	const char *const active = request_text(request, "active");
	const char *const dump = request_text(request, "trigger_dump");

	if (!gateway_find(gateway, request, &backend, err))
		return false;
	if (active != NULL)
		return set_active(backend, strcmp(active, "true") == 0, reply, err);
	if (dump != NULL && strcmp(dump, "true") == 0)
		return reply_dump(backend, reply, err);
	return reply_state(backend, reply, err);
}
