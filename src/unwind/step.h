/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One step of a walk: from a frame and the rule of its code to the caller's frame.
 *
 * The step reads the stack only through `read`, so the same code walks this process and a stopped
 * one. It is inlined, for the sake of a walk within malloc, where `read` is a comparison and a
 * load.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "unwind/row.h"

struct unwind_frame {
	uint64_t pc;
	uint64_t sp;
	uint64_t fp;	  /* 0 when it is not known */
	uint64_t lr;	  /* aarch64's link register; of the innermost frame only, else 0 */
	bool is_exact_pc; /* pc is the next instruction, not one behind a call */
	uint64_t scratch[UNWIND_SCRATCH_COUNT]; /* 0 when not known; of a frame with an exact pc */
};

/*
 * Reads 8 bytes at an aligned address, which a valid rule has not below the frame's sp, but for the
 * 128 bytes there that functions without calls use; false when it cannot.
 */
typedef bool unwind_read(void *context, uint64_t address, uint64_t *value);

/* Where a rule for the code of this frame is looked up: a call may be a function's last bytes. */
static inline uint64_t unwind_lookup_pc(const struct unwind_frame *frame)
{
	return frame->is_exact_pc ? frame->pc : frame->pc - 1;
}

/* Signed return addresses of aarch64 have their signature above the 48 bits of an address. */
static inline uint64_t unwind_strip_signature(enum unwind_machine machine, uint64_t pc)
{
	return machine == UNWIND_AARCH64 ? pc & ((UINT64_C(1) << 48) - 1) : pc;
}

/* Offsets from sp of what the kernel saved for a signal handler: rt_sigframe behind the return
 * address (x86-64), rt_sigframe with its siginfo (aarch64). */
struct unwind_signal_layout {
	unsigned fp, sp, pc, lr;
	unsigned scratch[UNWIND_SCRATCH_COUNT];
};

static inline bool unwind_step_signal(
	enum unwind_machine machine, struct unwind_frame *frame, unwind_read *read, void *context)
{
	static const struct unwind_signal_layout x86_64 = {
		.fp = 120,
		.sp = 160,
		.pc = 168,
		.scratch = { [UNWIND_RAX] = 144,
			[UNWIND_RCX] = 152,
			[UNWIND_RSI] = 112,
			[UNWIND_RDI] = 104,
			[UNWIND_R8] = 40,
			[UNWIND_R9] = 48,
			[UNWIND_R10] = 56,
			[UNWIND_R11] = 64 },
	};
	static const struct unwind_signal_layout aarch64 = {
		.fp = 544, .lr = 552, .sp = 560, .pc = 568
	};
	const struct unwind_signal_layout *const at =
		machine == UNWIND_AARCH64 ? &aarch64 : &x86_64;
	struct unwind_frame caller = { .is_exact_pc = true };

	if (!read(context, frame->sp + at->fp, &caller.fp) ||
		!read(context, frame->sp + at->sp, &caller.sp) ||
		!read(context, frame->sp + at->pc, &caller.pc) ||
		(at->lr != 0 && !read(context, frame->sp + at->lr, &caller.lr)))
		return false;
	for (unsigned i = 0; i < UNWIND_SCRATCH_COUNT && at->scratch[i] != 0; i++) {
		if (!read(context, frame->sp + at->scratch[i], &caller.scratch[i]))
			return false;
	}
	*frame = caller;
	return true;
}

/* Splits an offset of two parts; the second one is not negative. */
static inline uint64_t unwind_split_offset(int16_t offset, unsigned divisor, unsigned *second)
{
	enum { WORD = 8 };

	*second = (unsigned)offset % divisor;
	return (uint64_t)((offset - (int64_t)*second) / (int64_t)divisor * WORD);
}

