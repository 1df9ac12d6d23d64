/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a note (store/notes.h), apart from what needs SQLite: heapctl alone has none. */
#pragma once

#include <stdbool.h>

#include "base/error.h"

enum { NOTE_TEXT_MAX = 200 }; /* bytes */

/* Whether it can be one: printable UTF-8, not blank, at most NOTE_TEXT_MAX bytes. ERROR_USAGE. */
MUST_CHECK bool note_text_check(const char *text, struct error *err);
