/* SPDX-License-Identifier: Apache-2.0 */
#include "store/note_text.h"

#include <string.h>

#include "base/utf8.h"

bool note_text_check(const char *text, struct error *err)
{
	const size_t size = strlen(text);

	if (text[strspn(text, " ")] == '\0') {
		error_set(err, ERROR_USAGE, "the text of a note is empty");
		return error_hint(err, "write what happened");
	}
	if (size > NOTE_TEXT_MAX) {
		error_set(err, ERROR_USAGE, "a note of %zu bytes is too long", size);
		return error_hint(err, "write at most %d", NOTE_TEXT_MAX);
	}
	if (!utf8_is_printable(text, size)) {
		error_set(err, ERROR_USAGE,
			"the text of the note has control characters, or is not UTF-8");
		return error_hint(err, "write one line of text");
	}
	return true;
}
