/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who a file is, by its build-id, and which other files of debug information it refers to.
 */
#pragma once

#include "symbol/elf_image.h"

/* Sets the build-id of an image whose sections were read. A part of opening it. */
void elf_identify(struct elf_image *image, const Elf64_Ehdr *header);

/* What .gnu_debuglink names, with the CRC-32 of that file; NULL when there is none. */
const char *elf_image_debug_link(const struct elf_image *image, uint32_t *crc);

/*
 * Where dwz moved what several files have in common, with that file's build-id: .gnu_debugaltlink
 * or, in DWARF 5, .debug_sup. The name in the file, NULL when there is none.
 */
const char *elf_image_alternate_link(
	const struct elf_image *image, char build_id[ELF_BUILD_ID_TEXT_BYTES]);
