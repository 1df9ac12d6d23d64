/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The frames of the profiler instead of the program: the allocator's own functions at the leaf of
 * every stack of a heap profile. Everything from the leaf up to the outermost such frame is cut
 * off, so that a stack ends with the caller that asked for the memory. In a CPU profile the leaf is
 * where the program was interrupted; the frames of the signal's handler, which follow it, are
 * removed. The lists are data; names are as function_name_append_bare makes them.
 */
#pragma once

#include <stdbool.h>

#include "profile/profile.h"

/* Whether a function of this name, without arguments, is cut off. */
bool allocator_frame_has_name(enum profile_kind kind, const char *bare_name);

/* Whether the file is an allocator's library, so that it is known even without symbols. */
bool allocator_frame_has_module(enum profile_kind kind, const char *path);

/*
 * The return address of a signal handler in every stack of a CPU profile, where it has no name:
 * next to all leaves, of at least two samples, in the C library. A caller that all samples share is
 * not taken for it. PROFILE_NONE without one.
 */
uint32_t allocator_frame_trampoline(const struct profile *profile);
