/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JSON that the flame graph's script reads (render_flame_data). The HTML page (render_flame)
 * contains it; the gateway serves it alone.
 *
 * Paths that begin alike share their beginning: a *frame* is a place in that tree. Columns of
 * numbers are strings, because a hundred thousand frames have to be small and quick to read:
 * each number is a run of base64 digits, five bits in each, lowest first, the sixth bit set in
 * all but the last. A signed number has its sign in the lowest bit.
 *
 *	strings      texts
 *	nodes        name, file, module (in strings), line, inlined: one number per node each
 *	frames       in the order of a walk, parents first: node, and up: how many levels above the
 *	             frame before it the new frame's parent is (0: that frame is the parent)
 *	leaves       the frames that have values of their own, as distances
 *	counters     for each leaf: now and base (signed), error and base_error (standard errors),
 *	             samples; all but samples multiplied by the counter's scale
 *
 * Any thread.
 */
#pragma once

#include <stdint.h>

#include "base/buffer.h"

/* Append one number of a column. */
void number_column_append(struct buffer *out, uint64_t value);
void number_column_append_signed(struct buffer *out, int64_t value);
