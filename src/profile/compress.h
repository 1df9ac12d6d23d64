/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compression and expansion. The kind is recognised by the first bytes: gzip (several members too),
 * zstd (several frames), xz (several streams) and xz's older form lzma. It is expanded in pieces,
 * so that the caller limits what a small file may become. Damaged and truncated data are errors
 * that name the byte of the compressed file. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define ZLIB_CONST /* zlib.h declares its input const */
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/error.h"

/* Appends `plain` to `out` as a gzip member. ERROR_INPUT for more than 4 GiB, ERROR_MEMORY. */
MUST_CHECK bool compress_gzip(const struct buffer *plain, struct buffer *out, struct error *err);

struct expander_state;

struct expander {
	const char *name;
	const char *magic;
	size_t magic_size;
	bool (*begin)(struct expander_state *state);
	bool (*step)(struct expander_state *state, char *out, size_t room, size_t *made,
		struct error *err);
	void (*end)(struct expander_state *state);
};

/* Stays where it is, for zlib points into it. The data are borrowed. */
struct expander_state {
	const struct expander *expander;
	const char *name; /* for messages; borrowed */
	const unsigned char *data;
	size_t size;
	bool is_finished; /* all was expanded */
	union {
		z_stream gzip;
		struct {
			ZSTD_DCtx *zstd;
			size_t zstd_at;
		};
		lzma_stream xz;
	};
};

/* NULL when the data is not compressed in a known way. */
const struct expander *expander_find(const void *data, size_t size);

/* A compression that is recognised but not read, and the program that expands it. */
struct foreign_compression {
	const char *name;
	const char *magic;
	size_t magic_size;
	const char *program;
};

/* NULL when there is none. */
const struct foreign_compression *foreign_compression_find(const void *data, size_t size);

/*
 * Compressed bytes that are expanded while they are read, so that a profile's text is never in
 * memory as a whole. What was expanded stays at its address until the reader releases it
 * (cursor_more). Two limits: for all bytes, which bounds the time, and for those that are held at
 * once. Not for two threads at once.
 */
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
