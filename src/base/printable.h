/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of unknown origin (symbol names, paths, names of processes) on their way to a terminal or
 * into lines of text. A control character could move the cursor, change the terminal's state or
 * begin a line of its own; a mark of writing direction could show the text in another order than it
 * has. Letters of all languages stay.
 */
#pragma once

#include "base/buffer.h"

/*
 * Appends the text. Control characters and bytes that are no UTF-8 become "\x1b", marks of
 * direction and separators of lines "\u202e".
 */
void printable_append(struct buffer *out, const char *text, size_t size);

/* Whether all of it stays as it is. */
bool printable_is_all(const char *text, size_t size);
