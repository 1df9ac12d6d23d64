/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers addresses while .debug_info is unpacked: one thread unpacks it, the others answer from
 * the units that have arrived, and their memory is used again. The unpacked section, the largest of
 * a debug file, is never in memory as a whole.
 *
 * That needs units that refer to no other unit. Where some do (dwz, optimization at link time), or
 * the DIEs are in other files, the section has to be read as a whole.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/xalloc.h"
#include "symbol/dwarf_job.h"
#include "symbol/elf_image.h"

enum { DWARF_PIECE_BYTES = 1 << 20 };

struct dwarf_stream_request {
	const struct elf_image *image;
	struct elf_packed info; /* .debug_info */
	unsigned threads;	/* as of parallel_run */
	size_t piece_bytes;	/* what is unpacked at once: DWARF_PIECE_BYTES */
	struct dwarf_splits *splits;
	const struct dwarf_addresses *addresses;
};

/* Whether all that it takes is there: the section is packed, and the library is installed. */
bool dwarf_stream_is_possible(const struct elf_image *image, struct elf_packed *info);

/*
 * Whether the first tables of abbreviations have no references to other units: with them, what is
 * unpacked before a unit shows it would be unpacked twice.
 */
bool dwarf_stream_is_worthwhile(const struct elf_image *image);

enum dwarf_stream_result {
	DWARF_STREAM_ANSWERED,
	DWARF_STREAM_UNSUITED, /* all sections but .debug_info were loaded */
	DWARF_STREAM_FAILED,   /* with an error */
};

/*
 * Fills one answer per address. `dwarf` was opened and has no sections yet. Frames and texts live
 * as long as the sections and the arenas, one for each of parallel_thread_count(threads).
 */
enum dwarf_stream_result dwarf_stream_run(struct dwarf *dwarf,
	const struct dwarf_stream_request *request, struct dwarf_answer *answers,
	struct arena *arenas, struct error *err);
