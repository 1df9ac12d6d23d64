/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the DIEs of a unit that finds, for each of many sorted addresses, the function and
 * the inlined calls that contain it. Subtrees without any of the addresses are skipped.
 *
 * A *chain* is the result for an address: DIEs, innermost first, the last one the function.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbol/boundaries.h"
#include "symbol/dwarf_unit.h"

enum { DWARF_NO_LINK = 0 };

/* A function or an inlined call that contains one of the addresses. */
struct dwarf_code {
	uint64_t offset;	   /* of the DIE */
	struct dwarf_value origin; /* its DW_AT_abstract_origin, form 0 for none */
	uint64_t call_file;	   /* where it was inlined; 0 when it was not */
	uint32_t call_line;
	uint32_t depth;
	bool is_inlined;
	bool is_bare; /* may have more addresses than its attributes say */
};

/* A link of a chain. */
struct dwarf_link {
	uint32_t code;	/* in dwarf_scan.codes */
	uint32_t outer; /* the next link, DWARF_NO_LINK at the end */
};

struct dwarf_scan {
	struct dwarf_unit *unit;
	const uint64_t *vaddrs; /* sorted */
	const bool *is_function;
	size_t count;
	uint32_t *chains; /* the innermost link of each address, DWARF_NO_LINK when there is none */
	struct dwarf_code *codes;
	struct dwarf_link *links; /* the first is unused */
	size_t code_count, code_capacity;
	size_t link_count, link_capacity;
};

/*
 * Scans the unit. The arrays are borrowed until dwarf_scan_deinit. Functions nested in other
 * functions or in types take a second, slower pass, which is made when an address with
 * `is_function` set was not found by the first.
 */
void dwarf_scan_init(struct dwarf_scan *scan, struct dwarf_unit *unit, const uint64_t *vaddrs,
	const bool *is_function, size_t count);
void dwarf_scan_deinit(struct dwarf_scan *scan);

/* Adds where each piece of code of the unit begins and ends. */
void dwarf_scan_boundaries(struct dwarf_unit *unit, struct boundaries *boundaries);
