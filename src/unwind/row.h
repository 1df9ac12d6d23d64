/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A row of an unwind table: from `pc` up to the next row, how to find the caller's frame.
 *
 * DWARF describes a frame by its canonical frame address (CFA), the value of the stack pointer
 * before the call, and by where each register of the caller is saved relative to it (DWARF 5
 * section 6.4). A walk of the stack needs three of them: the return address, the frame pointer and
 * the stack pointer, which is the CFA. Almost every function of real programs fits in the 32 bits
 * of a rule; a function that does not has UNWIND_CFA_NONE, which ends a walk.
 */
#pragma once

#include <stdint.h>

enum unwind_machine {
	UNWIND_X86_64,
	UNWIND_AARCH64,
#if defined(__aarch64__)
	UNWIND_OWN_MACHINE = UNWIND_AARCH64,
#else
	UNWIND_OWN_MACHINE = UNWIND_X86_64,
#endif
};

/* How the CFA is found. `offset` is in units of 8 bytes. */
enum unwind_cfa {
	UNWIND_CFA_NONE,    /* no function here, or one that does not fit */
	UNWIND_CFA_END,	    /* the outermost frame: it has no caller */
	UNWIND_CFA_SP,	    /* sp + offset */
	UNWIND_CFA_FP,	    /* fp + offset */
	UNWIND_CFA_DEREF,   /* *(fp or sp + offset / 16) + offset % 16: a stack that the function
			       has realigned */
	UNWIND_CFA_PLT,	    /* sp + 8, and 8 more from byte `offset` of each 16-byte entry on */
	UNWIND_CFA_SIGNAL,  /* sp is at the context that the kernel saved */
	UNWIND_CFA_SCRATCH, /* scratch register number offset % 8, + offset / 8 */
};

enum { UNWIND_DEREF_MORE = 16 };

/*
 * Registers that a call may change, so that only the innermost frame and one that a signal has
 * interrupted can count from them (x86-64).
 */
enum unwind_scratch {
	UNWIND_RAX,
	UNWIND_RCX,
	UNWIND_RSI,
	UNWIND_RDI,
	UNWIND_R8,
	UNWIND_R9,
	UNWIND_R10,
	UNWIND_R11,
	UNWIND_SCRATCH_COUNT,
};

_Static_assert(UNWIND_SCRATCH_COUNT == 8, "as unwind_cfa says");

/* Where the caller's frame pointer is. */
enum unwind_fp {
	UNWIND_FP_SAME,	   /* still in its register */
	UNWIND_FP_AT_CFA,  /* saved at cfa + saved */
	UNWIND_FP_AT_BASE, /* saved at saved beyond the register that the CFA is counted from */
	UNWIND_FP_LOST,	   /* somewhere that a rule cannot say */
};

/* Where the return address is. x86-64 has it at cfa - 8 in every frame, which is UNWIND_RA_CFA. */
enum unwind_ra {
	UNWIND_RA_CFA,
	UNWIND_RA_AFTER_FP, /* 8 bytes after the saved frame pointer */
	UNWIND_RA_SAVED,    /* at `saved`, in the frame pointer's stead, which is unchanged */
	UNWIND_RA_REGISTER, /* in the link register still */
};

/* All zeros is UNWIND_CFA_NONE. */
struct unwind_rule {
	int16_t offset; /* in 8 bytes, for the CFA */
	int8_t saved;	/* in 8 bytes, for the saved registers */
	uint8_t cfa : 3;
	uint8_t fp : 2;
	uint8_t ra : 2;
	uint8_t is_base_fp : 1; /* UNWIND_CFA_DEREF and UNWIND_FP_AT_BASE: from fp, not sp */
};

_Static_assert(sizeof(struct unwind_rule) == 4, "a rule is one word");

struct unwind_row {
	uint32_t pc; /* from the module's base */
	struct unwind_rule rule;
};

_Static_assert(sizeof(struct unwind_row) == 8, "a row is two words");
