/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sampler behind allocator/allocator.h: profiles where jemalloc's profiler cannot take any,
 * because the process has another allocator or a jemalloc without prof:true. Statistics and other
 * names stay jemalloc's, where there is one.
 *
 * Nothing is put into the process before sampling is switched on for the first time, and all of
 * it is taken out when sampling is off and no sampled block is in use any more.
 */
#pragma once

#include "allocator/allocator.h"

/*
 * Makes the sampler take the profiles of an allocator that cannot. Where it cannot either, the
 * allocator stays as it is, with its own reason. After allocator_find(); dlsym may allocate.
 *
 * `with_entries`: heapctl patches the functions of the allocator themselves, wherever it is, and
 * nothing is replaced here. Again for an agent that is attached anew, by the other method perhaps.
 */
void sampler_operations_offer(struct allocator *allocator, unsigned lg_sample, bool with_entries);

/*
 * Whether memory that the program maps itself counts as well. Before sampling begins; without
 * effect on functions that are patched themselves.
 */
void sampler_operations_request_mapped(bool is_requested);

/* Whether the calls are seen by patched functions. */
bool sampler_operations_use_entries(void);
