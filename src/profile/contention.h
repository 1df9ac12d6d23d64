/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gperftools' profile of waiting for locks:
 *
 *	--- contention:
 *	cycles/second = 2800000000
 *	sampling period = 100
 *	      2178     12 @ 0x40f2a1 0x40c77d		cycles waited, how often
 *
 * followed by the mapped files. Cycles become nanoseconds, and both counts are multiplied by the
 * sampling period, so that the profile is weighted.
 */
#pragma once

#include <stdbool.h>

#include "base/cursor.h"
#include "base/error.h"
#include "profile/profile.h"

bool contention_detect(struct cursor in);
bool contention_read(struct cursor *in, struct profile *profile, struct error *err);
