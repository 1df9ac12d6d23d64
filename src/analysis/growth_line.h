/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least-squares line through a series, one rate and a level for each phase of each run, under a
 * given noise: how much that noise moves the line's rate, and how likely it is to leave what the
 * line leaves: see analysis/growth.h. The covariance is that of two states, a level that forgets
 * and a random walk, so Kalman's filter goes through a run once instead of inverting its matrix.
 */
#pragma once

#include "analysis/growth_data.h"

/* A member of the grid: f and T of the model. */
struct line_noise {
	double share;	       /* of the level that is turned over */
	double lifetime_hours; /* of its objects; 0: none is in two profiles */
	double weight;	       /* v of the model: of sampling alone, or of objects, too */
};

struct line_fit {
	double variance;	  /* of the series' plain rate by that noise, with s = 1 */
	double sampling_variance; /* what of it is sampling's */
	double residual;	  /* square sum, in units of the covariance */
	double log_likelihood; /* of s = 1, with rate and levels integrated out, less the residual's
				*/
};

/* The noise of a series that grows at `supposed_rate`. */
struct line_fit line_fit_make(
	const struct growth_data *series, double supposed_rate, const struct line_noise *noise);
