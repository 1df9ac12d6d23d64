/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last step of a module's run: what DWARF and the symbol tables said becomes frames, with
 * readable names, in the module's own memory.
 */
#pragma once

#include "symbol/module.h"

/* Gives the queries that have a vaddr their frames. */
void module_build_frames(struct symbol_module *module);

/* Gives a query one frame with this function and nothing else. */
void module_add_named_frame(struct symbol_module *module, struct module_query *query,
	const char *name, size_t name_size);

/* Puts the linker's names where the readable ones are. */
void module_forget_demangled(struct symbol_module *module);
