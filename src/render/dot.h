/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call graph in graphviz's language. Boxes are nodes with their flat and cumulative values, the
 * font grows with the flat value as in jeprof; arrows are calls with what is allocated through
 * them; dashed arrows lead into inlined functions. In a difference what grew is vermilion and what
 * shrank is bluish green, two colours that people with any colour vision can tell apart. Any
 * thread.
 */
#pragma once

#include "render/renderers.h"

/* An empty graph still has its legend. */
void dot_write(const struct view *view, const struct render_options *options, struct buffer *out);
