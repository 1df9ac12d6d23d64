/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jeprof's symbolized form: names first, then a profile of another format as it was.
 *
 *	--- symbol
 *	binary=/usr/bin/server
 *	0x55d41fef4426 serve--parse		caller, then what is inlined into it
 *	---
 *	--- heap
 *	heap_v2/524288
 *	...
 *
 * The name of a return address stands at the address before it; that of a leaf, which jeprof does
 * not step back from, at the address itself.
 *
 * Places in the source are an extension, in lines that jeprof skips:
 *
 *	#line 0x55d41fef4426<tab>/src/serve.c:12<tab>/src/parse.c:30
 *
 * The second half may also be alone, after "--- heap", "--- growth" or "--- profile".
 */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/error.h"
#include "profile/profile.h"

/* Whether the file at that path is an allocator. */
typedef bool symbolized_is_allocator(enum profile_kind kind, const char *path);

/*
 * Writes the profile so that it can be read without the program. Weighting and counters are kept
 * as they are; heap and growth profiles only. jeprof finds the allocator's frames, which it does
 * not show, by their names alone: those that have none are called malloc<libjemalloc.so.2+0x1234>
 * when `is_allocator` says that of their file. It may be NULL.
 */
MUST_CHECK bool symbolized_write(const struct profile *profile,
	symbolized_is_allocator *is_allocator, struct buffer *out, struct error *err);
