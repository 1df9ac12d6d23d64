/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions of a symbol table (.symtab, .dynsym) that contain given addresses.
 *
 * The table is read once for all addresses, which are sorted, and nothing of it is stored. A symbol
 * contains the addresses within its size, no others. Of several that contain an address the one
 * that begins last is chosen, then the global before the weak before the local one, then the one
 * with fewer underscores in front ("malloc" rather than "__libc_malloc"), then by name.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"
#include "symbol/boundaries.h"
#include "symbol/elf_image.h"
#include "symbol/symbol.h"

struct symbol_match {
	const char *name; /* in the image; NULL where no symbol contains the address */
	uint64_t start;
	uint64_t size;
	unsigned char info; /* st_info */
};

/* Whether the image has a table of this name with symbols. */
bool symbol_table_exists(const struct elf_image *image, const char *section);

/* Fills the matches that are still without a name. `vaddrs` is sorted. */
void symbol_table_match(const struct elf_image *image, const char *section, const uint64_t *vaddrs,
	size_t count, struct symbol_match *matches);

/* Adds where each function of the table begins and ends. */
void symbol_table_boundaries(
	const struct elf_image *image, const char *section, struct boundaries *boundaries);

/*
 * The images with symbols of a module: the mapped file, its debug file, and the one inside the
 * first one's .gnu_debugdata. All may be empty.
 */
struct symbol_images {
	const struct elf_image *mapped;
	const struct elf_image *debug;
	const struct elf_image *mini;
};

/* Opens the image inside .gnu_debugdata; a damaged one is left empty. */
void symbol_images_open_mini(const struct elf_image *mapped, struct elf_image *mini);

/* Fills the matches from all tables of the images; the best source there was. */
enum symbol_source symbol_images_match(const struct symbol_images *images, const uint64_t *vaddrs,
	size_t count, struct symbol_match *matches);
void symbol_images_boundaries(const struct symbol_images *images, struct boundaries *boundaries);

/* The length of a symbol's name without its version ("@@GLIBC_2.2.5"). */
size_t symbol_name_size(const char *name);

/* For an address in no known function. */
#define FUNCTION_START_UNKNOWN UINT32_MAX

struct function_starts;

/* The image's, which outlives them. NULL when it has no index. */
struct function_starts *function_starts_new(const struct elf_image *image);
void function_starts_free(struct function_starts *starts);

/* The offset of `vaddr` in its function. */
uint32_t function_starts_find(const struct function_starts *starts, uint64_t vaddr);

/*
 * Names of code that a process made at run time, from the map that it writes for perf:
 * /tmp/perf-PID.map, lines of "START SIZE NAME" in hexadecimal. A JIT that reuses an address writes
 * a later line, so the last one counts. Any user can put a file into /tmp: one that belongs to
 * neither the process' user nor root is not read.
 */

struct perf_map_match {
	size_t name;	  /* offset in the map's text */
	size_t name_size; /* 0 where no line covers the address */
};

/* Reads the map of a process, through its own root if it is in a container. */
MUST_CHECK bool perf_map_read(pid_t pid, struct buffer *path, struct buffer *text);

/*
 * Fills matches[i] for addresses[i], which are sorted. Malformed lines are skipped. Returns how
 * many lines and addresses it went through, for tests.
 */
uint64_t perf_map_find(const struct buffer *text, const uint64_t *addresses, size_t count,
	struct perf_map_match *matches);
