/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the linker's names to the language's: C++ (Itanium ABI) and Rust (legacy and v0). Names are
 * input: the length of a name and of its readable form are bounded, because a hostile one can ask
 * for unlimited stack or text. Any thread that has DEMANGLE_STACK_BYTES of stack.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"

enum {
	DEMANGLE_STACK_BYTES = 64 << 20,
	DEMANGLE_LONGEST_NAME = 32 << 10,
	DEMANGLE_LONGEST_RESULT = 1 << 20,
};

/* Whether demangle_append could do anything with it: a quick look at its beginning. */
bool demangle_wanted(const char *linkage_name);

/*
 * Appends the readable form, parameters and template arguments included, without Rust's hash.
 * False, with nothing appended, when the name is no mangled one or is too long.
 */
bool demangle_append(const char *linkage_name, struct buffer *out);

/* The same; `work` is about how many bytes were read and written, also where that was in vain. */
bool demangle_append_counted(const char *linkage_name, struct buffer *out, size_t *work);
