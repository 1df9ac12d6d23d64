/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a series grows, and whether it does at all: averages of the line
 * (analysis/growth_line.h) over a grid of noises, each weighed by how likely it leaves what the
 * line leaves.
 */
#pragma once

#include "analysis/growth_data.h"

#define GROWTH_LEVEL 0.05 /* below which p is growth, of a single series */

/* Noise of sampling, or also the program's own fluctuation. */
enum growth_noise { NOISE_SAMPLING, NOISE_PROGRAM };

struct growth_rate {
	double rate;
	double low, high; /* of its 95% interval */
};

struct growth_rate growth_rate_find(const struct growth_data *series, enum growth_noise noise);

/* Sets `p`, of growth from the start or from any other moment on. Returns whether it falls rather.
 */
bool growth_rate_find_p(const struct growth_data *series, double *p);

/* Whether it clearly falls, all the time. */
bool growth_rate_falls(const struct growth_data *series);
