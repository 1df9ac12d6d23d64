/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A module's answers from the runs before. What the cache says holds when a search for files would
 * find the same files as then: the same inodes, with contents that were not changed since, also for
 * a module whose build-id is known. The mapped file's segments are kept too, so that a profile of
 * another file at the same path is refused without opening it.
 */
#pragma once

#include <stdbool.h>

#include "symbol/elf_image.h"
#include "symbol/file_search.h"
#include "symbol/module.h"

/* Answers what queries it can, with the module's report. True when that was all of them. */
bool module_cache_load(struct symbol_module *module);

/* Keeps the answers of this run together with those of before. */
void module_cache_store(struct symbol_module *module, const struct elf_image *image,
	const struct file_search *search);
