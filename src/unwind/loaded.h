/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the unwind table of a module out of the memory of the process that has loaded it, this one
 * or another. No file is needed: what is mapped is what runs, also where the file was replaced
 * since or lies in another container.
 */
#pragma once

#include "unwind/table.h"

/* Copies `size` bytes of the process at `address`; false when not all of them can be read. */
typedef bool unwind_copy(void *context, uint64_t address, void *bytes, size_t size);

/* The segment PT_GNU_EH_FRAME, which is .eh_frame_hdr, in the process. */
struct unwind_loaded {
	uint64_t address;
	uint64_t size;
	unwind_copy *copy;
	void *context;
};

/* As unwind_table_build(). ERROR_INPUT when the sections cannot be read. */
MUST_CHECK bool unwind_loaded_table(struct unwind_table *table, enum unwind_machine machine,
	const struct unwind_loaded *header, uint64_t base, const struct memory *memory,
	struct error *err);
