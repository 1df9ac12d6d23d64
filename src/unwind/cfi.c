/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/cfi.h"

/* DWARF's numbers of registers: the psABI of x86-64 and of aarch64. */
enum {
	X86_RAX = 0,
	X86_RCX = 2,
	X86_RSI = 4,
	X86_RDI = 5,
	X86_RBP = 6,
	X86_RSP = 7,
	X86_R8 = 8,
	X86_R9 = 9,
	X86_R10 = 10,
	X86_R11 = 11,
	AARCH64_X29 = 29,
	AARCH64_SP = 31,
};

enum {
	/* In the two high bits, with an operand in the others. */
	CFA_ADVANCE_LOC = 0x1,
	CFA_OFFSET = 0x2,
	CFA_RESTORE = 0x3,

	CFA_NOP = 0x00,
	CFA_ADVANCE_LOC1 = 0x02,
	CFA_ADVANCE_LOC2 = 0x03,
	CFA_ADVANCE_LOC4 = 0x04,
	CFA_OFFSET_EXTENDED = 0x05,
	CFA_RESTORE_EXTENDED = 0x06,
	CFA_UNDEFINED = 0x07,
	CFA_SAME_VALUE = 0x08,
	CFA_REGISTER = 0x09,
	CFA_REMEMBER_STATE = 0x0a,
	CFA_RESTORE_STATE = 0x0b,
	CFA_DEF_CFA = 0x0c,
	CFA_DEF_CFA_REGISTER = 0x0d,
	CFA_DEF_CFA_OFFSET = 0x0e,
	CFA_DEF_CFA_EXPRESSION = 0x0f,
	CFA_EXPRESSION = 0x10,
	CFA_OFFSET_EXTENDED_SF = 0x11,
	CFA_DEF_CFA_SF = 0x12,
	CFA_DEF_CFA_OFFSET_SF = 0x13,
	CFA_VAL_OFFSET = 0x14,
	CFA_VAL_OFFSET_SF = 0x15,
	CFA_VAL_EXPRESSION = 0x16,
	CFA_AARCH64_NEGATE_RA_STATE = 0x2d,
	CFA_GNU_ARGS_SIZE = 0x2e,
	CFA_GNU_NEGATIVE_OFFSET_EXTENDED = 0x2f,
};

enum {
	EH_PE_ABSPTR = 0x00,
	EH_PE_ULEB128 = 0x01,
	EH_PE_UDATA2 = 0x02,
	EH_PE_UDATA4 = 0x03,
	EH_PE_UDATA8 = 0x04,
	EH_PE_SLEB128 = 0x09,
	EH_PE_SDATA2 = 0x0a,
	EH_PE_SDATA4 = 0x0b,
	EH_PE_SDATA8 = 0x0c,
	EH_PE_FORM = 0x0f,
	EH_PE_PCREL = 0x10,
	EH_PE_DATAREL = 0x30,
	EH_PE_BASE = 0xf0,
};

enum {
	/* Compilers nest two; hand-written assembly no more. */
	REMEMBERED_MAX = 8,
	WORD = 8,
};

uint64_t cfi_pointer(struct cursor *cursor, uint8_t encoding, uint64_t address, uint64_t data)
{
	uint64_t value = 0;

	switch (encoding & EH_PE_FORM) {
	case EH_PE_ABSPTR:
	case EH_PE_UDATA8:
	case EH_PE_SDATA8:
		value = cursor_u64(cursor);
		break;
	case EH_PE_ULEB128:
		value = cursor_uleb(cursor);
		break;
	case EH_PE_SLEB128:
		value = (uint64_t)cursor_sleb(cursor);
		break;
	case EH_PE_UDATA2:
		value = cursor_u16(cursor);
		break;
	case EH_PE_SDATA2:
		value = (uint64_t)(int16_t)cursor_u16(cursor);
		break;
	case EH_PE_UDATA4:
		value = cursor_u32(cursor);
		break;
	case EH_PE_SDATA4:
		value = (uint64_t)(int32_t)cursor_u32(cursor);
		break;
	default:
		cursor_fail(cursor, "an unknown form of pointer");
		return 0;
	}
	switch (encoding & EH_PE_BASE) {
	case 0:
		return value;
	case EH_PE_PCREL:
		return value + address;
	case EH_PE_DATAREL:
		return value + data;
	default:
		cursor_fail(cursor, "a pointer relative to an unknown base");
		return 0;
	}
}

