/* SPDX-License-Identifier: Apache-2.0 */
/* What the fuzz targets of the symbolizer do with an image once they have one. */
#pragma once

#include <zlib.h>

#include "base/xalloc.h"
#include "symbol/demangle.h"
#include "symbol/dwarf.h"
#include "symbol/dwarf_stream.h"
#include "symbol/elf_image.h"
#include "symbol/inflate_stream.h"
#include "symbol/symbol_table.h"

enum { FUZZ_ADDRESSES = 96 };

/* Some at the lowest addresses, the others spread over the code. */
static inline void fuzz_choose(const struct elf_image *image, uint64_t vaddrs[FUZZ_ADDRESSES])
{
	const uint64_t size = image->code_limit - image->code_start;
	const uint64_t step = size / FUZZ_ADDRESSES + 1;

	for (uint64_t i = 0; i < FUZZ_ADDRESSES; i++)
		vaddrs[i] = image->code_start + i * (step > UINT64_MAX / FUZZ_ADDRESSES ? 1 : step);
	for (size_t i = 1; i < FUZZ_ADDRESSES; i++)
		if (vaddrs[i] < vaddrs[i - 1])
			vaddrs[i] = vaddrs[i - 1];
}

static inline void fuzz_symbols(const struct elf_image *image)
{
	uint64_t vaddrs[FUZZ_ADDRESSES];
	struct symbol_match matches[FUZZ_ADDRESSES] = { 0 };
	CLEANUP(buffer_deinit) struct buffer text = { 0 };

	buffer_init(&text, &memory_or_exit);
	fuzz_choose(image, vaddrs);
	CLEANUP(boundaries_deinit) struct boundaries boundaries = { 0 };
	symbol_table_boundaries(image, ".symtab", &boundaries);
	symbol_table_match(image, ".symtab", vaddrs, FUZZ_ADDRESSES, matches);
	symbol_table_match(image, ".dynsym", vaddrs, FUZZ_ADDRESSES, matches);
	for (size_t i = 0; i < FUZZ_ADDRESSES; i++) {
		if (matches[i].name == NULL)
			continue;
		/* A symbol that does not contain the address must not name it. */
		if (vaddrs[i] - matches[i].start >= matches[i].size)
			__builtin_trap();
		(void)symbol_name_size(matches[i].name);
	}
}

/* All bytes of the names. */
static inline void fuzz_read_answers(const struct dwarf_answer *answers)
{
	size_t bytes = 0;

	for (size_t i = 0; i < FUZZ_ADDRESSES; i++)
		for (uint32_t j = 0; j < answers[i].frame_count; j++)
			bytes += strlen(answers[i].frames[j].name) +
				 strlen(answers[i].frames[j].linkage) +
				 strlen(answers[i].frames[j].file);
	if (bytes == SIZE_MAX)
		__builtin_trap();
}

/* The same while .debug_info is unpacked. */
static inline void fuzz_dwarf_stream(const struct elf_image *image)
{
	static const struct symbolizer_options options = { .threads = 1 };
	const struct elf_section *const section = elf_image_section(image, ".debug_info");
	uint64_t vaddrs[FUZZ_ADDRESSES];
	bool is_function[FUZZ_ADDRESSES];
	struct dwarf_answer answers[FUZZ_ADDRESSES] = { 0 };
	struct arena arena = { 0 };
	struct file_search search;
	struct dwarf_splits splits;
	struct dwarf dwarf;
	struct error err;

	if (section == NULL)
		return;
	uLongf size = compressBound(section->size);
	CLEANUP(free_cleanup) unsigned char *packed = xmalloc(size);
	if (compress2(packed, &size, image->data + section->offset, section->size, 0) != Z_OK)
		return;
	const struct elf_packed info = { UNPACK_ZLIB, packed, size, section->size };
	if (!inflate_stream_is_possible(&info))
		return;
	fuzz_choose(image, vaddrs);
	for (size_t i = 0; i < FUZZ_ADDRESSES; i++)
		is_function[i] = i % 2 == 0;
	const struct dwarf_addresses addresses = { vaddrs, is_function, FUZZ_ADDRESSES };
	file_search_init(&search, &options, 0);
	dwarf_splits_init(&splits, &search, "/nonexistent/program");
	dwarf_open(&dwarf, image, false, &search.budget);
	const struct dwarf_stream_request request = { image, info, 1, 64, &splits, &addresses };
	if (dwarf_stream_run(&dwarf, &request, answers, &arena, &err) == DWARF_STREAM_ANSWERED)
		fuzz_read_answers(answers);
	arena_deinit(&arena);
	dwarf_deinit(&dwarf);
	dwarf_splits_deinit(&splits);
	file_search_deinit(&search);
}

static inline void fuzz_dwarf(const struct elf_image *image)
{
	static const struct symbolizer_options options = { .threads = 1 };
	uint64_t vaddrs[FUZZ_ADDRESSES];
	bool is_function[FUZZ_ADDRESSES];
	struct file_search search;
	struct dwarf_reader *reader = NULL;
	struct error err;

	fuzz_choose(image, vaddrs);
	for (size_t i = 0; i < FUZZ_ADDRESSES; i++)
		is_function[i] = i % 2 == 0;
	file_search_init(&search, &options, 0);
	if (dwarf_reader_new(image, &search, "/nonexistent/program", &reader, &err)) {
		CLEANUP(boundaries_deinit) struct boundaries boundaries = { 0 };
		dwarf_boundaries(reader, 1, &boundaries);
		dwarf_plan(reader, vaddrs, is_function, FUZZ_ADDRESSES);
		for (size_t i = 0; i < dwarf_job_count(reader); i++)
			dwarf_run_job(reader, i);
		fuzz_read_answers(dwarf_answers(reader));
	}
	dwarf_reader_free(reader);
	file_search_deinit(&search);
}
