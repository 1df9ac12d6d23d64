/* SPDX-License-Identifier: Apache-2.0 */
/* What it means that a jemalloc refuses, and what to do. */
#pragma once

#include "allocator/allocator.h"

/*
 * What a mallctl's return code means; always false. `verb` is "reading" or "writing".
 */
bool jemalloc_failure(const struct allocator *allocator, const char *verb, const char *name,
	int code, struct error *err);

/* "profiling is not enabled in this process", with how to start it as the hint; always false. */
bool jemalloc_not_enabled(const struct allocator *allocator, struct error *err);

/*
 * Whether switching profiling on at the start would be the end of it: the compiler's unwinder
 * aborts in programs that glibc is linked into statically.
 */
bool jemalloc_would_end_the_process(const struct allocator *allocator);
