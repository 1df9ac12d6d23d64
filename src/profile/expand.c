/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/expand.h"

#include <limits.h>
#include <stdint.h>
#include <string.h>
#define ZLIB_CONST /* its input pointer is one to const */
#include <zlib.h>
#include <zstd.h>

enum { STEP_BYTES = 256 * 1024 };

static bool refuse_size(const char *name, const struct buffer *out, struct error *err)
{
	if (out->size + STEP_BYTES <= out->limit)
		return error_set(err, ERROR_MEMORY, "%s: no memory to expand it", name);
	error_set(err, ERROR_INPUT, "%s: expands to more than %zu bytes", name, out->limit);
	return error_hint(err, "expand it to a file and read that: a plain file has no limit");
}

/* Without the part that the buffer allocated beyond its limit. */
static size_t room_in(const struct buffer *out)
{
	return (out->capacity < out->limit ? out->capacity : out->limit) - out->size;
}

static void inflate_cleanup(z_stream *stream)
{
	inflateEnd(stream);
}

/* Whether only zeros are left: padding, as tape and block devices leave it. */
static bool is_padding(const unsigned char *data, size_t size)
{
	return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0);
}

/* Gives zlib the next piece, for its sizes are 32 bits. */
static void feed(z_stream *stream, const unsigned char *data, size_t size)
{
	const size_t left = size - (size_t)(stream->next_in - data);

	stream->avail_in = left > UINT_MAX ? UINT_MAX : (uInt)left;
}

static bool expand_gzip(
	const char *name, const void *data, size_t size, struct buffer *out, struct error *err)
{
	const unsigned char *const bytes = data;
	CLEANUP(inflate_cleanup) z_stream stream = { .next_in = bytes };

	/* 16: gzip only, no zlib header. */
	if (inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK)
		return error_set(err, ERROR_MEMORY, "%s: no memory to expand it", name);
	for (;;) {
		if (!buffer_reserve(out, STEP_BYTES))
			return refuse_size(name, out, err);
		feed(&stream, bytes, size);
		const size_t room = room_in(out);
		stream.next_out = (Bytef *)out->data + out->size;
		stream.avail_out = room > UINT_MAX ? UINT_MAX : (uInt)room;
		const uInt offered = stream.avail_out;
		const int result = inflate(&stream, Z_NO_FLUSH);
		const size_t at = (size_t)(stream.next_in - bytes);
		out->size += offered - stream.avail_out;

		if (result == Z_STREAM_END) {
			if (is_padding(bytes + at, size - at))
				return true;
			if (inflateReset(&stream) != Z_OK)
				return error_set(
					err, ERROR_INPUT, "%s: byte %zu: bad gzip data", name, at);
		} else if (result != Z_OK && result != Z_BUF_ERROR) {
			return error_set(err, ERROR_INPUT, "%s: byte %zu: bad gzip data: %s", name,
				at, stream.msg == NULL ? zError(result) : stream.msg);
		} else if (at == size && stream.avail_out != 0) {
			return error_set(err, ERROR_INPUT,
				"%s: byte %zu: the gzip data end too early: truncated", name, at);
		}
	}
}

static void zstd_cleanup(ZSTD_DCtx *const *context)
{
	ZSTD_freeDCtx(*context);
}

static bool expand_zstd(
	const char *name, const void *data, size_t size, struct buffer *out, struct error *err)
{
	CLEANUP(zstd_cleanup) ZSTD_DCtx *const context = ZSTD_createDCtx();
	ZSTD_inBuffer input = { .src = data, .size = size };

	if (context == NULL)
		return error_set(err, ERROR_MEMORY, "%s: no memory to expand it", name);
	for (;;) {
		if (!buffer_reserve(out, STEP_BYTES))
			return refuse_size(name, out, err);
		ZSTD_outBuffer output = { .dst = out->data + out->size, .size = room_in(out) };
		const size_t result = ZSTD_decompressStream(context, &output, &input);
		out->size += output.pos;

		if (ZSTD_isError(result))
			return error_set(err, ERROR_INPUT, "%s: byte %zu: bad zstd data: %s", name,
				input.pos, ZSTD_getErrorName(result));
		if (input.pos == input.size && result == 0)
			return true;
		if (input.pos == input.size && output.pos < output.size)
			return error_set(err, ERROR_INPUT,
				"%s: byte %zu: the zstd data end too early: truncated", name,
				input.pos);
	}
}

static const struct expander expanders[] = {
	{ "gzip", "\x1f\x8b", 2, expand_gzip },
	{ "zstd", "\x28\xb5\x2f\xfd", 4, expand_zstd },
};

const struct expander *expander_find(const void *data, size_t size)
{
	for (size_t i = 0; i < sizeof expanders / sizeof *expanders; i++)
		if (size >= expanders[i].magic_size &&
			memcmp(data, expanders[i].magic, expanders[i].magic_size) == 0)
			return &expanders[i];
	return NULL;
}
