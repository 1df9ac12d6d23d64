/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/compress.h"

#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/xalloc.h"

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

static void end_gzip(struct expander_state *state)
{
	inflateEnd(&state->gzip);
}

static bool begin_gzip(struct expander_state *state)
{
	state->gzip = (z_stream){ .next_in = state->data };
	return inflateInit2(&state->gzip, GZIP_WINDOW_BITS) == Z_OK;
}

/* Whether only zeros are left: padding, as tape and block devices leave it. */
static bool is_padding(const unsigned char *data, size_t size)
{
	return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0);
}

/* Gives zlib the next piece, for its sizes are 32 bits. */
static uInt limit_size(size_t size)
{
	return size > UINT_MAX ? UINT_MAX : (uInt)size;
}

static bool end_too_early(const struct expander_state *state, size_t at, struct error *err)
{
	error_set(err, ERROR_INPUT, "%s: byte %zu: the %s data end too early: truncated",
		state->name, at, state->expander->name);
	return error_hint(err, "a part of it is missing: copy it again, or take another");
}

/* After a member comes another one, or padding. */
static bool begin_next_member(struct expander_state *state, size_t at, struct error *err)
{
	state->is_finished = is_padding(state->data + at, state->size - at);
	return state->is_finished || inflateReset(&state->gzip) == Z_OK ||
	       error_set(err, ERROR_INPUT, "%s: byte %zu: bad gzip data", state->name, at);
}

static bool step_gzip(
	struct expander_state *state, char *out, size_t room, size_t *made, struct error *err)
{
	z_stream *const stream = &state->gzip;
	const size_t before = (size_t)(stream->next_in - state->data);

	stream->avail_in = limit_size(state->size - before);
	stream->next_out = (Bytef *)out;
	stream->avail_out = limit_size(room);
	const uInt offered = stream->avail_out;
	const int result = inflate(stream, Z_NO_FLUSH);
	const size_t at = (size_t)(stream->next_in - state->data);
	*made = offered - stream->avail_out;

	if (result == Z_STREAM_END)
		return begin_next_member(state, at, err);
	if (result != Z_OK && result != Z_BUF_ERROR)
		return error_set(err, ERROR_INPUT, "%s: byte %zu: bad gzip data: %s", state->name,
			at, stream->msg == NULL ? zError(result) : stream->msg);
	return at < state->size || stream->avail_out == 0 || end_too_early(state, at, err);
}

static bool begin_zstd(struct expander_state *state)
{
	state->zstd = ZSTD_createDCtx();
	return state->zstd != NULL;
}

static bool step_zstd(
	struct expander_state *state, char *out, size_t room, size_t *made, struct error *err)
{
	ZSTD_inBuffer input = { .src = state->data, .size = state->size, .pos = state->zstd_at };
	ZSTD_outBuffer output = { .dst = out, .size = room };
	const size_t result = ZSTD_decompressStream(state->zstd, &output, &input);

	*made = output.pos;
	state->zstd_at = input.pos;
	if (ZSTD_isError(result))
		return error_set(err, ERROR_INPUT, "%s: byte %zu: bad zstd data: %s", state->name,
			input.pos, ZSTD_getErrorName(result));
	state->is_finished = input.pos == input.size && result == 0;
	return state->is_finished || input.pos < input.size || output.pos == output.size ||
	       end_too_early(state, input.pos, err);
}

static void end_zstd(struct expander_state *state)
{
	ZSTD_freeDCtx(state->zstd);
}

/* For its dictionary: what xz -9 takes, and as much again. */
static const uint64_t XZ_MEMORY_BYTES = (uint64_t)128 << 20;

static bool begin_xz(struct expander_state *state)
{
	state->xz = (lzma_stream)LZMA_STREAM_INIT;
	state->xz.next_in = state->data;
	state->xz.avail_in = state->size;
	return lzma_auto_decoder(&state->xz, XZ_MEMORY_BYTES, LZMA_CONCATENATED) == LZMA_OK;
}

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
static bool step_xz(
	struct expander_state *state, char *out, size_t room, size_t *made, struct error *err)
{
	lzma_stream *const stream = &state->xz;

