/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/loaded.h"

struct section_copy {
	struct unwind_section section;
	void *bytes;
	size_t capacity;
	const struct memory *memory;
};

static void section_copy_cleanup(const struct section_copy *copy)
{
	memory_resize(copy->memory, copy->bytes, copy->capacity, 0);
}

static bool copy_section(struct section_copy *copy, const struct unwind_loaded *header,
	uint64_t address, uint64_t size, struct error *err)
{
	enum { SECTION_BYTES_MAX = 1 << 30 };

	if (size == 0 || size > SECTION_BYTES_MAX)
		return error_set(err, ERROR_INPUT, "no section of a possible size");
	copy->bytes = memory_resize(copy->memory, NULL, 0, size);
	if (copy->bytes == NULL)
		return error_set(err, ERROR_MEMORY, "no memory for a section");
	copy->capacity = size;
	if (!header->copy(header->context, address, copy->bytes, size))
		return error_set(err, ERROR_INPUT, "a section cannot be read");
	copy->section = (struct unwind_section){
		.bytes = copy->bytes, .size = (size_t)size, .address = address
	};
	return true;
}

/* The index leads to the last entry, whose length is its first word. */
static bool copy_frames(struct section_copy *frames, const struct unwind_loaded *header,
	const struct unwind_section *index, struct error *err)
{
	struct unwind_extent extent;
	uint32_t last_size = 0;

	if (!unwind_extent(index, &extent, err))
		return false;
	if (extent.last_entry < extent.address ||
		!header->copy(header->context, extent.last_entry, &last_size, sizeof last_size))
		return error_set(err, ERROR_INPUT, "the last entry cannot be read");
	return copy_section(frames, header, extent.address,
		extent.last_entry - extent.address + sizeof last_size + last_size, err);
}

bool unwind_loaded_table(struct unwind_table *table, enum unwind_machine machine,
	const struct unwind_loaded *header, uint64_t base, const struct memory *memory,
	struct error *err)
{
	CLEANUP(section_copy_cleanup) struct section_copy index = { .memory = memory };
	CLEANUP(section_copy_cleanup) struct section_copy frames = { .memory = memory };

	return copy_section(&index, header, header->address, header->size, err) &&
	       copy_frames(&frames, header, &index.section, err) &&
	       unwind_table_build(
		       table, machine, &index.section, &frames.section, base, memory, err);
}
