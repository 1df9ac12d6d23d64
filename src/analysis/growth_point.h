/* SPDX-License-Identifier: Apache-2.0 */
/* What the growth of a series is found from, and the steps in it: see analysis/growth.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GROWTH_POINTS = 64, GROWTH_MAX_STEPS = 6 };

struct growth_step {
	double hours; /* its middle, as the points' */
	double size;
	double lasted_hours; /* at most; the distance of two points when it was sudden */
	bool is_gradual;     /* a rise from one level to another, over several points */
	bool goes_on_slower; /* of a rise: what follows it still rises, by less */
	bool is_of_onset;    /* growth began between two points: no step of its own */
	bool is_restart;     /* between two runs */
};

struct growth_point {
	double hours; /* since any moment; ascending */
	double value;
	double variance; /* of sampling */
	uint32_t run;	 /* points of one run of the program are together */
};

/* What is known of the objects that the values are of; raw counts are of recorded ones. */
struct growth_objects {
	/*
	 * The variance of a value, over the value, when objects come and go independently and are
	 * sampled: the sum of the squares of what each recorded one represents, over the sum.
	 */
	double weight;
	double min_weight; /* what the smallest of them represents; 0: unknown */
	bool has_arrivals; /* the profiles count what was ever allocated */
	double live;	   /* mean number in use */
	double arrivals;   /* number allocated between the first and last point of all runs */
};
