/* SPDX-License-Identifier: Apache-2.0 */
/* The mover of a function's first instructions: whatever the bytes are, bounded, or refused. */
#include <stdint.h>
#include <string.h>

#include "inject/prologue.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { INSTRUCTION_BYTES_MAX = 15 };

/* Four bytes: how far it is moved; then the function. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const uint64_t address = UINT64_C(0x555500000000);
	struct prologue prologue;
	struct error err = { 0 };
	int32_t distance = 0;

	if (size < sizeof distance)
		return 0;
	memcpy(&distance, data, sizeof distance);
	if (!prologue_move(&prologue, data + sizeof distance, size - sizeof distance, address,
		    address + (uint64_t)(int64_t)distance, &err)) {
		if (err.message[0] == '\0')
			__builtin_trap();
		return 0;
	}
	if (prologue.length < ENTRY_JUMP_BYTES || prologue.length > size - sizeof distance ||
		prologue.length >= ENTRY_JUMP_BYTES + INSTRUCTION_BYTES_MAX ||
		prologue.moved_bytes > sizeof prologue.moved)
		__builtin_trap();
	return 0;
}
