/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles that a client sends to have them drawn. Nothing of them is kept: neither the files nor
 * what is drawn.
 */
#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "gateway/handlers.h"
#include "gateway/profile_render.h"
#include "gateway/upload.h"

static bool draw(struct gateway *gateway, const struct request *request, struct blob *profile,
	struct blob *base, struct reply *reply, struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(blob_cleanup) struct blob *result = NULL;
	CLEANUP(waiting_clients_deinit) struct waiting_clients clients = WAITING_CLIENTS_NONE;
	struct target target = { .kind = TARGET_AGENT };
	struct profile_render render = {
		.id = clock_realtime_ms(),
		.base_id = base == NULL ? -1 : 0,
		.file = request_text(request, "name"),
		.base_file = request_text(request, "base_name"),
	};

	waiting_clients_add(&clients, request->client_fd);
	if (render.file == NULL)
		render.file = "a profile";
	if (!profile_render_read(&render, gateway, request, err))
		return false;
	if (render.base_file == NULL)
		render.base_file = "another profile";
	if (render.format->option == NULL) {
		error_set(err, ERROR_USAGE, "the raw profile is what was sent");
		return error_hint(err, "name another format");
	}
	backend = backend_new(&target, "file");
	backend->owner = USER_ANY;
	if (!profile_render_run(gateway, backend, &render, &clients, profile, base, &result, err))
		return false;
	reply_blob(reply, 200, render.format->media_type, result);
	reply->policy = render.format->policy;
	return true;
}

bool api_file(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(blob_cleanup) struct blob *profile = NULL;
	CLEANUP(blob_cleanup) struct blob *base = NULL;
	const int64_t base_size = request_number(request, "base_size", 0);

	if (request->upload == NULL)
		return error_set(err, ERROR_USAGE, "the request has no profile in its body");
	if (base_size == 0)
		return draw(gateway, request, request->upload, NULL, reply, err);
	return upload_split(request->upload, (uint64_t)base_size, &base, &profile, err) &&
	       draw(gateway, request, profile, base, reply, err);
}
