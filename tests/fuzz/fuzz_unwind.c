/* SPDX-License-Identifier: Apache-2.0 */
/* The builder of unwind tables: whatever the sections say, a table in order. */
#include <stdint.h>
#include <string.h>

#include "unwind/step.h"
#include "unwind/table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool read_nothing(void *context, uint64_t address, uint64_t *value)
{
	(void)context;
	*value = address * 3;
	return (address & 64) == 0;
}

static void check_table(const struct unwind_table *table)
{
	if (table->count == 0 || table->covered_bytes > table->code_bytes)
		__builtin_trap();
	for (size_t i = 0; i + 1 < table->count; i++) {
		if (table->rows[i].pc >= table->rows[i + 1].pc)
			__builtin_trap();
	}
	if (table->rows[table->count - 1].rule.cfa != UNWIND_CFA_NONE)
		__builtin_trap();
}

/* One byte: which machine; two: the size of .eh_frame_hdr; then it, and .eh_frame. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { HEADER_ADDRESS = 0x10000, FRAMES_ADDRESS = 0x20000, BASE = 0x1000 };
	struct unwind_table table;
	struct unwind_extent extent;
	struct error err;
	uint16_t header_size = 0;

	if (size < 3)
		return 0;
	const enum unwind_machine machine = (data[0] & 1) != 0 ? UNWIND_AARCH64 : UNWIND_X86_64;
	memcpy(&header_size, data + 1, sizeof header_size);
	if (header_size > size - 3)
		return 0;
	const struct unwind_section header = {
		.bytes = data + 3, .size = header_size, .address = HEADER_ADDRESS
	};
	const struct unwind_section frames = { .bytes = data + 3 + header_size,
		.size = size - 3 - header_size,
		.address = FRAMES_ADDRESS };
	if (unwind_extent(&header, &extent, &err) && extent.functions > header_size / 8)
		__builtin_trap();
	if (!unwind_table_build(&table, machine, &header, &frames, BASE, &memory_heap, &err))
		return 0;
	check_table(&table);
	for (size_t i = 0; i < table.count; i++) {
		const uint32_t pc = table.rows[i].pc;
		const struct unwind_rule rule = unwind_table_find(table.rows, table.count, pc);
		struct unwind_frame frame = { .pc = BASE + pc, .sp = 0x7000, .fp = 0x7100 };
		if (memcmp(&rule, &table.rows[i].rule, sizeof rule) != 0)
			__builtin_trap();
		(void)unwind_section_find(machine, &header, &frames, BASE + pc);
		const uint64_t sp = frame.sp;
		if (unwind_step(machine, rule, &frame, read_nothing, NULL) && frame.sp < sp &&
			rule.cfa != UNWIND_CFA_SIGNAL)
			__builtin_trap();
	}
	unwind_table_deinit(&table);
	return 0;
}
