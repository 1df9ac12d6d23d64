/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts inside DOT's double quotes. Names may hold anything: quotes, backslashes, entities such as
 * "&lt;" that graphviz would replace, bytes that are no UTF-8. Any thread.
 */
#pragma once

#include "base/buffer.h"

/* The text as it is, on one line. */
void dot_text_append(struct buffer *out, const char *text, size_t size);

/* The same for a tooltip, in which graphviz looks for escapes twice. */
void dot_text_append_tooltip(struct buffer *out, const char *text);

/*
 * A function's name as the label of a box: long argument lists and template arguments are cut
 * to "…", and what is still long is broken into lines at "::" and spaces. Short names stay.
 */
void dot_text_append_name(struct buffer *out, const char *name);