/* The registers that a rule follows, by their numbers on this machine. */
struct roles {
	uint64_t fp, sp;
};

static struct roles roles_of(enum unwind_machine machine)
{
	if (machine == UNWIND_AARCH64)
		return (struct roles){ .fp = AARCH64_X29, .sp = AARCH64_SP };
	return (struct roles){ .fp = X86_RBP, .sp = X86_RSP };
}

static bool in_words(int64_t bytes, int64_t min, int64_t max)
{
	return bytes % WORD == 0 && bytes / WORD >= min && bytes / WORD <= max;
}

/*
 * What a linker writes for the procedure linkage table, whose entries push one word on their way:
 * rsp + 8 + (((rip & 15) >= N) << 3).
 */
static bool is_linkage_table(const struct cursor *expression, int16_t *from_byte)
{
	const unsigned char *const at = expression->position;
	static const unsigned char before[] = { 0x77, 8, 0x80, 0, 0x3f, 0x1a };
	static const unsigned char behind[] = { 0x2a, 0x33, 0x24, 0x22 };
	enum { LIT0 = 0x30, LIT15 = 0x3f };

	if (cursor_left(expression) != sizeof before + 1 + sizeof behind ||
		memcmp(at, before, sizeof before) != 0 ||
		memcmp(at + sizeof before + 1, behind, sizeof behind) != 0 ||
		at[sizeof before] < LIT0 || at[sizeof before] > LIT15)
		return false;
	*from_byte = at[sizeof before] - LIT0;
	return true;
}

enum {
	OP_DEREF = 0x06,
	OP_PLUS_UCONST = 0x23,
	OP_BREG0 = 0x70,
};

/* "rbp + N" */
static bool is_fp_relative(struct cursor expression, int64_t *offset)
{
	if (cursor_u8(&expression) != OP_BREG0 + X86_RBP)
		return false;
	*offset = cursor_sleb(&expression);
	return cursor_ok(&expression) && cursor_left(&expression) == 0;
}

/*
 * "*(rbp + N)", as compilers write it, or "*(rsp + N) + M", where OpenSSL's assembly has saved the
 * stack pointer.
 */
static bool set_cfa_deref(struct cursor expression, struct unwind_rule *rule)
{
	const uint8_t base = cursor_u8(&expression);
	const int64_t offset = cursor_sleb(&expression);
	uint64_t more = 0;

	if ((base != OP_BREG0 + X86_RBP && base != OP_BREG0 + X86_RSP) ||
		cursor_u8(&expression) != OP_DEREF)
		return false;
	if (cursor_left(&expression) > 0) {
		if (cursor_u8(&expression) != OP_PLUS_UCONST)
			return false;
		more = cursor_uleb(&expression);
	}
	if (!cursor_ok(&expression) || cursor_left(&expression) > 0 || more % WORD != 0 ||
		more / WORD >= UNWIND_DEREF_MORE ||
		!in_words(offset, INT16_MIN / UNWIND_DEREF_MORE, INT16_MAX / UNWIND_DEREF_MORE - 1))
		return false;
	rule->cfa = UNWIND_CFA_DEREF;
	rule->is_base_fp = base == OP_BREG0 + X86_RBP;
	rule->offset = (int16_t)(offset / WORD * UNWIND_DEREF_MORE + (int64_t)(more / WORD));
	return true;
}

static bool scratch_of(uint64_t number, enum unwind_scratch *scratch)
{
	static const uint8_t numbers[UNWIND_SCRATCH_COUNT] = { [UNWIND_RAX] = X86_RAX,
		[UNWIND_RCX] = X86_RCX,
		[UNWIND_RSI] = X86_RSI,
		[UNWIND_RDI] = X86_RDI,
		[UNWIND_R8] = X86_R8,
		[UNWIND_R9] = X86_R9,
		[UNWIND_R10] = X86_R10,
		[UNWIND_R11] = X86_R11 };

	for (unsigned i = 0; i < UNWIND_SCRATCH_COUNT; i++) {
		if (numbers[i] == number) {
			*scratch = (enum unwind_scratch)i;
			return true;
		}
	}
	return false;
}

static bool set_cfa_scratch(uint64_t number, int64_t offset, struct unwind_rule *rule)
{
	enum unwind_scratch scratch;

	if (!scratch_of(number, &scratch) || !in_words(offset, INT16_MIN / UNWIND_SCRATCH_COUNT,
						     INT16_MAX / UNWIND_SCRATCH_COUNT - 1))
		return false;
	rule->cfa = UNWIND_CFA_SCRATCH;
	rule->offset = (int16_t)(offset / WORD * UNWIND_SCRATCH_COUNT + (int64_t)scratch);
	return true;
}

