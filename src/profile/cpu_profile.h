/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gperftools' binary CPU profile: machine words of the profiled program, 32 or 64 bits, of either
 * byte order, then its mapped files as text.
 *
 *	0, header words that follow (3), version (0), microseconds between samples, padding
 *	samples, depth, addresses...		as often as needed, leaf first
 *	0, 1, 0
 */
#pragma once

#include <stdbool.h>

#include "base/cursor.h"
#include "base/error.h"
#include "profile/profile.h"

bool cpu_profile_detect(struct cursor in);
bool cpu_profile_read(struct cursor *in, struct profile *profile, struct error *err);
