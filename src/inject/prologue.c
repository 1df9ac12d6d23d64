/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/prologue.h"

#include <Zydis/Zydis.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "base/shared_library.h"

enum { JUMP = 0xe9, LONG_CONDITION = 0x0f, LONG_CONDITION_BASE = 0x80, LONG_CONDITION_BYTES = 6 };

/* A distance as an instruction has it; false where 32 bits do not hold it. */
static bool put_distance(unsigned char *at, uint64_t from, uint64_t to)
{
	const int64_t distance = (int64_t)(to - from);
	const int32_t word = (int32_t)distance;

	memcpy(at, &word, sizeof word);
	return word == distance;
}

bool prologue_jump(unsigned char jump[ENTRY_JUMP_BYTES], uint64_t address, uint64_t to)
{
	jump[0] = JUMP;
	return put_distance(jump + 1, address + ENTRY_JUMP_BYTES, to);
}

static bool refuse(struct error *err, const char *reason)
{
	return error_set(err, ERROR_UNSUPPORTED, "%s", reason);
}

/* --- Decoding --- */

/* Zydis is opened here, for few commands patch functions and every command would load it. */
struct instruction_decoder {
	ZydisDecoder state;
	__typeof__(ZydisDecoderDecodeInstruction) *decode;
};

static bool open_decoder(struct instruction_decoder *decoder, struct error *err)
{
	char name[64];

	snprintf(name, sizeof name, "libZydis.so.%u.%u",
		(unsigned)ZYDIS_VERSION_MAJOR(ZYDIS_VERSION),
		(unsigned)ZYDIS_VERSION_MINOR(ZYDIS_VERSION));
	void *library;
	if (!shared_library_open(name, "libzydis4.0", &library, err))
		return error_prefix(err, "cannot be decoded");
	__typeof__(ZydisDecoderInit) *init;
	*(void **)&init = dlsym(library, "ZydisDecoderInit");
	*(void **)&decoder->decode = dlsym(library, "ZydisDecoderDecodeInstruction");
	if (init == NULL || decoder->decode == NULL ||
		!ZYAN_SUCCESS(
			init(&decoder->state, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64))) {
		error_set(err, ERROR_UNSUPPORTED, "cannot be decoded: %s has no decoder for it",
			name);
		return error_hint(err, "install Zydis: apt install --reinstall libzydis4.0");
	}
	return true;
}

struct decoded_instruction {
	ZydisDecodedInstruction instruction;
	uint64_t address;
	const unsigned char *bytes;
};

static bool decode(const struct instruction_decoder *decoder, struct decoded_instruction *decoded,
	const unsigned char *bytes, size_t size, uint64_t address)
{
	decoded->bytes = bytes;
	decoded->address = address;
	return ZYAN_SUCCESS(
		decoder->decode(&decoder->state, NULL, bytes, size, &decoded->instruction));
}

static uint64_t end_of(const struct decoded_instruction *decoded)
{
	return decoded->address + decoded->instruction.length;
}

static bool is_relative_branch(const struct decoded_instruction *decoded)
{
	return decoded->instruction.raw.imm[0].is_relative == ZYAN_TRUE;
}

static uint64_t branch_target(const struct decoded_instruction *decoded)
{
	return end_of(decoded) + (uint64_t)decoded->instruction.raw.imm[0].value.s;
}

/* Jcc, in its short and its long form; others of its kind have neither (XBEGIN). */
static bool is_conditional(const ZydisDecodedInstruction *instruction)
{
	return (instruction->opcode_map == ZYDIS_OPCODE_MAP_DEFAULT &&
		       (instruction->opcode & 0xf0) == 0x70) ||
	       (instruction->opcode_map == ZYDIS_OPCODE_MAP_0F &&
		       (instruction->opcode & 0xf0) == 0x80);
}

/* Its memory operand counts from the end of the instruction. */
static bool has_relative_operand(const struct decoded_instruction *decoded)
{
	return (decoded->instruction.attributes & ZYDIS_ATTRIB_IS_RELATIVE) != 0 &&
	       !is_relative_branch(decoded) && decoded->instruction.raw.disp.size == 32;
}

