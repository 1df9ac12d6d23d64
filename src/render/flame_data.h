/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A view as the JSON that the flame graph's script reads: the page of render_flame.c carries it,
 * the gateway can serve it alone.
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

#include "render/renderers.h"

void flame_data_write(
	const struct view *view, const struct render_options *options, struct buffer *out);