	stream->next_out = (uint8_t *)out;
	stream->avail_out = room;
	const lzma_ret result = lzma_code(stream, LZMA_FINISH);
	const size_t at = state->size - stream->avail_in;
	*made = room - stream->avail_out;

	state->is_finished = result == LZMA_STREAM_END;
	if (state->is_finished)
		return true;
	if (result == LZMA_BUF_ERROR ||
		(result == LZMA_OK && stream->avail_out != 0 && stream->avail_in == 0))
		return end_too_early(state, at, err);
	return result == LZMA_OK ||
	       error_set(err, ERROR_INPUT, "%s: byte %zu: bad %s data: %s", state->name, at,
		       state->expander->name, explain_xz(result));
}

static void end_xz(struct expander_state *state)
{
	lzma_end(&state->xz);
}

/* Ends with expander_end, also when it failed. */
static bool expander_begin(struct expander_state *state, const struct expander *expander,
	const char *name, const void *data, size_t size, struct error *err)
{
	*state = (struct expander_state){
		.expander = expander, .name = name, .data = data, .size = size
	};
	return expander->begin(state) ||
	       error_set(err, ERROR_MEMORY, "%s: no memory to expand it", name);
}

/* Expands the next `room` bytes; fewer when they are the last. */
static bool expander_step(
	struct expander_state *state, char *out, size_t room, size_t *made, struct error *err)
{
	size_t more = 0;

	for (*made = 0; *made < room && !state->is_finished; *made += more)
		if (!state->expander->step(state, out + *made, room - *made, &more, err))
			return false;
	return true;
}

static void expander_end(struct expander_state *state)
{
	if (state->expander != NULL)
		state->expander->end(state);
	*state = (struct expander_state){ 0 };
}

static const struct expander expanders[] = {
	{ "gzip", "\x1f\x8b", 2, begin_gzip, step_gzip, end_gzip },
	{ "zstd", "\x28\xb5\x2f\xfd", 4, begin_zstd, step_zstd, end_zstd },
	{ "xz",
		"\xfd"
		"7zXZ",
		6, begin_xz, step_xz, end_xz },
	/* The parameters that every encoder writes, and the low half of the dictionary's size. */
	{ "lzma", "\x5d\x00\x00", 3, begin_xz, step_xz, end_xz },
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

enum {
	STEP_BYTES = 1024 * 1024,
	MIN_RESERVED_BYTES = 16 * 1024 * 1024,
	MAX_BINARY_RATIO = 16,
	MIN_BINARY_BYTES = 64 * 1024 * 1024,
};

/* Where addresses are limited (ulimit -v), as many as there are. One step more than the limit. */
static bool reserve(struct expansion *expansion)
{
	size_t size = expansion->max_bytes > SIZE_MAX / 2 ? SIZE_MAX / 2 : expansion->max_bytes;

	for (size = (size / STEP_BYTES + 2) * STEP_BYTES;; size /= 2) {
		void *const memory =
			mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (memory != MAP_FAILED) {
			expansion->data = memory;
			expansion->reserved_bytes = size;
			return true;
		}
		if (size / 2 < MIN_RESERVED_BYTES)
			return false;
	}
}

static void release(struct expansion *expansion, const unsigned char *end)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t bytes = (size_t)(end - (const unsigned char *)expansion->data) & ~(page - 1);
	char *const first = (char *)(uintptr_t)expansion->data + expansion->released_bytes;

	if (bytes < expansion->released_bytes + STEP_BYTES)
		return;
	munmap(first, bytes - expansion->released_bytes);
	expansion->released_bytes = bytes;
}

