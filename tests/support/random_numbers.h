/* SPDX-License-Identifier: Apache-2.0 */
/* The chance of a test's own generators (xorshift64*): the same numbers for the same seed. */
#pragma once

#include <stdint.h>

static uint64_t random_state; /* the seed, not 0 */

/* From 0 to below 1. */
static double chance(void)
{
	random_state ^= random_state >> 12;
	random_state ^= random_state << 25;
	random_state ^= random_state >> 27;
	return (double)((random_state * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}
