/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that the modules of this process define for each other, by their dynamic symbols.
 *
 * dlsym() answers another question. In a program at fixed addresses that takes a function's address
 * it finds the program's own stub, behind which the function stands; and it passes over a symbol of
 * an old version, which all programs may be bound to.
 *
 * Resident code. The loader's lock is taken; memory is taken only by loaded_symbol_of_program, if a
 * module has no hash table.
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
	const uint32_t *hash;	  /* GNU's table; NULL: none */
	const uint32_t *old_hash; /* the table of DT_HASH; NULL: none */
};

/* The module's dynamic section; NULL in a static program. */
const ElfW(Dyn) * loaded_symbols_dynamic(const struct dl_phdr_info *info);

/* An address out of that section. The C libraries differ in whether they added the base. */
uintptr_t loaded_symbols_address(const struct dl_phdr_info *info, ElfW(Addr) value);

/* False when the module has no symbols, or its file was cut. */
bool loaded_symbols_read(const struct dl_phdr_info *info, struct loaded_symbols *symbols);

/* Whether loaded_symbols_get() can find any. */
bool loaded_symbols_has_hash(const struct loaded_symbols *symbols);

/* The symbol if the module defines it for others, else NULL. Not without a hash table. */
const ElfW(Sym) * loaded_symbols_get(const struct loaded_symbols *symbols, const char *name);

/* Whether they are those of the C library. */
bool loaded_symbols_are_of_libc(const struct loaded_symbols *symbols);

/* One name of several; begins with `name` alone. */
struct loaded_lookup {
	const char *name;
	/*
	 * The function that modules are bound to which were loaded at the start: the first
	 * definition in the loader's order. NULL when there is none. The code that chooses it,
	 * where the module leaves that to the start (an indirect function).
	 */
	void *found;
	bool is_indirect;
};

/* Reads each module once. False when one could not be read, which has no hash table. */
bool loaded_symbols_find(struct loaded_lookup *lookups, size_t count);

/* The same for one name. */
void *loaded_symbol_find(const char *name);

/*
 * What dlsym(RTLD_DEFAULT, name) finds, and as cheaply as possible when that is nothing: dlsym
 * itself would take memory for the text of an error each time.
 */
void *loaded_symbol_of_program(const char *name);

/*
 * Where the module that contains the address is loaded, as dladdr's dli_fbase has it; NULL: in
 * none. dladdr() reads all symbols of the module for the nearest one.
 */
const void *loaded_module_base(const void *address);
