/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How fast a process' memory grows by its figures over time, where no profile is read. The figures
 * are counted, not sampled, and fluctuate in ways that depend on each other: a level that wanders
 * looks like a slope. So they are taken for a Brownian motion with drift (Karlin and Taylor, A
 * First Course in Stochastic Processes, 7.5): the rate is the change from the first to the last
 * figure over the time between, and its error comes from how unevenly it changed in between, by
 * Student's t. For figures that only scatter around a level the interval is wider than needed, not
 * narrower.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct memory_point {
	double hours, bytes;
};

struct memory_drift {
	double rate;	  /* bytes per hour */
	double low, high; /* its 95% interval */
	double p;	  /* that memory without growth rises as fast; one-sided */
};

enum { MEMORY_DRIFT_POINTS_MIN = 5 };

/*
 * Of points of one process in the order of time. False for too few. Where nothing ever moved the
 * rate and its interval are 0, and p is 1.
 */
bool memory_drift_find(const struct memory_point *points, size_t count, struct memory_drift *drift);
