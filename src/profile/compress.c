/* SPDX-License-Identifier: Apache-2.0 */
#define ZLIB_CONST /* zlib.h declares its input const */
#include "profile/compress.h"

#include <limits.h>
#include <lzma.h>
#include <stdint.h>
#include <string.h>
#include <zlib.h>
#include <zstd.h>

enum { GZIP_WINDOW_BITS = 16 + MAX_WBITS }; /* with a gzip header, not with zlib's */

static void deflate_cleanup(z_stream *stream)
{
	deflateEnd(stream);
}

/* Fast rather than small: readers expand it at the same speed, and the file is short-lived. */
bool compress_gzip(const struct buffer *plain, struct buffer *out, struct error *err)
{
	CLEANUP(deflate_cleanup) z_stream stream = { 0 };

	if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW_BITS, 8,
		    Z_DEFAULT_STRATEGY) != Z_OK)
		return error_set(err, ERROR_MEMORY, "no memory to compress");
	/* zlib counts in 32 bits. */
	if (plain->size > UINT32_MAX)
		return error_set(err, ERROR_INPUT, "more than 4 GiB cannot be compressed");
	const size_t bound = deflateBound(&stream, plain->size);
	if (!buffer_reserve(out, bound))
		return error_set(err, ERROR_MEMORY, "no memory to compress");
	stream.next_in = (const Bytef *)plain->data;
	stream.avail_in = (uInt)plain->size;
	stream.next_out = (Bytef *)out->data + out->size;
	stream.avail_out = (uInt)(bound > UINT32_MAX ? UINT32_MAX : bound);
	if (deflate(&stream, Z_FINISH) != Z_STREAM_END)
		return error_set(err, ERROR_MEMORY, "compressing failed");
	out->size += stream.total_out;
	return true;
}

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

	if (inflateInit2(&stream, GZIP_WINDOW_BITS) != Z_OK)
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

/* For its dictionary: what xz -9 takes, and as much again. */
static const uint64_t XZ_MEMORY_BYTES = (uint64_t)128 << 20;

static const char *explain_xz(lzma_ret result)
{
	switch ((int)result) {
	case LZMA_MEMLIMIT_ERROR:
		return "it takes too much memory to expand";
	case LZMA_OPTIONS_ERROR:
		return "an unknown way of compressing";
	case LZMA_MEM_ERROR:
		return "no memory";
	default:
		return "damaged";
	}
}

/* Of xz and of lzma, its form before 2009. */
static bool expand_xz(
	const char *name, const void *data, size_t size, struct buffer *out, struct error *err)
{
	const char *const kind = expander_find(data, size)->name;
	CLEANUP(lzma_end) lzma_stream stream = LZMA_STREAM_INIT;

	if (lzma_auto_decoder(&stream, XZ_MEMORY_BYTES, LZMA_CONCATENATED) != LZMA_OK)
		return error_set(err, ERROR_MEMORY, "%s: no memory to expand it", name);
	stream.next_in = data;
	stream.avail_in = size;
	for (;;) {
		if (!buffer_reserve(out, STEP_BYTES))
			return refuse_size(name, out, err);
		stream.next_out = (uint8_t *)out->data + out->size;
		stream.avail_out = room_in(out);
		const size_t room = stream.avail_out;
		const lzma_ret result = lzma_code(&stream, LZMA_FINISH);
		out->size += room - stream.avail_out;

		if (result == LZMA_STREAM_END)
			return true;
		if (result == LZMA_BUF_ERROR ||
			(result == LZMA_OK && stream.avail_out != 0 && stream.avail_in == 0))
			return error_set(err, ERROR_INPUT,
				"%s: byte %zu: the %s data end too early: truncated", name,
				size - stream.avail_in, kind);
		if (result != LZMA_OK)
			return error_set(err, ERROR_INPUT, "%s: byte %zu: bad %s data: %s", name,
				size - stream.avail_in, kind, explain_xz(result));
	}
}

static const struct expander expanders[] = {
	{ "gzip", "\x1f\x8b", 2, expand_gzip },
	{ "zstd", "\x28\xb5\x2f\xfd", 4, expand_zstd },
	{ "xz",
		"\xfd"
		"7zXZ",
		6, expand_xz },
	/* The parameters that every encoder writes, and the low half of the dictionary's size. */
	{ "lzma", "\x5d\x00\x00", 3, expand_xz },
};

static const struct foreign_compression foreign_compressions[] = {
	{ "bzip2", "BZh", 3, "bunzip2" },
	{ "lz4", "\x04\x22\x4d\x18", 4, "lz4 -d" },
	{ "lzip", "LZIP", 4, "lzip -d" },
	{ "compress", "\x1f\x9d", 2, "gunzip" },
	{ "zip", "PK\x03\x04", 4, "unzip" },
	{ "7-Zip", "7z\xbc\xaf\x27\x1c", 6, "7z x" },
};

const struct expander *expander_find(const void *data, size_t size)
{
	for (size_t i = 0; i < sizeof expanders / sizeof *expanders; i++)
		if (size >= expanders[i].magic_size &&
			memcmp(data, expanders[i].magic, expanders[i].magic_size) == 0)
			return &expanders[i];
	return NULL;
}

const struct foreign_compression *foreign_compression_find(const void *data, size_t size)
{
	for (size_t i = 0; i < sizeof foreign_compressions / sizeof *foreign_compressions; i++) {
		const struct foreign_compression *const known = &foreign_compressions[i];
		if (size >= known->magic_size && memcmp(data, known->magic, known->magic_size) == 0)
			return known;
	}
	return NULL;
}