/* False at the end of the stack, and where rule and stack do not lead to a caller. */
static inline __attribute__((always_inline)) bool unwind_step(enum unwind_machine machine,
	struct unwind_rule rule, struct unwind_frame *frame, unwind_read *read, void *context)
{
	enum { WORD = 8, PLT_ENTRY_MASK = 15 };
	const uint64_t offset = (uint64_t)((int64_t)rule.offset * WORD);
	const uint64_t saved = (uint64_t)((int64_t)rule.saved * WORD);
	uint64_t cfa = 0;
	unsigned second = 0;

	switch ((enum unwind_cfa)rule.cfa) {
	case UNWIND_CFA_SP:
		cfa = frame->sp + offset;
		break;
	case UNWIND_CFA_FP:
		cfa = frame->fp + offset;
		break;
	case UNWIND_CFA_DEREF:
		cfa = unwind_split_offset(rule.offset, UNWIND_DEREF_MORE, &second) +
		      (rule.is_base_fp ? frame->fp : frame->sp);
		if (!read(context, cfa, &cfa))
			return false;
		cfa += second * WORD;
		break;
	case UNWIND_CFA_SCRATCH:
		cfa = unwind_split_offset(rule.offset, UNWIND_SCRATCH_COUNT, &second);
		cfa += frame->is_exact_pc ? frame->scratch[second] : 0;
		break;
	case UNWIND_CFA_PLT:
		cfa = frame->sp + WORD;
		if ((frame->pc & PLT_ENTRY_MASK) >= (uint64_t)rule.offset)
			cfa += WORD;
		break;
	case UNWIND_CFA_SIGNAL:
		return unwind_step_signal(machine, frame, read, context);
	case UNWIND_CFA_NONE:
	case UNWIND_CFA_END:
	default:
		return false;
	}

	/* The caller's frame lies above; only a leaf of aarch64 has none of its own. */
	if (cfa < frame->sp || (cfa == frame->sp && rule.ra != UNWIND_RA_REGISTER))
		return false;

	uint64_t slot = cfa + saved;
	if (rule.fp == UNWIND_FP_AT_BASE)
		slot = (rule.is_base_fp ? frame->fp : frame->sp) + saved;
	const bool has_slot = rule.fp == UNWIND_FP_AT_CFA || rule.fp == UNWIND_FP_AT_BASE;

	uint64_t fp = frame->fp, pc = 0;
	if (rule.fp == UNWIND_FP_LOST)
		fp = 0;
	else if (has_slot && rule.ra != UNWIND_RA_SAVED && !read(context, slot, &fp))
		return false;

	bool done = true;
	switch ((enum unwind_ra)rule.ra) {
	case UNWIND_RA_CFA:
		done = read(context, cfa - WORD, &pc);
		break;
	case UNWIND_RA_AFTER_FP:
		done = read(context, slot + WORD, &pc);
		break;
	case UNWIND_RA_SAVED:
		done = has_slot && read(context, slot, &pc);
		break;
	case UNWIND_RA_REGISTER:
		pc = frame->lr;
		break;
	}
	pc = unwind_strip_signature(machine, pc);
	if (!done || pc == 0)
		return false;
	/* The scratch registers stay, unread: the pc is not exact. */
	frame->pc = pc;
	frame->sp = cfa;
	frame->fp = fp;
	frame->lr = 0;
	frame->is_exact_pc = false;
	return true;
}

/*
 * One step along the chain of frame pointers, for code that has no rule. Compiled code has small
 * frames: a pointer to farther away belongs to another stack, or is no frame pointer.
 */
static inline bool unwind_step_chain(
	enum unwind_machine machine, struct unwind_frame *frame, unwind_read *read, void *context)
{
	enum { WORD = 8, RECORD = 16, FRAME_BYTES_MAX = 64 * 1024 };
	struct unwind_frame caller = { .sp = frame->fp + RECORD };

	if (frame->fp < frame->sp || frame->fp - frame->sp > FRAME_BYTES_MAX ||
		!read(context, frame->fp, &caller.fp) ||
		!read(context, frame->fp + WORD, &caller.pc))
		return false;
	caller.pc = unwind_strip_signature(machine, caller.pc);
	if (caller.pc == 0)
		return false;
	*frame = caller;
	return true;
}
