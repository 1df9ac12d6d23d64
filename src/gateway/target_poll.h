/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks many targets the same question at once: those that hang delay the others by one time limit.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "gateway/backend_set.h"

enum { TARGET_POLL_LIMIT_MS = 2000 };

struct poll_result {
	struct backend *backend; /* borrowed from the list */
	json_t *value;		 /* NULL when the target did not answer: see err */
	struct error err;
	double milliseconds; /* how long the answer took */
};

struct target_poll {
	struct poll_result *items; /* as in the list */
	size_t count;
};

/*
 * GET of `path` from each target of the list. A target that did not answer in the `earlier` poll
 * of the same list (NULL: there is none) is not asked again: it would take the time limit once
 * more. Release with target_poll_deinit, before the list.
 */
void target_poll_run(struct target_poll *poll, const struct backend_list *list, const char *path,
	const struct target_poll *earlier);
void target_poll_deinit(struct target_poll *poll);