/* --- What is refused --- */

static const char *refusal_of(const ZydisDecodedInstruction *instruction)
{
	static const char call[] = "calls another function at once";
	static const char trap[] = "begins with a system call or a trap";
	static const char loop[] = "begins with a branch that has no long form";
	static const struct {
		ZydisInstructionCategory category;
		const char *reason;
	} categories[] = {
		{ ZYDIS_CATEGORY_CALL, call },
		{ ZYDIS_CATEGORY_RET, "is too short" },
		{ ZYDIS_CATEGORY_SYSCALL, trap },
		{ ZYDIS_CATEGORY_SYSRET, trap },
		{ ZYDIS_CATEGORY_INTERRUPT, trap },
	};
	static const struct {
		ZydisMnemonic mnemonic;
		const char *reason;
	} mnemonics[] = {
		{ ZYDIS_MNEMONIC_UD0, trap },
		{ ZYDIS_MNEMONIC_UD1, trap },
		{ ZYDIS_MNEMONIC_UD2, trap },
		{ ZYDIS_MNEMONIC_HLT, trap },
		{ ZYDIS_MNEMONIC_LOOP, loop },
		{ ZYDIS_MNEMONIC_LOOPE, loop },
		{ ZYDIS_MNEMONIC_LOOPNE, loop },
		{ ZYDIS_MNEMONIC_JCXZ, loop },
		{ ZYDIS_MNEMONIC_JECXZ, loop },
		{ ZYDIS_MNEMONIC_JRCXZ, loop },
	};

	for (size_t i = 0; i < sizeof categories / sizeof *categories; i++) {
		if (instruction->meta.category == categories[i].category)
			return categories[i].reason;
	}
	for (size_t i = 0; i < sizeof mnemonics / sizeof *mnemonics; i++) {
		if (instruction->mnemonic == mnemonics[i].mnemonic)
			return mnemonics[i].reason;
	}
	return NULL;
}

static bool is_jump(const ZydisDecodedInstruction *instruction)
{
	return instruction->meta.category == ZYDIS_CATEGORY_UNCOND_BR;
}

/* Whether the address lies within what is overwritten, behind its beginning. */
static bool is_inside(uint64_t address, uint64_t begin, size_t length)
{
	return address - begin > 0 && address - begin < length;
}

static uint64_t operand_target(const struct decoded_instruction *decoded)
{
	return end_of(decoded) + (uint64_t)decoded->instruction.raw.disp.value;
}

/* Compilers put no data between the code of a function; where it is, it reads as instructions. */
static bool leads_inside(const struct decoded_instruction *decoded, uint64_t begin, size_t length)
{
	return (is_relative_branch(decoded) && is_inside(branch_target(decoded), begin, length)) ||
	       (has_relative_operand(decoded) && is_inside(operand_target(decoded), begin, length));
}

static bool uses_beginning(const struct instruction_decoder *decoder, const unsigned char *bytes,
	size_t size, uint64_t address, size_t length)
{
	struct decoded_instruction decoded;

	for (size_t at = 0; at < size;) {
		if (!decode(decoder, &decoded, bytes + at, size - at, address + at)) {
			at++;
			continue;
		}
		if (leads_inside(&decoded, address, length))
			return true;
		at += decoded.instruction.length;
	}
	return false;
}

/* --- Moving --- */

struct prologue_writer {
	const struct instruction_decoder *decoder;
	struct prologue *prologue;
	uint64_t to;
};

static bool add(struct prologue_writer *writer, const unsigned char *bytes, size_t size)
{
	struct prologue *const prologue = writer->prologue;

	if (size > sizeof prologue->moved - prologue->moved_bytes)
		return false;
	memcpy(prologue->moved + prologue->moved_bytes, bytes, size);
	prologue->moved_bytes += size;
	return true;
}

static uint64_t here(const struct prologue_writer *writer)
{
	return writer->to + writer->prologue->moved_bytes;
}

