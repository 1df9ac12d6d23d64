/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which shapes a series may have, and how well the best of each kind fits: see
 * analysis/growth_shape.h.
 */
#pragma once

#include "analysis/growth_line.h"

enum {
	SHAPE_LEVEL,
	SHAPE_LINE,
	SHAPE_HINGE,
	SHAPE_STEPS,
	SHAPE_RISE,
	SHAPE_ENDED, /* the same with a short level after it: growth, which may begin again */
	SHAPE_WAVE,
	SHAPE_SAW,
	SHAPES
};

/* One shape, and how well it fits; better is more. */
struct shape_candidate {
	int shape;
	bool steps_up, steps_down;
	bool has_small_step; /* that without growth beside it would be no step */
	double score;
	double slope; /* at the end, in roots of plain_variance over the span of the series */
	size_t onset; /* point; of a rise its first, with `end` its last */
	size_t end;
	size_t steps[GROWTH_MAX_STEPS];
	bool is_up[GROWTH_MAX_STEPS]; /* of steps between levels */
	size_t step_count;
};

/*
 * The best of each shape; SHAPE_SAW is what grows beside steps that take it back. Those that grow
 * beside steps are lines and hinges. `rise` is that of the line, over the longest run; waves take
 * part for a period above 0.
 */
void candidates_find(const struct growth_data *series, double rise, double period,
	struct shape_candidate best[SHAPES]);

/* Growth that ends, and a level after it of two intervals at least. */
struct shape_ends {
	bool is_found;			    /* the growth ends, and clearly so */
	struct shape_candidate best;	    /* of those with an end; not an onset at point 0 */
	double scores[GROWTH_POINTS];	    /* of the best that ends at this point, or -INFINITY */
	double onset_scores[GROWTH_POINTS]; /* of the best that ends and begins there */
	double goes_on_scores[GROWTH_POINTS]; /* without an end, of what begins there */
	double goes_on_score; /* the best; it pays as much as the others for their ends */
};

/* The same growth beside the same steps, with an end and without; its onset may be another one. */
void candidates_find_ends(const struct growth_data *series, double rise,
	const struct shape_candidate *growth, struct shape_ends *ret);
