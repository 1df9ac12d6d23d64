/* SPDX-License-Identifier: Apache-2.0 */
/* What the steps of a module's run hand to each other; for module.c and module_frames.c only. */
#pragma once

#include "symbol/dwarf.h"
#include "symbol/elf_image.h"
#include "symbol/file_search.h"
#include "symbol/module.h"
#include "symbol/symbol_table.h"

struct module_work {
	struct file_search search;
	struct elf_image image; /* these three are empty when there is none */
	struct elf_image debug;
	struct elf_image mini; /* the one inside .gnu_debugdata */
	struct dwarf_reader *dwarf;
	/* The queries that have a vaddr, sorted by it. */
	uint64_t *vaddrs;
	struct module_query **queries;
	struct symbol_match *matches;
	bool *is_function; /* a symbol holds it, or there are no symbols to tell */
	size_t count;
};

/* The module's own copy of a text. */
static inline const char *module_keep(struct module *module, const char *text)
{
	return string_pool_add(&module->strings, text);
}
