/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compression and expansion. The kind is recognised by the first bytes: gzip (several members too),
 * zstd (several frames), xz (several streams) and xz's older form lzma. It is expanded in pieces,
 * so that the caller limits what a small file may become. Damaged and truncated data are errors
 * that name the byte of the compressed file. Any thread.
 */
#pragma once

#define ZLIB_CONST /* zlib.h declares its input const */
#include <lzma.h>
#include <zlib.h>
#include <zstd.h>

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
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

/* Ends with expander_end, also when it failed. */
MUST_CHECK bool expander_begin(struct expander_state *state, const struct expander *expander,
	const char *name, const void *data, size_t size, struct error *err);
/* Expands the next `room` bytes; fewer when they are the last. */
MUST_CHECK bool expander_step(
	struct expander_state *state, char *out, size_t room, size_t *made, struct error *err);
void expander_end(struct expander_state *state);

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
