/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call graph in graphviz's language, DOT. Boxes are nodes with their flat and cumulative values,
 * the font grows with the flat value as in jeprof; arrows are calls with what is allocated through
 * them; dashed arrows lead into inlined functions. In a difference growth is vermilion and
 * shrinkage bluish green, which differ for any colour vision. Any thread.
 */
#pragma once

#include "render/renderers.h"

/* An empty graph still has its legend. */
void dot_write(const struct view *view, const struct render_options *options, struct buffer *out);

/*
 * A function's name as the label of a box: long argument lists and template arguments are cut
 * to "…", and what is still long is broken into lines at "::" and spaces. Short names stay.
 */
void dot_append_name(struct buffer *out, const char *name);