static bool set_cfa(
	const struct cfi_common *common, const struct cfi_state *state, struct unwind_rule *rule)
{
	const struct roles roles = roles_of(common->machine);
	int64_t offset = state->cfa_offset;

	if (!state->is_cfa_expression) {
		if (state->cfa_register != roles.sp && state->cfa_register != roles.fp)
			return common->machine == UNWIND_X86_64 &&
			       set_cfa_scratch(state->cfa_register, offset, rule);
		rule->cfa = state->cfa_register == roles.sp ? UNWIND_CFA_SP : UNWIND_CFA_FP;
	} else if (common->machine != UNWIND_X86_64) {
		return false;
	} else if (is_linkage_table(&state->cfa_expression, &rule->offset)) {
		rule->cfa = UNWIND_CFA_PLT;
		return true;
	} else {
		return set_cfa_deref(state->cfa_expression, rule);
	}
	if (!in_words(offset, INT16_MIN, INT16_MAX))
		return false;
	rule->offset = (int16_t)(offset / WORD);
	return true;
}

/* Says in `rule` where a register is that was saved at cfa + `offset`. */
static bool set_slot(const struct cfi_state *state, int64_t offset, struct unwind_rule *rule)
{
	if (in_words(offset, INT8_MIN, INT8_MAX)) {
		rule->fp = UNWIND_FP_AT_CFA;
		rule->saved = (int8_t)(offset / WORD);
		return true;
	}
	/* Large frames save registers far below the CFA, which is near to what it counts from. */
	if (rule->cfa != UNWIND_CFA_SP && rule->cfa != UNWIND_CFA_FP)
		return false;
	if (__builtin_add_overflow(offset, state->cfa_offset, &offset) ||
		!in_words(offset, INT8_MIN, INT8_MAX))
		return false;
	rule->fp = UNWIND_FP_AT_BASE;
	rule->is_base_fp = rule->cfa == UNWIND_CFA_FP;
	rule->saved = (int8_t)(offset / WORD);
	return true;
}

static void set_fp(const struct cfi_state *state, struct unwind_rule *rule)
{
	int64_t offset = 0;

	rule->fp = UNWIND_FP_LOST;
	switch (state->fp.where) {
	case CFI_SAME:
		rule->fp = UNWIND_FP_SAME;
		break;
	case CFI_AT_CFA:
		if (!set_slot(state, state->fp.offset, rule))
			rule->fp = UNWIND_FP_LOST;
		break;
	case CFI_EXPRESSION:
		if (!is_fp_relative(state->fp.expression, &offset) ||
			!in_words(offset, INT8_MIN, INT8_MAX) ||
			(rule->cfa == UNWIND_CFA_DEREF && !rule->is_base_fp))
			break;
		rule->fp = UNWIND_FP_AT_BASE;
		rule->is_base_fp = true;
		rule->saved = (int8_t)(offset / WORD);
		break;
	case CFI_UNDEFINED:
	case CFI_OTHER:
		break;
	}
}

static bool set_ra(
	const struct cfi_common *common, const struct cfi_state *state, struct unwind_rule *rule)
{
	if (common->machine == UNWIND_X86_64) {
		rule->ra = UNWIND_RA_CFA;
		return state->ra.where == CFI_AT_CFA && state->ra.offset == -WORD;
	}
	if (state->ra.where == CFI_SAME) {
		rule->ra = UNWIND_RA_REGISTER;
		return true;
	}
	if (state->ra.where != CFI_AT_CFA)
		return false;
	if (state->fp.where == CFI_AT_CFA) {
		rule->ra = UNWIND_RA_AFTER_FP;
		return rule->fp != UNWIND_FP_LOST && state->ra.offset - state->fp.offset == WORD;
	}
	rule->ra = UNWIND_RA_SAVED;
	return state->fp.where == CFI_SAME && set_slot(state, state->ra.offset, rule);
}

static struct unwind_rule rule_of(const struct cfi_common *common, const struct cfi_state *state)
{
	struct unwind_rule rule = { .cfa = UNWIND_CFA_NONE };

