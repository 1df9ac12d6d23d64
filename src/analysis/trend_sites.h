/* SPDX-License-Identifier: Apache-2.0 */
/* The sites of a trend: for each of the biggest units, functions or stacks, what it had when. */
#pragma once

#include "analysis/trend.h"

/*
 * Makes the view, the sites with their names and series, and the series of the total, which has
 * room for them; runs are known. Fails like view_build.
 */
MUST_CHECK bool trend_sites_make(struct trend *trend, const struct series *series,
	const struct trend_request *request, struct error *err);
