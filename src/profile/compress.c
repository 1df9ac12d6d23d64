/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/compress.h"

#include <stdint.h>
#include <zlib.h>

enum { GZIP_WINDOW = 16 + MAX_WBITS }; /* zlib: with a gzip header */

static void deflate_cleanup(z_stream *stream)
{
	deflateEnd(stream);
}

/* Fast rather than small: readers expand it at the same speed, and the file is short-lived. */
bool compress_gzip(const struct buffer *plain, struct buffer *out, struct error *err)
{
	CLEANUP(deflate_cleanup) z_stream stream = { 0 };

	if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) !=
		Z_OK)
		return error_set(err, ERROR_MEMORY, "no memory to compress");
	/* zlib counts in 32 bits. */
	if (plain->size > UINT32_MAX)
		return error_set(err, ERROR_INPUT, "more than 4 GiB cannot be compressed");
	const size_t bound = deflateBound(&stream, plain->size);
	if (!buffer_reserve(out, bound))
		return error_set(err, ERROR_MEMORY, "no memory to compress");
	stream.next_in = (Bytef *)plain->data;
	stream.avail_in = (uInt)plain->size;
	stream.next_out = (Bytef *)out->data + out->size;
	stream.avail_out = (uInt)(bound > UINT32_MAX ? UINT32_MAX : bound);
	if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
		return error_set(err, ERROR_MEMORY, "compressing failed");
	out->size += stream.total_out;
	return true;
}
