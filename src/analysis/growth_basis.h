/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The points of a series by several functions of time, after a filter that makes the noise white
 * and without what the level of each run explains. So least squares are sums of products.
 */
#pragma once

#include "analysis/growth_line.h"

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
