/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of a symbol table (.symtab, .dynsym) that hold given addresses.
 *
 * The table is read once, past the sorted addresses, and nothing of it is stored. A symbol holds
 * the addresses that its size says, no others. Of several that hold an address the one that begins
 * last is chosen, then the global before the weak before the local one, then the one with fewer
 * underscores in front ("malloc" rather than "__libc_malloc"), then by name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/elf_image.h"

struct symbol_match {
	const char *name; /* in the image; NULL where no symbol holds the address */
	uint64_t start;
	uint64_t size;
	unsigned char info; /* st_info */
};

/* Whether the image has a table of this name that says anything. */
bool symbol_table_exists(const struct elf_image *image, const char *section);

/* Fills the matches that are still without a name. `vaddrs` is sorted. */
void symbol_table_match(const struct elf_image *image, const char *section, const uint64_t *vaddrs,
	size_t count, struct symbol_match *matches);

/* The length of a symbol's name without its version ("@@GLIBC_2.2.5"). */
size_t symbol_name_size(const char *name);

/* For an address that no described function holds. */
#define FUNCTION_START_UNKNOWN UINT32_MAX

struct function_starts;

/* The image's, which outlives them. NULL when it has no index. */
struct function_starts *function_starts_new(const struct elf_image *image);
void function_starts_free(struct function_starts *starts);

/* How many bytes `vaddr` is behind the first byte of its function. */
uint32_t function_starts_find(const struct function_starts *starts, uint64_t vaddr);
