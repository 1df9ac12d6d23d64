/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DWARF sections without an ELF file to keep intact around them. The input is a 16-bit
 * length for each section, then the sections.
 */
#include <endian.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "elf_builder.h"
#include "fuzz_symbol.h"

enum { DEBUG_SECTIONS = 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An ELF file with code at 0x1000 and these sections. */
static void build(struct elf_builder *builder, const uint8_t *data, size_t size)
{
	static const char *const names[DEBUG_SECTIONS] = { ".debug_info", ".debug_abbrev",
		".debug_str", ".debug_line", ".debug_line_str", ".debug_str_offsets", ".debug_addr",
		".debug_ranges", ".debug_rnglists", ".debug_aranges" };
	const uint8_t *contents = data + 2 * DEBUG_SECTIONS;
	size_t left = size - 2 * DEBUG_SECTIONS;

	elf_builder_add_code(builder, 0x1000, 0x1000);
	for (int i = 0; i < DEBUG_SECTIONS; i++) {
		uint16_t wanted = 0;
		memcpy(&wanted, data + 2 * i, sizeof wanted);
		const size_t given = le16toh(wanted) < left ? le16toh(wanted) : left;
		elf_builder_add_data(builder, names[i], contents, given);
		contents += given;
		left -= given;
	}
	elf_builder_finish(builder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_builder builder;
	struct elf_image image;
	struct error err;

	if (size < 2 * DEBUG_SECTIONS)
		return 0;
	elf_builder_init(&builder);
	build(&builder, data, size);
	if (elf_image_over("fuzz", builder.out.data, builder.out.size, NULL, &image, &err)) {
		fuzz_dwarf(&image);
		elf_image_close(&image);
	}
	elf_builder_deinit(&builder);
	return 0;
}
