/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Unpacks the compressed parts of ELF files: sections (zlib, zstd) and whole symbol tables (xz in
 * .gnu_debugdata). A size in the input is accepted only if its compressed bytes can expand to it.
 * Any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* Bytes of a section: part of the image's file, or unpacked into memory of their own. */
struct elf_bytes {
	const unsigned char *data;
	size_t size;
	void *owned;
};

/* A table of NUL-terminated texts, cut after its last NUL so that every text ends inside it. */
struct elf_bytes elf_text_table(const void *data, size_t size);

/* The text at an offset of such a table; "" when there is none. */
static inline const char *elf_text_at(const struct elf_bytes *table, uint64_t offset)
{
	return offset < table->size ? (const char *)table->data + offset : "";
}

void elf_bytes_free(struct elf_bytes *bytes);

/*
 * The limit for unpacking that many bytes: debug information shrinks to a third or a fifth, and
 * single sections to a tenth.
 */
uint64_t unpack_limit(uint64_t packed);

enum unpack_format {
	UNPACK_UNKNOWN,
	UNPACK_ZLIB,
	UNPACK_ZSTD,
};

/*
 * Unpacks to exactly `size` bytes. With `may_populate` a second thread gets the memory of a large
 * result ready.
 */
MUST_CHECK bool unpack_sized(enum unpack_format format, const void *data, size_t data_size,
	uint64_t size, bool may_populate, struct elf_bytes *bytes, struct error *err);

/* Unpacks an .xz stream of unknown size. */
MUST_CHECK bool unpack_xz(
	const void *data, size_t data_size, struct elf_bytes *bytes, struct error *err);
