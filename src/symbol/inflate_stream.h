/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks zlib data piece by piece, into memory that is used again: to fill new memory takes the
 * kernel about as long as to unpack it. ISA-L, which is as fast as libdeflate and unlike it gives
 * the output by pieces, is opened at run time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "symbol/elf_image.h"

struct inflate_stream;

/* Whether the data is of the format, and the library is there. */
bool inflate_stream_is_possible(const struct elf_packed *packed);

/* Over such a section of the image, which it releases as it is read. */
struct inflate_stream *inflate_stream_new(
	const struct elf_image *image, const struct elf_packed *packed);
void inflate_stream_free(struct inflate_stream *stream);

/* The next `size` bytes. False when there are not as many, or the data is damaged. */
bool inflate_stream_read(struct inflate_stream *stream, void *out, size_t size);

/* Whether nothing follows, and the checksum is right. */
bool inflate_stream_is_complete(struct inflate_stream *stream);
