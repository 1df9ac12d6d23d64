/* SPDX-License-Identifier: Apache-2.0 */
/* The watches that a request is about: those of one target, there or not, or all. */
#pragma once

#include <stdlib.h>

#include "gateway/request.h"
#include "gateway/watch_manager.h"

struct watch_view {
	char name[128]; /* of the target; "" for all */
	struct watch_manager_state state;
	struct watch_report *reports; /* owned */
	size_t count;
};

/* ERROR_NOT_FOUND when the gateway watches nothing. */
MUST_CHECK bool watch_view_take(struct gateway *gateway, const struct request *request,
	struct watch_view *view, struct error *err);
MUST_CHECK bool watch_view_take_all(
	struct gateway *gateway, struct watch_view *view, struct error *err);

static inline void watch_view_cleanup(struct watch_view *view)
{
	free(view->reports);
}

/* By its name, or its pid. */
bool watch_view_is_about(const struct watch_report *report, const char *name);
