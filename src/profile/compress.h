/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compression and expansion. The kind is recognised by the first bytes: gzip (several members too),
 * zstd (several frames), xz (several streams) and xz's older form lzma. The result is bounded by
 * the buffer's limit, so that a small file cannot fill the memory. Damaged and truncated data are
 * errors that name the byte of the compressed file. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

/* Appends `plain` to `out` as a gzip member. ERROR_INPUT for more than 4 GiB, ERROR_MEMORY. */
MUST_CHECK bool compress_gzip(const struct buffer *plain, struct buffer *out, struct error *err);

struct expander {
	const char *name;
	const char *magic;
	size_t magic_size;
	/* Appends to `out`. `name` is for messages. */
	bool (*expand)(const char *name, const void *data, size_t size, struct buffer *out,
		struct error *err);
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
