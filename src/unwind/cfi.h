/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame instructions: runs those of one function and reports the rule of each range of it.
 *
 * Only what a rule can say is followed: the canonical frame address (CFA), the frame pointer and
 * the return address. Encodings and instructions: DWARF 5 sections 6.4.2 and 7.24, and the Linux
 * Standard Base, "DWARF Extensions".
 */
#pragma once

#include <stdbool.h>

#include "base/cursor.h"
#include "unwind/row.h"

enum cfi_where {
	CFI_SAME,	/* where it was; for the return address of x86-64: nowhere */
	CFI_AT_CFA,	/* in memory at cfa + offset */
	CFI_EXPRESSION, /* in memory where the expression says */
	CFI_UNDEFINED,	/* for the return address: there is no caller */
	CFI_OTHER,
};

struct cfi_register {
	enum cfi_where where;
	int64_t offset;
	struct cursor expression;
};

struct cfi_state {
	bool is_cfa_expression;
	uint64_t cfa_register;
	int64_t cfa_offset;
	struct cursor cfa_expression;
	struct cfi_register fp, ra;
};

/* What a common information entry (CIE) says for all functions that refer to it. */
struct cfi_common {
	enum unwind_machine machine;
	uint64_t code_align;
	int64_t data_align;
	uint64_t return_register;
	uint8_t pointer_encoding; /* DW_EH_PE_* of the functions' addresses */
	bool has_augmentation;
	bool is_signal_frame;
	struct cfi_state initial;
};

struct cfi_function {
	uint64_t begin, end; /* addresses */
	struct cursor instructions;
};

/* Runs the instructions that a CIE begins all its functions with. False when they are invalid. */
bool cfi_common_run(struct cfi_common *common, struct cursor instructions);

/*
 * Calls `emit` for each stretch of [begin, end), in order and without a gap. From an invalid
 * instruction on the rule is UNWIND_CFA_NONE. False when `emit` returned false.
 */
bool cfi_function_run(const struct cfi_common *common, const struct cfi_function *function,
	bool (*emit)(void *context, uint64_t begin, uint64_t end, struct unwind_rule rule),
	void *context);

/*
 * A pointer in one of the forms of DW_EH_PE_*: `address` is that of the cursor's next byte, `data`
 * the address that DW_EH_PE_datarel counts from. A form that is not read fails the cursor.
 */
uint64_t cfi_pointer(struct cursor *cursor, uint8_t encoding, uint64_t address, uint64_t data);
