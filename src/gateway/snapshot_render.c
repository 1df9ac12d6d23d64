/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/snapshot_render.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "profile/profile_read.h"

void snapshot_profiles_deinit(struct snapshot_profiles *kept)
{
	free(kept->owner);
	blob_drop(kept->profile);
	blob_drop(kept->base);
	*kept = (struct snapshot_profiles){ 0 };
}

/* The history's are compressed; a client that wants the profile itself need not know. */
static bool expand(struct blob *kept, struct blob **blob, struct error *err)
{
	struct input input = { 0 };
	struct buffer text;

	if (!input_over("a kept profile", kept->data, kept->size, NULL, profile_may_begin_with,
		    &input, err))
		return false;
	if (input.data == kept->data) {
		*blob = blob_share(kept);
	} else {
		buffer_init(&text, &memory_or_exit);
		buffer_append(&text, input.data, input.size);
		*blob = blob_take(&text);
	}
	input_close(&input);
	return true;
}

/* What is needed to draw one. */
struct order {
	struct gateway *gateway;
	const struct profile_render *render;
	const struct snapshot_profiles *kept;
};

/* By the target's name alone: its process may be gone, and its pid another's. */
static bool draw(void *context, struct blob **blob, struct error *err)
{
	const struct order *const order = context;
	const struct snapshot_profiles *const kept = order->kept;
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	struct target target = { .kind = TARGET_AGENT };

	if (order->render->format->option == NULL)
		return kept->base == NULL
			       ? expand(kept->profile, blob, err)
			       : error_set(err, ERROR_USAGE, "a difference has no raw form");
	snprintf(target.label, sizeof target.label, "%s", kept->name);
	backend = backend_new(&target, kept->name);
	backend->pid = 0;
	return profile_render_run(
		order->gateway, backend, order->render, kept->profile, kept->base, blob, err);
}

bool snapshot_render_reply(struct gateway *gateway, const struct request *request,
	const struct snapshot_profiles *kept, struct reply *reply)
{
	const char *const format = request_text(request, "format");
	const struct profile_render render = {
		.format = profile_format_find(format == NULL ? "json" : format),
		.id = kept->time_ms,
		.base_id = kept->base == NULL ? -1 : kept->base_ms,
		.is_of_moments = true,
		.counter = request_text(request, "counter"),
		.granularity = request_text(request, "granularity"),
		.focus = request_text(request, "focus"),
		.ignore = request_text(request, "ignore"),
	};
	struct order order = { gateway, &render, kept };
	CLEANUP(free_cleanup) char *key = profile_render_key(kept->owner, &render);
	CLEANUP(blob_cleanup) struct blob *result = NULL;
	struct error err = { 0 };

	if (!result_cache_get(&gateway->render_cache, key, render.format->option != NULL, draw,
		    &order, &result, &err)) {
		reply_failure(request, &err, reply);
		return false;
	}
	reply_blob(reply, 200, render.format->media_type, result);
	reply->policy = render.format->policy;
	return true;
}
