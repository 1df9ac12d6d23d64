/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed bytes that are expanded while they are read, so that a profile's text is never in
 * memory as a whole. What was expanded stays at its address until the reader releases it
 * (cursor_more). Two limits: for all bytes, which bounds the time, and for those that are held at
 * once. Not for two threads at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/cursor.h"
#include "base/error.h"
#include "profile/compress.h"

struct expansion {
	struct cursor_source source; /* of cursors over it */
	struct expander_state state;
	const char *data; /* addresses are reserved for all that it may become */
	size_t size;	  /* bytes expanded up to now */
	size_t writable_bytes, reserved_bytes;
	size_t released_bytes; /* of the beginning */
	size_t max_bytes, max_held_bytes;
	struct error failure; /* the first one; its kind is ERROR_NONE without */
};

/*
 * `name` is for messages; it and the data are borrowed. Free it with expansion_free. NULL on
 * failure.
 */
struct expansion *expansion_new(const struct expander *expander, const char *name, const void *data,
	size_t size, size_t max_bytes, size_t max_held_bytes, struct error *err);
void expansion_free(struct expansion *expansion);

/* Expands up to `size` bytes in total, or all there are. */
MUST_CHECK bool expansion_fill(struct expansion *expansion, size_t size, struct error *err);

/*
 * Expands all that follows the cursor's position, for binary profiles, which shrink to a tenth at
 * most: a sixteenth is the limit. Nothing to do for a cursor that has all. A failure is left in
 * the cursor.
 */
void expansion_fetch_binary(struct cursor *in);

/* Reads it from its start, of which nothing may be released. The failure is left in `failure`. */
struct cursor expansion_cursor(struct expansion *expansion);