	if (common->is_signal_frame)
		return (struct unwind_rule){ .cfa = UNWIND_CFA_SIGNAL };
	if (state->ra.where == CFI_UNDEFINED)
		return (struct unwind_rule){ .cfa = UNWIND_CFA_END };
	if (!set_cfa(common, state, &rule))
		return (struct unwind_rule){ .cfa = UNWIND_CFA_NONE };
	set_fp(state, &rule);
	if (!set_ra(common, state, &rule))
		return (struct unwind_rule){ .cfa = UNWIND_CFA_NONE };
	return rule;
}

/* A run of instructions over a state; the program of one CIE or of one function. */
struct cfi_run {
	const struct cfi_common *common;
	struct cfi_state state;
	struct cfi_state remembered[REMEMBERED_MAX];
	size_t remembered_count;
	uint64_t pc;
};

/* The register that an instruction is about, when it is one that a rule follows. */
static struct cfi_register *followed(struct cfi_run *run, uint64_t number)
{
	if (number == roles_of(run->common->machine).fp)
		return &run->state.fp;
	return number == run->common->return_register ? &run->state.ra : NULL;
}

static void set_register(struct cfi_run *run, uint64_t number, struct cfi_register value)
{
	struct cfi_register *const found = followed(run, number);

	if (found != NULL)
		*found = value;
}

static void set_saved(struct cfi_run *run, uint64_t number, int64_t factored)
{
	struct cfi_register value = { .where = CFI_AT_CFA };

	if (__builtin_mul_overflow(factored, run->common->data_align, &value.offset))
		value.where = CFI_OTHER;
	set_register(run, number, value);
}

static void restore_register(struct cfi_run *run, uint64_t number)
{
	const struct cfi_state *const initial = &run->common->initial;

	set_register(
		run, number, number == run->common->return_register ? initial->ra : initial->fp);
}

static struct cursor take_block(struct cursor *instructions)
{
	const uint64_t size = cursor_uleb(instructions);
	const unsigned char *const bytes = cursor_take(instructions, size);

	return cursor_over(bytes, bytes == NULL ? 0 : (size_t)size);
}

static void define_cfa(struct cfi_run *run, uint64_t number, int64_t offset)
{
	run->state.is_cfa_expression = false;
	run->state.cfa_register = number;
	run->state.cfa_offset = offset;
}

static int64_t factored(struct cfi_run *run, struct cursor *instructions)
{
	int64_t offset = 0;

	if (__builtin_mul_overflow(cursor_sleb(instructions), run->common->data_align, &offset))
		cursor_fail(instructions, "an offset that is too large");
	return offset;
}

static void remember(struct cfi_run *run, struct cursor *instructions)
{
	if (run->remembered_count == REMEMBERED_MAX)
		cursor_fail(instructions, "too many remembered states");
	else
		run->remembered[run->remembered_count++] = run->state;
}

static void recall(struct cfi_run *run, struct cursor *instructions)
{
	if (run->remembered_count == 0)
		cursor_fail(instructions, "no state was remembered");
	else
		run->state = run->remembered[--run->remembered_count];
}

/* Instructions about the CFA. False for another. */
static bool run_cfa(struct cfi_run *run, uint8_t code, struct cursor *instructions)
{
	uint64_t number = 0;

	switch (code) {
	case CFA_DEF_CFA:
		number = cursor_uleb(instructions);
		define_cfa(run, number, (int64_t)cursor_uleb(instructions));
		return true;
	case CFA_DEF_CFA_SF:
		number = cursor_uleb(instructions);
		define_cfa(run, number, factored(run, instructions));
		return true;
	case CFA_DEF_CFA_REGISTER:
		define_cfa(run, cursor_uleb(instructions), run->state.cfa_offset);
		return true;
	case CFA_DEF_CFA_OFFSET:
		define_cfa(run, run->state.cfa_register, (int64_t)cursor_uleb(instructions));
		return true;
	case CFA_DEF_CFA_OFFSET_SF:
		define_cfa(run, run->state.cfa_register, factored(run, instructions));
		return true;
	case CFA_DEF_CFA_EXPRESSION:
		run->state.is_cfa_expression = true;
		run->state.cfa_expression = take_block(instructions);
		return true;
	default:
		return false;
	}
}

