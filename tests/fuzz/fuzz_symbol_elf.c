/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that claims to be ELF, through everything that reads one: headers, symbol tables, the
 * table inside .gnu_debugdata, DWARF and demangling.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz_symbol.h"
#include "symbol/elf_image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void look_at_links(const struct elf_image *image)
{
	char build_id[ELF_BUILD_ID_TEXT_BYTES];
	uint32_t crc = 0;

	(void)elf_image_debug_link(image, &crc);
	(void)elf_image_alternate_link(image, build_id);
}

static void look_inside(const struct elf_image *image)
{
	const struct elf_section *const section = elf_image_section(image, ".gnu_debugdata");
	struct elf_image inner;
	struct elf_bytes bytes;
	struct error err;

	if (section == NULL ||
		!unpack_xz(image->data + section->offset, section->size, &bytes, &err) ||
		!elf_image_over("inner", bytes.data, bytes.size, bytes.owned, &inner, &err))
		return;
	fuzz_symbols(&inner);
	elf_image_close(&inner);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct elf_image image;
	struct error err;

	if (!elf_image_over("fuzz", data, size, NULL, &image, &err))
		return 0;
	look_at_links(&image);
	look_inside(&image);
	fuzz_symbols(&image);
	fuzz_dwarf(&image);
	elf_image_close(&image);
	return 0;
}
