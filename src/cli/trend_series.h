/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A series of profiles in one file: a tar, which may be compressed as its members may. The history
 * of a gateway is handed over as one. A bundle is a tar, too, and no series.
 */
#pragma once

#include "analysis/series.h"
#include "base/cursor.h"

/*
 * Adds all profiles of a tar, each with its member's time unless it tells its own. What is damaged
 * or no profile is left out, counted and told: one in a history of weeks shall not cost it all.
 */
MUST_CHECK bool trend_series_load(struct series *series, const char *name, struct cursor in,
	size_t *damaged_count, struct error *err);

/* The same for a file if it is one; else nothing was done, successfully. */
MUST_CHECK bool trend_series_load_file(struct series *series, const char *path,
	size_t *damaged_count, bool *is_series, struct error *err);
