/* SPDX-License-Identifier: Apache-2.0 */
/* /debug/pprof/, as Go's users know it: gzipped protobuf. */
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"
#include "client/agent_client.h"
#include "gateway/handlers.h"
#include "gateway/process_text.h"
#include "gateway/profile_render.h"

void go_index(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	struct error err = { 0 };

	if (!gateway_find(gateway, request, &backend, &err)) {
		reply_failure(request, &err, reply);
		return;
	}
	reply_text(reply, 200,
		"/debug/pprof/ of %s\n\n"
		"heap              objects in use, as pprof\n"
		"heap?seconds=30   the difference of two profiles, sampling stays as it is\n"
		"heap?debug=1      as jemalloc wrote it\n"
		"allocs            the same with all allocations, where prof_accum is on\n"
		"cmdline           the command line\n",
		backend->target.label);
}

static bool draw_two(struct gateway *gateway, struct backend *backend,
	const struct request *request, const struct profile_render *picture, struct blob **result,
	struct error *err)
{
	CLEANUP(run_profiles_cleanup) struct run_profiles before = { 0 };
	CLEANUP(run_profiles_cleanup) struct run_profiles now = { 0 };

	if (!run_profiles_load(gateway, backend, RUN_PROFILES_NOW, &before, err))
		return false;
	if (!gateway_wait(gateway, request, request_number(request, "seconds", 0) * 1000))
		return error_set(err, ERROR_TIMEOUT, "the wait was cut short");
	return run_profiles_load(gateway, backend, RUN_PROFILES_NOW, &now, err) &&
	       profile_render_run(
		       gateway, backend, picture, now.profile, before.profile, result, err);
}

/* Two snapshots with the time between them. */
static bool draw_difference(struct gateway *gateway, struct backend *backend,
	const struct request *request, const struct profile_render *picture, struct blob **result,
	struct error *err)
{
	if (!gateway_begin_wait(gateway, err))
		return false;
	const bool ok = draw_two(gateway, backend, request, picture, result, err);
	gateway_end_wait(gateway);
	return ok;
}

static void reply_heap(struct gateway *gateway, const struct request *request, const char *counter,
	struct reply *reply)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(blob_cleanup) struct blob *result = NULL;
	const bool is_difference = request_number(request, "seconds", 0) > 0;
	const bool is_text = request_number(request, "debug", 0) > 0 && !is_difference;
	const struct profile_render picture = {
		.format = profile_format_find(is_text ? "raw" : "pprof"),
		.counter = counter,
		.base_id = is_difference ? RUN_PROFILES_NOW : -1,
		.span_ms = request_number(request, "seconds", 0) * 1000,
	};
	struct error err = { 0 };

	if (!gateway_find(gateway, request, &backend, &err) ||
		!(is_difference ? draw_difference(
					  gateway, backend, request, &picture, &result, &err)
				: profile_render_get(gateway, backend, &picture, &result, &err))) {
		reply_failure(request, &err, reply);
		return;
	}
	reply_blob(reply, 200, is_text ? "text/plain; charset=utf-8" : "application/octet-stream",
		result);
	if (!is_text)
		reply_attachment(reply, "%s", strrchr(request->route->pattern, '/') + 1);
}

void go_heap(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	reply_heap(gateway, request, NULL, reply);
}

void go_allocs(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	reply_heap(gateway, request, "alloc_space", reply);
}

void go_cmdline(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	struct error err = { 0 };
	struct buffer text;

	buffer_init(&text, &memory_or_exit);
	if (gateway_find(gateway, request, &backend, &err) &&
		process_text_command(backend, '\0', &text, &err))
		reply_buffer(reply, 200, "text/plain; charset=utf-8", &text);
	else
		reply_failure(request, &err, reply);
	buffer_deinit(&text);
}
