/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of `heapctl top`, as its help lists them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

/* Whether so many rows are too few for it. */
bool top_help_is_cut(size_t rows);

/* Changes how many lines are left out above. False for a key that does not scroll. */
bool top_help_scroll(int key, size_t rows, size_t *skip);

/* Up to `rows` of them, without the first `skip`. */
void top_help_write(size_t columns, size_t rows, size_t skip, struct buffer *out);
