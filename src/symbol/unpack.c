/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/unpack.h"

#include <libdeflate.h>
#include <lzma.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <zstd.h>

#include "base/buffer.h"

/* More than any debug information shrinks by; the limit of deflate. */
static const uint64_t MAX_RATIO = 1100;
static const uint64_t FAIR_RATIO = 20;
static const uint64_t FAIR_BASE_BYTES = (uint64_t)32 << 20;
static const uint64_t BIG_PAGE_BYTES = (uint64_t)2 << 20;
static const uint64_t MIN_BYTES_FOR_BIG_PAGES = (uint64_t)512 << 10;
static const size_t MAX_XZ_BYTES = (size_t)1 << 30;
static const uint64_t XZ_MEMORY_BYTES = (uint64_t)256 << 20;

struct elf_bytes elf_text_table(const void *data, size_t size)
{
	const unsigned char *const last = size == 0 ? NULL : memrchr(data, '\0', size);
	const size_t used = last == NULL ? 0 : (size_t)(last - (const unsigned char *)data) + 1;

	return (struct elf_bytes){ .data = data, .size = used };
}

void elf_bytes_free(struct elf_bytes *bytes)
{
	free(bytes->owned);
	*bytes = (struct elf_bytes){ 0 };
}

static bool unpack_zlib(const void *data, size_t data_size, void *out, size_t size)
{
	struct libdeflate_decompressor *const decompressor = libdeflate_alloc_decompressor();

	if (decompressor == NULL)
		return false;
	/* Without a place for the size that came out, any other size is an error. */
	const enum libdeflate_result result =
		libdeflate_zlib_decompress(decompressor, data, data_size, out, size, NULL);
	libdeflate_free_decompressor(decompressor);
	return result == LIBDEFLATE_SUCCESS;
}

/*
 * Memory that is about to be filled from end to end: in big pages where the kernel has them, for
 * it takes about as long to get a megabyte in small ones as to unpack it.
 */
static void *make_room(uint64_t size)
{
	const size_t rounded = (size + BIG_PAGE_BYTES - 1) & ~(BIG_PAGE_BYTES - 1);

	if (size < MIN_BYTES_FOR_BIG_PAGES)
		return malloc(size + 1);
	void *const room = aligned_alloc(BIG_PAGE_BYTES, rounded);
	if (room != NULL)
		(void)madvise(room, rounded, MADV_HUGEPAGE);
	return room;
}

bool unpack_sized(enum unpack_format format, const void *data, size_t data_size, uint64_t size,
	struct elf_bytes *bytes, struct error *err)
{
	if (format == UNPACK_UNKNOWN)
		return error_set(err, ERROR_UNSUPPORTED, "unknown compression");
	if (size / MAX_RATIO > data_size)
		return error_set(err, ERROR_INPUT, "%zu compressed bytes cannot hold %llu",
			data_size, (unsigned long long)size);
	CLEANUP(free_cleanup) void *out = make_room(size);
	if (out == NULL)
		return error_set(
			err, ERROR_MEMORY, "no memory for %llu bytes", (unsigned long long)size);

	bool whole = false;
	if (format == UNPACK_ZLIB)
		whole = unpack_zlib(data, data_size, out, size);
	else
		whole = ZSTD_decompress(out, size, data, data_size) == size;
	if (!whole)
		return error_set(err, ERROR_INPUT, "the compressed contents are damaged");
	*bytes = (struct elf_bytes){ .data = out, .size = size, .owned = out };
	out = NULL;
	return true;
}

static bool run_xz(lzma_stream *stream, struct buffer *out)
{
	lzma_ret result = LZMA_OK;

	while (result == LZMA_OK) {
		if (!buffer_reserve(out, 256 * 1024))
			return false;
		stream->next_out = (uint8_t *)out->data + out->size;
		stream->avail_out = out->capacity - out->size;
		const size_t room = stream->avail_out;
		result = lzma_code(stream, LZMA_FINISH);
		out->size += room - stream->avail_out;
	}
	return result == LZMA_STREAM_END;
}

uint64_t unpack_limit(uint64_t packed)
{
	return packed > UINT64_MAX / FAIR_RATIO / 2 ? UINT64_MAX
						    : FAIR_BASE_BYTES + packed * FAIR_RATIO;
}

bool unpack_xz(const void *data, size_t data_size, struct elf_bytes *bytes, struct error *err)
{
	const uint64_t fair = unpack_limit(data_size);

	lzma_stream stream = LZMA_STREAM_INIT;
	struct buffer out;

	buffer_init(&out, &memory_heap);
	out.limit = fair < MAX_XZ_BYTES ? fair : MAX_XZ_BYTES;
	if (lzma_stream_decoder(&stream, XZ_MEMORY_BYTES, 0) != LZMA_OK)
		return error_set(err, ERROR_MEMORY, "no memory to unpack xz");
	stream.next_in = data;
	stream.avail_in = data_size;
	const bool whole = run_xz(&stream, &out);
	lzma_end(&stream);
	if (!whole) {
		buffer_deinit(&out);
		return error_set(err, ERROR_INPUT, "the compressed contents are damaged");
	}
	*bytes = (struct elf_bytes){
		.data = (unsigned char *)out.data, .size = out.size, .owned = out.data
	};
	return true;
}
