/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacking what ELF files keep compressed: sections (zlib, zstd) and whole symbol tables (xz in
 * .gnu_debugdata). A size that the input claims is believed only as far as its compressed bytes
 * can carry it. Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct elf_bytes;

enum unpack_format {
	UNPACK_UNKNOWN,
	UNPACK_ZLIB,
	UNPACK_ZSTD,
};

/*
 * What all that so many bytes hold may unpack to: debug information shrinks to a third or a fifth,
 * and single sections to a tenth.
 */
uint64_t unpack_limit(uint64_t packed);

/* Unpacks to exactly `size` bytes. */
MUST_CHECK bool unpack_sized(enum unpack_format format, const void *data, size_t data_size,
	uint64_t size, struct elf_bytes *bytes, struct error *err);

/* Unpacks an .xz stream of unknown size. */
MUST_CHECK bool unpack_xz(
	const void *data, size_t data_size, struct elf_bytes *bytes, struct error *err);