/* Instructions about one register, and those without an effect here. */
static void run_register(struct cfi_run *run, uint8_t code, struct cursor *instructions)
{
	uint64_t number = 0;

	switch (code) {
	case CFA_NOP:
	case CFA_AARCH64_NEGATE_RA_STATE:
		break;
	case CFA_GNU_ARGS_SIZE:
		cursor_uleb(instructions);
		break;
	case CFA_OFFSET_EXTENDED:
		number = cursor_uleb(instructions);
		set_saved(run, number, (int64_t)cursor_uleb(instructions));
		break;
	case CFA_OFFSET_EXTENDED_SF:
		number = cursor_uleb(instructions);
		set_saved(run, number, cursor_sleb(instructions));
		break;
	case CFA_GNU_NEGATIVE_OFFSET_EXTENDED:
		number = cursor_uleb(instructions);
		set_saved(run, number, -(int64_t)(cursor_uleb(instructions) & INT64_MAX));
		break;
	case CFA_RESTORE_EXTENDED:
		restore_register(run, cursor_uleb(instructions));
		break;
	case CFA_UNDEFINED:
		set_register(run, cursor_uleb(instructions),
			(struct cfi_register){ .where = CFI_UNDEFINED });
		break;
	case CFA_SAME_VALUE:
		set_register(
			run, cursor_uleb(instructions), (struct cfi_register){ .where = CFI_SAME });
		break;
	case CFA_EXPRESSION:
		number = cursor_uleb(instructions);
		set_register(run, number,
			(struct cfi_register){
				.where = CFI_EXPRESSION, .expression = take_block(instructions) });
		break;
	case CFA_REGISTER:
	case CFA_VAL_OFFSET:
	case CFA_VAL_OFFSET_SF:
		number = cursor_uleb(instructions);
		cursor_uleb(instructions);
		set_register(run, number, (struct cfi_register){ .where = CFI_OTHER });
		break;
	case CFA_VAL_EXPRESSION:
		number = cursor_uleb(instructions);
		take_block(instructions);
		set_register(run, number, (struct cfi_register){ .where = CFI_OTHER });
		break;
	case CFA_REMEMBER_STATE:
		remember(run, instructions);
		break;
	case CFA_RESTORE_STATE:
		recall(run, instructions);
		break;
	default:
		cursor_fail(instructions, "an unknown instruction");
	}
}

/* Runs up to the next move of the location, and moves it; false at the end. */
static bool run_stretch(struct cfi_run *run, struct cursor *instructions)
{
	while (cursor_left(instructions) > 0) {
		const uint8_t byte = cursor_u8(instructions);
		const uint8_t operand = byte & 0x3f;
		const uint64_t align = run->common->code_align;

		switch (byte >> 6) {
		case CFA_ADVANCE_LOC:
			run->pc += operand * align;
			return true;
		case CFA_OFFSET:
			set_saved(run, operand, (int64_t)cursor_uleb(instructions));
			continue;
		case CFA_RESTORE:
			restore_register(run, operand);
			continue;
		default:
			break;
		}
		switch (operand) {
		case CFA_ADVANCE_LOC1:
			run->pc += cursor_u8(instructions) * align;
			return true;
		case CFA_ADVANCE_LOC2:
			run->pc += cursor_u16(instructions) * align;
			return true;
		case CFA_ADVANCE_LOC4:
			run->pc += cursor_u32(instructions) * align;
			return true;
		default:
			if (!run_cfa(run, operand, instructions))
				run_register(run, operand, instructions);
		}
	}
	return false;
}

bool cfi_common_run(struct cfi_common *common, struct cursor instructions)
{
	struct cfi_run run = { .common = common };

	if (common->machine == UNWIND_X86_64)
		run.state.ra.where = CFI_OTHER;
	/* A CIE has no location to move. */
	if (run_stretch(&run, &instructions) || !cursor_ok(&instructions))
		return false;
	common->initial = run.state;
	return true;
}

bool cfi_function_run(const struct cfi_common *common, const struct cfi_function *function,
	bool (*emit)(void *context, uint64_t begin, uint64_t end, struct unwind_rule rule),
	void *context)
{
	struct cursor instructions = function->instructions;
	struct cfi_run run = { .common = common, .state = common->initial, .pc = function->begin };
	uint64_t begin = function->begin;

	while (begin < function->end) {
		const bool moved = run_stretch(&run, &instructions);
		struct unwind_rule rule = { .cfa = UNWIND_CFA_NONE };
		uint64_t end = function->end;

		/* A location that moves beyond the function, or wraps, ends it. */
		if (cursor_ok(&instructions)) {
			rule = rule_of(common, &run.state);
			if (moved && run.pc >= begin && run.pc < end)
				end = run.pc;
		}
		if (end > begin && !emit(context, begin, end, rule))
			return false;
		if (end == function->end)
			break;
		begin = end;
	}
	return true;
}
