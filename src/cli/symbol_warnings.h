/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which addresses of profiles got no name, and why, on stderr: once per module, with what to do. A
 * profile that was cut off before its mappings, or within them, is distinguished from memory
 * without a file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"
#include "symbol/symbolizer.h"

/* What the warnings are about, borrowed. */
struct symbol_warnings {
	const struct symbolizer *symbolizer; /* that has given the names */
	struct profile *const *profiles;
	size_t profile_count;
	/* Otherwise the allocator's modules are left out: their frames are not shown. */
	bool keeps_allocator_frames;
	/* Where the names of each module came from as well, also of those that have all. */
	bool names_sources;
};

void symbol_warnings_print(const struct symbol_warnings *of);
