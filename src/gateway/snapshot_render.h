/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renders kept profiles: snapshots of the history, captures in folders. The formats are those of
 * runs (gateway/profile_render.h), but the process may have ended.
 */
#pragma once

#include "gateway/profile_render.h"
#include "gateway/request.h"

struct snapshot_profiles {
	const char *name;	     /* of their target */
	char *owner;		     /* what tells them from all others; free()d with the rest */
	struct blob *profile, *base; /* `base` is what is subtracted; NULL for nothing */
	int64_t time_ms, base_ms;    /* when they were taken */
};

void snapshot_profiles_deinit(struct snapshot_profiles *kept);

/*
 * Answers with the render that the request asks for. False: with the reason why there is none.
 */
bool snapshot_render_reply(struct gateway *gateway, const struct request *request,
	const struct snapshot_profiles *kept, struct reply *reply);
