/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files behind a module: the one that was mapped, or its debug file when that is all there
 * is; and whether it is the right one. A file with the right name and other contents would give
 * wrong names, so it is refused: by its build-id where the profile knows one, else because its
 * segments cannot have been mapped the way the profile says.
 */
#pragma once

#include "base/buffer.h"
#include "symbol/elf_image.h"
#include "symbol/file_search.h"
#include "symbol/module.h"

/* What of a file can be compared with a process' mappings; the cache keeps it, too. */
struct module_layout {
	struct elf_segment *segments; /* borrowed */
	size_t segment_count;
};

/*
 * Opens the mapped file. False when there is none that fits: then `problem` and `hint` say why in
 * plain words and what to do.
 */
MUST_CHECK bool module_file_open(const struct symbol_module *module, struct file_search *search,
	struct elf_image *image, struct buffer *problem, struct buffer *hint);

/* Whether the mapping is one of the segments, or the part of one that the process did not remap. */
bool module_mapping_fits(const struct symbol_module *module, const struct symbol_mapping *mapping,
	const struct module_layout *layout);

/*
 * Whether the module was mapped from a file that has these segments: at least one of the mappings
 * that are asked about is one of those with code. Others may be odd: a process can map its own file
 * once more.
 */
bool module_layout_fits(const struct symbol_module *module, const struct module_layout *layout,
	struct buffer *problem);

/*
 * The vaddr of a query; false when it lies in no segment. A debug file's segments do not say
 * where in the program's file they are, so there the module's first mapping decides.
 */
bool module_translate(const struct symbol_module *module, const struct elf_image *image,
	const struct module_query *query, uint64_t *vaddr);
