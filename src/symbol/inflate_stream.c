/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/inflate_stream.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <isa-l/igzip_lib.h>

#include "base/shared_library.h"
#include "base/xalloc.h"

/* What is read before its memory is released. */
static const size_t INPUT_BYTES = (size_t)4 << 20;
static const size_t MAX_OUTPUT_BYTES = (size_t)1 << 30; /* the library counts in 32 bits */

typedef void init_function(struct inflate_state *state);
typedef int inflate_function(struct inflate_state *state);

static struct {
	pthread_once_t once;
	init_function *init;
	inflate_function *inflate;
} library = { .once = PTHREAD_ONCE_INIT };

struct inflate_stream {
	const struct elf_image *image;
	const unsigned char *next; /* input that the library does not have yet */
	size_t left;
	const unsigned char *released; /* the input before this */
	struct inflate_state state;
};

static void open_library(void)
{
	struct error ignored; /* without it, sections are unpacked as a whole */
	void *handle = NULL;

	if (!shared_library_open("libisal.so.2", "libisal2", &handle, &ignored))
		return;
	/* dlsym gives an object pointer for a function. */
	void *const init = dlsym(handle, "isal_inflate_init");
	void *const inflate = dlsym(handle, "isal_inflate");
	if (init == NULL || inflate == NULL)
		return;
	memcpy(&library.init, &init, sizeof init);
	memcpy(&library.inflate, &inflate, sizeof inflate);
}

bool inflate_stream_is_possible(const struct elf_packed *packed)
{
	if (packed->format != UNPACK_ZLIB)
		return false;
	pthread_once(&library.once, open_library);
	return library.inflate != NULL;
}

struct inflate_stream *inflate_stream_new(
	const struct elf_image *image, const struct elf_packed *packed)
{
	struct inflate_stream *const stream = xcalloc(1, sizeof *stream);
	stream->image = image;
	stream->next = stream->released = packed->data;
	stream->left = packed->data_size;
	library.init(&stream->state);
	stream->state.crc_flag = ISAL_ZLIB;
	return stream;
}

void inflate_stream_free(struct inflate_stream *stream)
{
	free(stream);
}

/* Gives the library more input, once it has read all that it had. */
static void feed(struct inflate_stream *stream)
{
	const size_t size = stream->left < INPUT_BYTES ? stream->left : INPUT_BYTES;

	if (stream->state.avail_in != 0 || size == 0)
		return;
	elf_image_release(
		stream->image, stream->released, (size_t)(stream->next - stream->released));
	stream->released = stream->next;
	stream->state.next_in = (uint8_t *)(uintptr_t)stream->next;
	stream->state.avail_in = (uint32_t)size;
	stream->next += size;
	stream->left -= size;
}

/* Unpacks up to `size` bytes and says how many; false when the data is damaged. */
static bool inflate_some(struct inflate_stream *stream, void *out, size_t size, size_t *got)
{
	const size_t room = size < MAX_OUTPUT_BYTES ? size : MAX_OUTPUT_BYTES;

	feed(stream);
	const uint32_t input = stream->state.avail_in;
	stream->state.next_out = out;
	stream->state.avail_out = (uint32_t)room;
	if (library.inflate(&stream->state) != ISAL_DECOMP_OK)
		return false;
	*got = room - stream->state.avail_out;
	/* It has to make progress, or else it would be called forever. */
	return *got != 0 || stream->state.avail_in != input ||
	       stream->state.block_state == ISAL_BLOCK_FINISH;
}

bool inflate_stream_read(struct inflate_stream *stream, void *out, size_t size)
{
	unsigned char *at = out;

	while (size > 0) {
		size_t got = 0;
		if (!inflate_some(stream, at, size, &got) ||
			(got == 0 && stream->state.block_state == ISAL_BLOCK_FINISH))
			return false;
		at += got;
		size -= got;
	}
	return true;
}

bool inflate_stream_is_complete(struct inflate_stream *stream)
{
	unsigned char more;
	size_t got = 0;

	do {
		if (!inflate_some(stream, &more, sizeof more, &got) || got != 0)
			return false;
	} while (stream->state.block_state != ISAL_BLOCK_FINISH);
	elf_image_release(
		stream->image, stream->released, (size_t)(stream->next - stream->released));
	return true;
}
