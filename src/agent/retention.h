/* SPDX-License-Identifier: Apache-2.0 */
/* How many finished runs are kept: so many, so many bytes, the oldest go first. Pure. */
#pragma once

#include <stddef.h>
#include <stdint.h>

struct run_retention {
	size_t count; /* at least 1 */
	uint64_t bytes;
};

/*
 * `bytes` are the sizes of the runs, oldest first. Returns how many of the first ones have to go.
 * The newest always stays, even when it is larger than all that is allowed.
 */
size_t retention_excess(const struct run_retention *retention, const uint64_t *bytes, size_t count);
