/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks the sections of a debug file that symbols are read from, and does nothing else: what of
 * a symbolizer's time is the library's.
 *
 *	unpack_sections THREADS FILE	each section as a whole, with libdeflate
 *	unpack_sections stream FILE	.debug_info alone, with ISA-L, into the same memory
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "symbol/elf_image.h"
#include "symbol/inflate_stream.h"
#include "symbol/work.h"

static const char *const sections[] = { ".debug_info", ".debug_str", ".debug_line",
	".debug_rnglists", ".debug_ranges", ".debug_abbrev", ".debug_addr", ".debug_str_offsets",
	".debug_line_str", ".debug_aranges" };

enum { SECTION_COUNT = sizeof sections / sizeof *sections, PIECE_BYTES = 1 << 20 };

static void unpack(void *context, size_t index)
{
	const struct elf_image *const image = context;
	struct elf_bytes bytes;
	struct error err;

	if (elf_image_load(image, sections[index], false, &bytes, &err))
		return;
	fprintf(stderr, "unpack_sections: %s\n", err.message);
	exit(1);
}

static bool unpack_stream(const struct elf_image *image)
{
	CLEANUP(free_cleanup) void *piece = xmalloc(PIECE_BYTES);
	struct elf_packed info;
	struct error err;

	if (!elf_image_find_packed(image, ".debug_info", &info, &err) || info.data == NULL ||
		!inflate_stream_is_possible(&info))
		return false;
	struct inflate_stream *const stream = inflate_stream_new(image, &info);
	bool ok = true;
	for (uint64_t left = info.size; ok && left > 0;) {
		const size_t size = left < PIECE_BYTES ? (size_t)left : PIECE_BYTES;
		ok = inflate_stream_read(stream, piece, size);
		left -= size;
	}
	ok = ok && inflate_stream_is_complete(stream);
	inflate_stream_free(stream);
	return ok;
}

int main(int argc, char **argv)
{
	struct elf_image image;
	struct error err;

	if (argc != 3) {
		fputs("usage: unpack_sections THREADS|stream FILE\n", stderr);
		return 2;
	}
	if (!elf_image_open(argv[2], &image, &err)) {
		fprintf(stderr, "unpack_sections: %s\n", err.message);
		return 1;
	}
	if (strcmp(argv[1], "stream") == 0)
		return unpack_stream(&image) ? 0 : 1;
	parallel_run(SECTION_COUNT, (unsigned)atoi(argv[1]), unpack, &image);
	return 0;
}
