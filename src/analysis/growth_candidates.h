/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which shapes a series may have, and how well the best of each kind fits: see
 * analysis/growth_shape.h.
 */
#pragma once

#include "analysis/growth_basis.h"

enum {
	SHAPE_LEVEL,
	SHAPE_LINE,
	SHAPE_HINGE,
	SHAPE_STEPS,
	SHAPE_RISE,
	SHAPE_WAVE,
	SHAPE_SAW,
	SHAPES
};

/* One shape, and how well it fits; better is more. */
struct shape_candidate {
	int shape;
	bool steps_up, steps_down;
	double score;
	double slope; /* at the end, in roots of plain_variance over the span of the series */
	size_t onset; /* point; of a rise its first, with `end` its last */
	size_t end;
	size_t steps[GROWTH_MAX_STEPS];
	size_t step_count;
};

/*
 * The best of each shape; SHAPE_SAW is what grows beside steps that take it back. Those that grow
 * beside steps are lines and hinges. `rise` is that of the line, over the longest run; waves take
 * part for a period above 0. Of the scores of hinges the best for each point are kept, or
 * -INFINITY.
 */
void candidates_find(const struct growth_data *series, double rise, double period,
	struct shape_candidate best[SHAPES], double onset_scores[GROWTH_POINTS]);
