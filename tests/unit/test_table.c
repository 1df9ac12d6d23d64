/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/table.h"

#include <link.h>
#include <string.h>

#include "base/memory.h"
#include "unit.h"

static bool copy_own(void *context, uint64_t address, void *bytes, size_t size)
{
	(void)context;
	memcpy(bytes, (const void *)(uintptr_t)address, size);
	return true;
}

struct own_module {
	uint64_t begin, header, header_bytes;
};

/* The first module is this program. */
static int find_own(struct dl_phdr_info *info, size_t size, void *context)
{
	struct own_module *const own = context;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *const segment = &info->dlpi_phdr[i];
		if (segment->p_type == PT_GNU_EH_FRAME) {
			own->header = info->dlpi_addr + segment->p_vaddr;
			own->header_bytes = segment->p_memsz;
		}
		if (segment->p_type == PT_LOAD && (segment->p_flags & PF_X) != 0)
			own->begin = info->dlpi_addr + segment->p_vaddr;
	}
	return 1;
}

static void builds_the_same_rows_without_an_index(void **state)
{
	struct own_module own = { 0 };
	struct unwind_table by_index = { 0 }, by_frames = { 0 };
	struct unwind_extent extent;
	struct error err;

	(void)state;
	dl_iterate_phdr(find_own, &own);
	const struct unwind_loaded header = {
		.address = own.header, .size = own.header_bytes, .copy = copy_own
	};
	const struct unwind_section section = { .bytes = (const void *)(uintptr_t)own.header,
		.size = (size_t)own.header_bytes,
		.address = own.header };
	assert_true(unwind_extent(&section, &extent, &err));
	uint32_t last_size = 0;
	memcpy(&last_size, (const void *)(uintptr_t)extent.last_entry, sizeof last_size);
	const struct unwind_loaded frames = { .address = extent.address,
		.size = extent.last_entry - extent.address + sizeof last_size + last_size,
		.is_frames = true,
		.copy = copy_own };

	assert_true(unwind_loaded_table(
		&by_index, UNWIND_OWN_MACHINE, &header, own.begin, &memory_heap, &err));
	assert_true(unwind_loaded_table(
		&by_frames, UNWIND_OWN_MACHINE, &frames, own.begin, &memory_heap, &err));
	assert_true(by_index.count > 10);
	assert_int_equal(by_frames.count, by_index.count);
	assert_memory_equal(by_frames.rows, by_index.rows, by_index.count * sizeof *by_index.rows);
	unwind_table_deinit(&by_index);
	unwind_table_deinit(&by_frames);
}

static void refuses_frames_that_say_nothing(void **state)
{
	static const uint32_t nothing[4] = { 0 };
	struct unwind_table table = { 0 };
	struct error err;

	(void)state;
	const struct unwind_loaded frames = { .address = (uint64_t)(uintptr_t)nothing,
		.size = sizeof nothing,
		.is_frames = true,
		.copy = copy_own };
	assert_false(
		unwind_loaded_table(&table, UNWIND_OWN_MACHINE, &frames, 0, &memory_heap, &err));
	assert_int_equal(err.kind, ERROR_INPUT);
}

static void refuses_an_entry_that_is_longer_than_the_section(void **state)
{
	static const uint32_t damaged[4] = { 1 << 20, 0, 0, 0 };
	struct unwind_table table = { 0 };
	struct error err;

	(void)state;
	const struct unwind_loaded frames = { .address = (uint64_t)(uintptr_t)damaged,
		.size = sizeof damaged,
		.is_frames = true,
		.copy = copy_own };
	assert_false(
		unwind_loaded_table(&table, UNWIND_OWN_MACHINE, &frames, 0, &memory_heap, &err));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(builds_the_same_rows_without_an_index),
	cmocka_unit_test(refuses_frames_that_say_nothing),
	cmocka_unit_test(refuses_an_entry_that_is_longer_than_the_section),
};

UNIT_MAIN(tests)
