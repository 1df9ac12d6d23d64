/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One reading of many targets at the same time, so that one that hangs makes the others wait no
 * longer than a single time limit.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "gateway/backend_set.h"

enum { READINGS_LIMIT_MS = 2000 };

struct reading {
	struct backend *backend; /* borrowed from the list */
	json_t *value;		 /* NULL when the target did not answer: see err */
	struct error err;
	double milliseconds; /* how long the answer took */
};

struct readings {
	struct reading *items; /* as in the list */
	size_t count;
};

/*
 * GET of `path` from each target of the list. A target that did not answer in the `earlier` reading
 * of the same list (NULL: there is none) is not asked again: it would take the time limit once
 * more. Release with readings_deinit, before the list.
 */
void readings_take(struct readings *readings, const struct backend_list *list, const char *path,
	const struct readings *earlier);
void readings_deinit(struct readings *readings);

static inline void readings_cleanup(struct readings *readings)
{
	readings_deinit(readings);
}
