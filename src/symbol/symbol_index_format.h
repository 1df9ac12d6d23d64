/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of an index of symbols, which symbol_index_write.c writes and symbol_index.c reads.
 *
 * The section SYMBOL_INDEX_SECTION of an ELF file has a header, the tables of three kinds of blocks
 * one after the other, and the blocks, each compressed by zstd:
 *
 * - Ranges, by address, in groups, so that a search reads only some of them. A block begins with
 *   the number of groups (32 bits), and where each begins: struct symbol_index_group. A record has
 *   the distance from the record before (of the first one: from the group's beginning), the number
 *   of frames (0: nothing is known there), how many of the outermost are those of the record
 *   before, and the other frames, the outermost first: 0 or the function's number + 1, 0 or the
 *   offset of the file's text + 1, and the difference of the lines. 0 is what the record before has
 *   at this depth, and so is the line that the difference is from. A record is true up to the next
 *   one. A group begins without a record before.
 * - Functions: struct symbol_index_function, numbered from 0.
 * - Texts, each ending with NUL. Their offsets are counted through all blocks.
 *
 * Numbers are LEB128, all others little-endian.
 */
#pragma once

#include <stdint.h>

#define SYMBOL_INDEX_SECTION ".heapctl_symbols"

enum {
	SYMBOL_INDEX_VERSION = 1,
	SYMBOL_INDEX_BLOCK_BYTES = 64 << 10, /* unpacked; a block of texts may have one more text */
	SYMBOL_INDEX_MAX_BLOCK_BYTES = 16 << 20,
	SYMBOL_INDEX_GROUP_RANGES = 32,
	SYMBOL_INDEX_MAX_FRAMES = 2048, /* of a range; more than a scan of DIEs can nest */
};

enum symbol_index_kind {
	SYMBOL_INDEX_RANGES,
	SYMBOL_INDEX_FUNCTIONS,
	SYMBOL_INDEX_TEXTS,
	SYMBOL_INDEX_KINDS,
};

struct symbol_index_header {
	char magic[8];
	uint32_t version;
	uint32_t source;   /* enum symbol_source */
	uint64_t checksum; /* of the header, with a 0 here, and the tables */
	uint32_t block_counts[SYMBOL_INDEX_KINDS];
	uint32_t reserved;
};

static const char symbol_index_magic[8] = "heapidx";

struct symbol_index_block {
	uint64_t first;	 /* address, number of a function, or offset of a text */
	uint64_t offset; /* of its packed bytes, from the beginning of the section */
	uint32_t packed_bytes;
	uint32_t bytes;
};

struct symbol_index_group {
	uint32_t distance; /* of its first range from that of the block */
	uint32_t offset;   /* of its records from the end of the list of groups */
};

struct symbol_index_function {
	uint32_t name; /* offsets of texts */
	uint32_t linkage;
	uint32_t start_line;
};
