/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that the modules of this process define for each other, by their dynamic symbols.
 *
 * dlsym() answers another question. In a program at fixed addresses that takes a function's address
 * it finds the program's own stub, behind which the function stands; and it passes over a symbol of
 * an old version, which all programs may be bound to.
 *
 * Resident code. The loader's lock is taken; no memory is.
 */
#pragma once

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

/* What is needed of a module's dynamic section; borrowed from the module. */
struct loaded_symbols {
	ElfW(Addr) base;
	const ElfW(Sym) * table;
	const char *strings;
	size_t strings_size;
	const uint32_t *hash; /* GNU's table; NULL: none */
};

/* The module's dynamic section; NULL in a static program. */
const ElfW(Dyn) * loaded_symbols_dynamic(const struct dl_phdr_info *info);

/* An address out of that section. The C libraries differ in whether they added the base. */
uintptr_t loaded_symbols_address(const struct dl_phdr_info *info, ElfW(Addr) value);

/* False when the module has no symbols. */
bool loaded_symbols_read(const struct dl_phdr_info *info, struct loaded_symbols *symbols);

/* The symbol if the module defines it for others, else NULL. Not without a hash table. */
const ElfW(Sym) * loaded_symbols_get(const struct loaded_symbols *symbols, const char *name);

/*
 * The function that modules are bound to which were loaded at the start: the first definition in
 * the loader's order. NULL when there is none. The code that chooses it, where the module leaves
 * that to the start (an indirect function); then `is_indirect`, which may be NULL.
 */
void *loaded_symbol_find(const char *name, bool *is_indirect);
