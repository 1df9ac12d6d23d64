/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes into an index of symbols, each text, function and chain of frames once, and its
 * encoding (symbol_index_format.h).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/hash_index.h"
#include "symbol/dwarf.h"
#include "symbol/elf_image.h"
#include "symbol/symbol.h"
#include "symbol/symbol_index_format.h"
#include "symbol/work.h"

/* A frame and the chain of those around it. */
struct symbol_chain {
	uint32_t outer; /* NO_SYMBOL_CHAIN at the end */
	uint32_t function;
	uint32_t file; /* offset of a text */
	uint32_t line;
};

enum { NO_SYMBOL_CHAIN = 0 };

struct symbol_chains {
	struct buffer text;
	uint32_t *text_offsets;
	size_t text_count, text_capacity;
	struct hash_index text_index;
	struct symbol_index_function *functions;
	size_t function_count, function_capacity;
	struct hash_index function_index;
	struct symbol_chain *chains; /* the first is unused */
	size_t chain_count, chain_capacity;
	struct hash_index chain_index;
	struct work_budget *budget; /* pays for reading texts; borrowed; NULL: nothing does */
	bool is_full;		    /* more than the numbers of the format can say */
};

void symbol_chains_init(struct symbol_chains *chains, struct work_budget *budget);
void symbol_chains_deinit(struct symbol_chains *chains);

/* The chain of a frame inside `outer`. */
uint32_t symbol_chains_add(
	struct symbol_chains *chains, uint32_t outer, const struct dwarf_frame *frame);

/* Each address with its chain, sorted: what is true from there to the next one. */
struct symbol_ranges {
	const uint64_t *vaddrs;
	const uint32_t *chains;
	size_t count;
};

/*
 * Appends the ELF file: the build-id and the segments are those of the image. Sets the number of
 * distinct ranges.
 */
MUST_CHECK bool symbol_index_encode(const struct symbol_chains *chains,
	const struct symbol_ranges *ranges, const struct elf_image *image,
	enum symbol_source source, struct buffer *out, uint64_t *range_count, struct error *err);
