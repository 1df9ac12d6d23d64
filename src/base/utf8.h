/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Texts of unknown origin (symbol names, paths, thread names) on their way into formats that are
 * UTF-8. Safe on the resident side; any thread.
 */
#pragma once

#include <stddef.h>

/* What stands where bytes are no character. */
#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/*
 * Length of the well-formed sequence at `text` (Unicode 15, table 3-7), 0 when there is none.
 * `size` is at least 1.
 */
size_t utf8_length(const char *text, size_t size);
