/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that the kernel clears in every child (MADV_WIPEONFORK), so that a child has to write
 * nothing there: also one that was made by raw clone(2) and runs no fork handler.
 *
 * Resident code; any thread.
 */
#pragma once

#include <stddef.h>

/*
 * Cleared memory in a page that all callers share, never given back. NULL where the kernel cannot
 * clear it (before Linux 4.14), without memory, or when the page is full.
 */
void *wiped_memory_take(size_t bytes);
