/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/unpack.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <libdeflate.h>
#include <lzma.h>
#include <zstd.h>

#include "base/buffer.h"
#include "base/xalloc.h"

/* Headers of musl do not have it. */
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* More than any debug information shrinks by; the limit of deflate. */
static const uint64_t MAX_RATIO = 1100;
static const uint64_t FAIR_RATIO = 20;
static const uint64_t FAIR_BASE_BYTES = (uint64_t)32 << 20;
static const uint64_t BIG_PAGE_BYTES = (uint64_t)2 << 20;
static const uint64_t MIN_BYTES_FOR_BIG_PAGES = (uint64_t)512 << 10;
static const uint64_t MIN_BYTES_TO_POPULATE = (uint64_t)16 << 20; /* a thread costs 0.1 ms */
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

/*
 * Memory that the kernel gets ready while another thread fills it: clearing it may take as long as
 * unpacking, above all in a virtual machine whose host has to find the memory first.
 */
struct populating {
	char *start;
	size_t size;
	atomic_bool is_filled;
	pthread_t thread;
	bool has_thread;
};

static void *populate(void *argument)
{
	struct populating *const populating = argument;

	/* A kernel before 5.14 does not know this; then the memory is cleared as it is filled. */
	for (size_t at = 0; at < populating->size && !atomic_load(&populating->is_filled);
		at += BIG_PAGE_BYTES)
		if (madvise(populating->start + at, BIG_PAGE_BYTES, MADV_POPULATE_WRITE) != 0)
			break;
	return NULL;
}

/* `out` is of make_room: rounded up to big pages. */
static void populating_begin(struct populating *populating, void *out, uint64_t size)
{
	*populating = (struct populating){ .start = out, .size = size };
	populating->has_thread =
		size >= MIN_BYTES_TO_POPULATE &&
		pthread_create(&populating->thread, NULL, populate, populating) == 0;
}

static void populating_end(struct populating *populating)
{
	atomic_store(&populating->is_filled, true);
	if (populating->has_thread)
		pthread_join(populating->thread, NULL);
}

static bool unpack_zlib_or_zstd(
	enum unpack_format format, const void *data, size_t data_size, void *out, uint64_t size)
{
	if (format == UNPACK_ZLIB)
		return unpack_zlib(data, data_size, out, size);
	return ZSTD_decompress(out, size, data, data_size) == size;
}

bool unpack_sized(enum unpack_format format, const void *data, size_t data_size, uint64_t size,
	bool may_populate, struct elf_bytes *bytes, struct error *err)
{
	if (format == UNPACK_UNKNOWN) {
		error_set(err, ERROR_UNSUPPORTED, "unknown compression");
		return error_hint(err, "compile it with -gz=zlib");
	}
	if (size / MAX_RATIO > data_size)
		return error_set(err, ERROR_INPUT, "%zu compressed bytes cannot hold %llu",
			data_size, (unsigned long long)size);
	CLEANUP(free_cleanup) void *out = make_room(size);
	if (out == NULL)
		return error_set(
			err, ERROR_MEMORY, "no memory for %llu bytes", (unsigned long long)size);

	struct populating populating;
	populating_begin(&populating, out, may_populate ? size : 0);
	const bool whole = unpack_zlib_or_zstd(format, data, data_size, out, size);
	populating_end(&populating);
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
