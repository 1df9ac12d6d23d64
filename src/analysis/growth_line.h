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

/*
 * The points of a series by several functions of time, after a filter that makes the noise white
 * and without what the level of each run explains. So least squares are sums of products.
 */

enum { MAX_CANDIDATES = GROWTH_POINTS };

struct basis_column {
	double at[GROWTH_POINTS];
};

struct basis {
	size_t count; /* of points */
	double log_determinant;
	struct basis_column values, line, cosine, sine;
	struct basis_column steps[MAX_CANDIDATES];  /* after this point */
	struct basis_column hinges[MAX_CANDIDATES]; /* from this point on */
};

/*
 * With the noise of a member of the grid, and a random walk of that variance an hour. The waves are
 * made for a period above 0.
 */
void basis_make(const struct growth_data *series, const struct line_noise *noise,
	double walk_variance, double period, struct basis *basis);

/* Between two points. */
double column_product(
	const struct basis_column *x, const struct basis_column *y, size_t first, size_t end);

/* Takes out of x what y explains, between two points; y's square is known. */
void column_take_out(struct basis_column *x, const struct basis_column *y, double square,
	size_t first, size_t end);

/* The part of the square sum that a column explains; its coefficient, where it is wanted. */
double basis_explained(
	const struct basis *basis, const struct basis_column *column, double *coefficient);

/* Takes out of all but the waves what a column explains. */
void basis_remove(
	struct basis *basis, const struct growth_data *series, struct basis_column column);
