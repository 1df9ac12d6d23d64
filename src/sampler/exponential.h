/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The exponential distribution with a mean of 1, for distances between sampling points. Resident
 * code, without libm.
 */
#pragma once

#include <stdint.h>

/* The state of a generator from any number; never 0. */
uint64_t exponential_seed(uint64_t number);

/* A distance, to 1e-9. */
double exponential_draw(uint64_t *random);

/* 1 - exp(-x) for x >= 0, to 1e-12: the probability of a distance below x. */
double exponential_share(double x);
