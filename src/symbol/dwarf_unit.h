/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One file's DWARF: its sections, its units, and the values in its DIEs. DWARF 2 to 5, with GNU's
 * extensions for split files and for dwz.
 *
 * Words. A *unit* is a compilation unit, or a part of one. A *DIE* is an entry of its tree. The
 * *root* is a unit's first DIE. A *skeleton* is a unit whose DIEs are in another file (.dwo); that
 * file's unit reads its addresses through the skeleton.
 *
 * What is read lazily (roots, abbreviations) is read under a lock: any thread may call everything
 * but dwarf_init, dwarf_deinit. All texts are borrowed from the sections.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cursor.h"
#include "symbol/dwarf_abbrev.h"
#include "symbol/elf_image.h"
#include "symbol/work.h"

enum dwarf_section {
	DWARF_INFO,
	DWARF_ABBREV,
	DWARF_STR,
	DWARF_LINE,
	DWARF_LINE_STR,
	DWARF_STR_OFFSETS,
	DWARF_ADDR,
	DWARF_RANGES,
	DWARF_RNGLISTS,
	DWARF_ARANGES,
	DWARF_SECTIONS,
};

struct dwarf_abbrevs_at {
	uint64_t offset;
	struct dwarf_encoding encoding;
	struct dwarf_abbrevs *abbrevs;
};

struct dwarf {
	char *path; /* for messages, and to find split files */
	struct elf_bytes sections[DWARF_SECTIONS];
	struct dwarf_unit *units; /* sorted by offset */
	size_t unit_count, unit_capacity;
	struct dwarf *alternate; /* what dwz moved out of this file; NULL for none; borrowed */
	uint64_t code_start;	 /* addresses outside these are leftovers of the linker */
	uint64_t code_limit;
	bool is_split; /* a .dwo or .dwp */

	pthread_mutex_t lock;
	struct dwarf_abbrevs_at *tables;
	size_t table_count, table_capacity;
	struct hash_index *table_index;
	struct work_budget *budget;   /* of the module; borrowed */
	_Atomic(const char *) damage; /* the first that was found, a constant text; NULL for none */
};

/* A root's attributes. */
struct dwarf_root {
	struct dwarf_value name;
	struct dwarf_value directory;
	struct dwarf_value low_pc;
	struct dwarf_value high_pc;
	struct dwarf_value ranges;
	struct dwarf_value lines;
	struct dwarf_value split_name;
	uint64_t str_offsets_base;
	uint64_t addr_base;
	uint64_t rnglists_base;
	uint64_t ranges_base; /* of DWARF 4 split units */
	uint64_t language;
};

struct dwarf_unit {
	struct dwarf *dwarf;
	const unsigned char *info; /* .debug_info, or a piece of it */
	uint64_t offset;	   /* in `info`, as all offsets of DIEs here */
	uint64_t limit;
	uint64_t first_die;
	uint64_t abbrev_offset;
	uint64_t id; /* of a skeleton and its split unit */
	struct dwarf_encoding encoding;
	uint8_t type;
	bool in_aranges;
	bool is_of_piece; /* `info` is a piece, which does not live as long as the file */
	/* In a .dwp, where this unit's part of the shared sections begins. */
	uint64_t str_offsets_start;
	uint64_t rnglists_start;
	/* For units of split files; set before their DIEs are read. */
	struct dwarf_unit *skeleton;

	atomic_bool has_root;
	struct dwarf_root root; /* once has_root */
	_Atomic(const struct dwarf_abbrevs *) abbrevs;
};

/*
 * Takes the sections of an image, ".dwo" ones when is_split, and finds the units. Compressed
 * sections are unpacked on `threads` threads.
 */
MUST_CHECK bool dwarf_init(struct dwarf *dwarf, const struct elf_image *image, bool is_split,
	unsigned threads, struct work_budget *budget, struct error *err);
void dwarf_deinit(struct dwarf *dwarf);

/*
 * The steps of dwarf_init, for a reader that takes .debug_info by pieces: dwarf_open; then
 * dwarf_load_section for each section but that one, on any threads; then dwarf_finish_loading with
 * its size. `units` stays empty.
 */
void dwarf_open(struct dwarf *dwarf, const struct elf_image *image, bool is_split,
	struct work_budget *budget);
MUST_CHECK bool dwarf_load_section(struct dwarf *dwarf, const struct elf_image *image,
	enum dwarf_section section, bool may_populate, struct error *err);
MUST_CHECK bool dwarf_finish_loading(struct dwarf *dwarf, uint64_t more_bytes, struct error *err);

/* Takes .debug_info as a whole after all, and finds the units. */
MUST_CHECK bool dwarf_load_info(
	struct dwarf *dwarf, const struct elf_image *image, bool may_populate, struct error *err);

/*
 * Reads the header of a unit in .debug_info, or a piece of it; the cursor ends after the unit.
 * False when there are no more.
 */
MUST_CHECK bool dwarf_unit_read_header(
	struct dwarf *dwarf, struct cursor *in, struct dwarf_unit *unit);

/* Whether it is of a version and an address size that are known. */
bool dwarf_unit_is_readable(const struct dwarf_unit *unit);

/* Notes what cannot be decoded, so that answers may be missing. Reading goes on behind it. */
void dwarf_note_damage(struct dwarf *dwarf, const char *damage);

enum { DWARF_MAX_ALIGNMENT_BYTES = 64 };

/* Whether what is left is nothing but zeros that align what follows. */
bool dwarf_is_alignment(const struct cursor *rest);

/* Notes it as damage where it is not. */
void dwarf_check_padding(struct dwarf *dwarf, const struct cursor *rest, const char *damage);

/* work_budget_spend and work_budget_spend_batched on the file's budget. */
static inline bool dwarf_spend(const struct dwarf *dwarf, uint64_t work)
{
	return work_budget_spend(dwarf->budget, work);
}

static inline bool dwarf_spend_batched(const struct dwarf *dwarf, uint64_t *pending, uint64_t work)
{
	return work_budget_spend_batched(dwarf->budget, pending, work);
}

/* The unit that contains a DIE's offset; NULL without one. */
struct dwarf_unit *dwarf_unit_at(const struct dwarf *dwarf, uint64_t offset);

/* Reads the root if that has not been done, and returns it. */
const struct dwarf_root *dwarf_unit_root(struct dwarf_unit *unit);

/* The unit's abbreviations, read on first use. */
const struct dwarf_abbrevs *dwarf_unit_abbrevs(struct dwarf_unit *unit);

/*
 * Gives a unit of a piece a table that is not kept: `last`, if it is the unit's, else one that
 * takes its place. The unit may be read until `last` is replaced or freed.
 */
void dwarf_unit_borrow_abbrevs(struct dwarf_unit *unit, struct dwarf_abbrevs_at *last);

/* A cursor over .debug_info at a DIE of the unit, which ends where the unit ends. */
struct cursor dwarf_unit_cursor(const struct dwarf_unit *unit, uint64_t offset);
