/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of unknown origin (symbol names, paths, names of processes and threads) on their way into
 * formats that are UTF-8, to a terminal, or into lines of text. Safe on the resident side; any
 * thread.
 *
 * A control character could move the cursor, change the terminal's state or begin a line of its
 * own; a mark of writing direction could show the text in another order than it has. The printable
 * form has neither; letters of all languages stay.
 */
#pragma once

#include <stddef.h>

#include "base/buffer.h"

/* What stands where bytes are no character. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/*
 * Length of the well-formed sequence at `text` (Unicode 15, table 3-7), 0 when there is none.
 * `size` is at least 1.
 */
size_t utf8_length(const char *text, size_t size);

/*
 * Appends the printable form: control characters and bytes that are no UTF-8 become "\x1b", marks
 * of direction and separators of lines "\u202e".
 */
void utf8_append_printable(struct buffer *out, const char *text, size_t size);

/*
 * Appends a text or an attribute's value of HTML and SVG: bytes that are no UTF-8 become
 * UTF8_REPLACEMENT, control characters spaces, except tabs and ends of lines.
 */
void utf8_append_markup(struct buffer *out, const char *text, size_t size);

/* Whether the printable form is the text itself. */
bool utf8_is_printable(const char *text, size_t size);
