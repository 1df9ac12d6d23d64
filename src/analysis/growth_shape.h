/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a series looks like when it is no straight line: one rise (or fall) between two levels that
 * takes a quarter of the series at most, or swings with a period. Each is compared with the line by
 * the square sum that it leaves, and must stand out of the sampling noise by itself.
 */
#pragma once

#include "analysis/growth_series.h"

struct growth_shape {
	bool is_jump;
	double jump, jump_hours, jump_lasted_hours;
	double period_hours;  /* 0 when there are no swings */
	bool outgrows_swings; /* the line rises by more than the swings, from end to end */
};

struct growth_shape growth_shape_of(const struct series *series);
