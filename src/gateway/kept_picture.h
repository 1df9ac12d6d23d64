/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures of profiles that were kept: moments of the history, captures in folders. They are drawn
 * as those of a target's runs are (gateway/picture.h), but their process may have ended.
 */
#pragma once

#include "gateway/picture.h"
#include "gateway/request.h"

struct kept_profiles {
	const char *name;	     /* of their target */
	char *owner;		     /* what tells them from all others; free()d with the rest */
	struct blob *profile, *base; /* `base` is what is subtracted; NULL for nothing */
	int64_t time_ms, base_ms;    /* when they were taken */
};

void kept_profiles_deinit(struct kept_profiles *kept);

/*
 * Answers with the picture that the request asks for, or with why there is none, which returns
 * false.
 */
bool kept_picture_reply(struct gateway *gateway, const struct request *request,
	const struct kept_profiles *kept, struct reply *reply);
