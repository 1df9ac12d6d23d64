/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Undoing compression, told by the first bytes: gzip (several members too) and zstd (several
 * frames). What comes out is bounded by the buffer's limit, so that a small file cannot fill the
 * memory. Damaged and truncated data are errors that name the byte of the compressed file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

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
