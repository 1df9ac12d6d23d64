/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/function_start.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "unwind/table.h"

struct function_starts {
	enum unwind_machine machine;
	struct unwind_section header;
	struct unwind_section frames;
};

static bool find_section(
	const struct elf_image *image, const char *name, struct unwind_section *section)
{
	const struct elf_section *const found = elf_image_section(image, name);

	if (found == NULL || found->type == SHT_NOBITS || (found->flags & SHF_COMPRESSED) != 0)
		return false;
	*section =
		(struct unwind_section){ image->data + found->offset, found->size, found->vaddr };
	return true;
}

struct function_starts *function_starts_new(const struct elf_image *image)
{
	struct function_starts found = { .machine = UNWIND_X86_64 };
	Elf64_Ehdr header;

	if (image->size < sizeof header || !find_section(image, ".eh_frame_hdr", &found.header) ||
		!find_section(image, ".eh_frame", &found.frames))
		return NULL;
	memcpy(&header, image->data, sizeof header);
	if (header.e_machine == EM_AARCH64)
		found.machine = UNWIND_AARCH64;
	struct function_starts *const starts = xmalloc(sizeof *starts);
	*starts = found;
	return starts;
}

void function_starts_free(struct function_starts *starts)
{
	free(starts);
}

uint32_t function_starts_find(const struct function_starts *starts, uint64_t vaddr)
{
	uint64_t begin = 0;

	if (!unwind_section_function(
		    starts->machine, &starts->header, &starts->frames, vaddr, &begin) ||
		vaddr - begin >= FUNCTION_START_UNKNOWN)
		return FUNCTION_START_UNKNOWN;
	return (uint32_t)(vaddr - begin);
}