static void extend(struct cursor *cursor, size_t wanted, bool releases)
{
	struct expansion *const expansion = (struct expansion *)cursor->source;
	const size_t at = cursor_offset(cursor);
	const size_t size = wanted > SIZE_MAX - at ? SIZE_MAX : at + wanted;

	if (releases)
		release(expansion, cursor->position);
	if (expansion->failure.kind != ERROR_NONE ||
		!expansion_fill(expansion, size, &expansion->failure))
		cursor_fail(cursor, "it cannot be expanded");
	else
		cursor->end = cursor->start + expansion->size;
	if (expansion->state.is_finished)
		cursor->source = NULL;
}

struct expansion *expansion_new(const struct expander *expander, const char *name, const void *data,
	size_t size, size_t max_bytes, size_t max_held_bytes, struct error *err)
{
	struct expansion *const expansion = xcalloc(1, sizeof *expansion);

	expansion->source.extend = extend;
	expansion->max_bytes = max_bytes;
	expansion->max_held_bytes = max_held_bytes;
	if (!expander_begin(&expansion->state, expander, name, data, size, err)) {
		expansion_free(expansion);
		return NULL;
	}
	if (!reserve(expansion)) {
		error_set(err, ERROR_MEMORY, "%s: no memory to expand it", name);
		expansion_free(expansion);
		return NULL;
	}
	return expansion;
}

void expansion_free(struct expansion *expansion)
{
	if (expansion == NULL)
		return;
	if (expansion->data != NULL)
		munmap((char *)(uintptr_t)expansion->data + expansion->released_bytes,
			expansion->reserved_bytes - expansion->released_bytes);
	expander_end(&expansion->state);
	free(expansion);
}

static bool refuse_size(const struct expansion *expansion, size_t limit, struct error *err)
{
	error_set(err, ERROR_INPUT, "%s: expands to more than %zu bytes", expansion->state.name,
		limit);
	return error_hint(err, "expand it to a file and read that: a plain file has no limit");
}

static bool grow(struct expansion *expansion, struct error *err)
{
	char *const end = (char *)(uintptr_t)expansion->data + expansion->writable_bytes;

	if (expansion->writable_bytes - expansion->released_bytes >= expansion->max_held_bytes)
		return refuse_size(expansion, expansion->max_held_bytes, err);
	if (expansion->reserved_bytes - expansion->writable_bytes < STEP_BYTES ||
		mprotect(end, STEP_BYTES, PROT_READ | PROT_WRITE) != 0)
		return error_set(
			err, ERROR_MEMORY, "%s: no memory to expand it", expansion->state.name);
	expansion->writable_bytes += STEP_BYTES;
	return true;
}

bool expansion_fill(struct expansion *expansion, size_t size, struct error *err)
{
	size_t made = 0;

	while (expansion->size < size && !expansion->state.is_finished) {
		if (expansion->size == expansion->writable_bytes && !grow(expansion, err))
			return false;
		if (!expander_step(&expansion->state,
			    (char *)(uintptr_t)expansion->data + expansion->size,
			    expansion->writable_bytes - expansion->size, &made, err))
			return false;
		expansion->size += made;
		if (expansion->size > expansion->max_bytes)
			return refuse_size(expansion, expansion->max_bytes, err);
	}
	return true;
}

void expansion_fetch_binary(struct cursor *in)
{
	struct expansion *const expansion = (struct expansion *)in->source;

	if (expansion == NULL)
		return;
	const size_t fair = expansion->state.size * MAX_BINARY_RATIO;
	const size_t max = fair < MIN_BINARY_BYTES ? MIN_BINARY_BYTES : fair;
	if (expansion->max_held_bytes > max)
		expansion->max_held_bytes = max;
	(void)cursor_fetch(in, SIZE_MAX);
}

struct cursor expansion_cursor(struct expansion *expansion)
{
	struct cursor in = cursor_over(expansion->data, expansion->size);

	assert(expansion->released_bytes == 0);
	in.source = expansion->state.is_finished ? NULL : &expansion->source;
	return in;
}
