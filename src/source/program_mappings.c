/* SPDX-License-Identifier: Apache-2.0 */
#include "source/program_mappings.h"

#include <stdlib.h>

#include "symbol/elf_image.h"

#define PAGE_BYTES UINT64_C(4096)

static bool is_taken(const struct profile *profile, uint64_t start, uint64_t limit)
{
	for (size_t i = 0; i < profile->mapping_count; i++) {
		if (start < profile->mappings[i].limit && profile->mappings[i].start < limit)
			return true;
	}
	return false;
}

bool program_mappings_add(struct profile *profile, const char *path, struct error *err)
{
	CLEANUP(elf_image_cleanup) struct elf_image image = { 0 };
	CLEANUP(free_cleanup) char *full_path = realpath(path, NULL);

	if (!elf_image_open(path, &image, err))
		return false;
	for (size_t i = 0; i < image.segment_count; i++) {
		const struct elf_segment *const segment = &image.segments[i];
		const uint64_t lead = segment->vaddr % PAGE_BYTES;
		const uint64_t end = segment->vaddr + segment->file_bytes;
		const struct profile_mapping mapping = {
			.start = segment->vaddr - lead,
			.limit = (end + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES,
			.file_offset = segment->offset - lead,
			.path = full_path == NULL ? path : full_path,
			.build_id = image.build_id,
		};
		if (segment->executable && !is_taken(profile, mapping.start, mapping.limit))
			profile_add_mapping(profile, &mapping);
	}
	return true;
}