static bool move_relative_operand(struct prologue_writer *writer,
	const struct decoded_instruction *decoded, struct error *err)
{
	const ZydisDecodedInstruction *const instruction = &decoded->instruction;
	unsigned char bytes[ZYDIS_MAX_INSTRUCTION_LENGTH];

	/* Its base would be the lower half of the address. */
	if (instruction->address_width != 64)
		return refuse(err, "begins with an operand that cannot be moved");
	memcpy(bytes, decoded->bytes, instruction->length);
	if (!put_distance(bytes + instruction->raw.disp.offset, here(writer) + instruction->length,
		    operand_target(decoded)))
		return refuse(err, "uses data farther than 2 GiB from the free addresses");
	return add(writer, bytes, instruction->length) || refuse(err, "has too long instructions");
}

static bool move_branch(struct prologue_writer *writer, const struct decoded_instruction *decoded,
	struct error *err)
{
	const ZydisDecodedInstruction *const instruction = &decoded->instruction;
	unsigned char bytes[LONG_CONDITION_BYTES] = { LONG_CONDITION,
		(unsigned char)(LONG_CONDITION_BASE | (instruction->opcode & 0xf)) };
	size_t size = LONG_CONDITION_BYTES;

	if (instruction->raw.imm[0].size != 8 && instruction->raw.imm[0].size != 32)
		return refuse(err, "begins with a branch that cannot be moved");
	if (is_jump(instruction)) {
		bytes[0] = JUMP;
		size = ENTRY_JUMP_BYTES;
	} else if (!is_conditional(instruction)) {
		return refuse(err, "begins with a branch that cannot be moved");
	}
	if (!put_distance(bytes + size - 4, here(writer) + size, branch_target(decoded)))
		return refuse(err, "branches farther than 2 GiB from the free addresses");
	return add(writer, bytes, size) || refuse(err, "has too long instructions");
}

static bool move_instruction(struct prologue_writer *writer,
	const struct decoded_instruction *decoded, struct error *err)
{
	const char *const refusal = refusal_of(&decoded->instruction);

	if (refusal != NULL)
		return refuse(err, refusal);
	if (is_relative_branch(decoded))
		return move_branch(writer, decoded, err);
	if (has_relative_operand(decoded))
		return move_relative_operand(writer, decoded, err);
	if ((decoded->instruction.attributes & ZYDIS_ATTRIB_IS_RELATIVE) != 0)
		return refuse(err, "begins with an operand that cannot be moved");
	return add(writer, decoded->bytes, decoded->instruction.length) ||
	       refuse(err, "has too long instructions");
}

static bool move_instructions(struct prologue_writer *writer, const unsigned char *bytes,
	size_t size, uint64_t address, struct error *err)
{
	struct prologue *const prologue = writer->prologue;
	struct decoded_instruction decoded;

	while (prologue->length < ENTRY_JUMP_BYTES) {
		if (prologue->length >= size)
			return refuse(err, "is too short");
		if (!decode(writer->decoder, &decoded, bytes + prologue->length,
			    size - prologue->length, address + prologue->length))
			return refuse(err, "begins with bytes that are no instruction");
		if (!move_instruction(writer, &decoded, err))
			return false;
		prologue->length += decoded.instruction.length;
		if (is_jump(&decoded.instruction) && prologue->length < ENTRY_JUMP_BYTES)
			return refuse(err, "is too short");
	}
	return true;
}

bool prologue_move(struct prologue *prologue, const unsigned char *bytes, size_t size,
	uint64_t address, uint64_t to, struct error *err)
{
	struct prologue result = { 0 };
	struct instruction_decoder decoder;
	struct prologue_writer writer = { &decoder, &result, to };
	unsigned char jump[ENTRY_JUMP_BYTES];

	if (size > PROLOGUE_FUNCTION_MAX)
		size = PROLOGUE_FUNCTION_MAX;
	if (!open_decoder(&decoder, err) || !move_instructions(&writer, bytes, size, address, err))
		return false;
	if (uses_beginning(&decoder, bytes, size, address, result.length))
		return refuse(err, "jumps back into its first instructions");
	if (!prologue_jump(jump, here(&writer), address + result.length))
		return refuse(err, "is farther than 2 GiB from the free addresses");
	if (!add(&writer, jump, sizeof jump))
		return refuse(err, "has too long instructions");
	*prologue = result;
	return true;
}
