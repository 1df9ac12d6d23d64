/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which frames belong to the measuring and not to the program: the allocator's own functions at
 * the leaf of every stack of a heap profile. Everything from the leaf up to the outermost such
 * frame is cut off, so that a stack ends with the caller that asked for the memory. In a CPU
 * profile the leaf is where the program was interrupted; what is cut out are the frames of the
 * signal's handler that follow it. The lists are data; names are as function_name_append_bare makes
 * them.
 */
#pragma once

#include <stdbool.h>

#include "profile/profile.h"

/* Whether the function, by its name without arguments, is one to cut off. */
bool allocator_frame_has_name(enum profile_kind kind, const char *bare_name);

/* Whether the file is an allocator's library, so that it is known even without symbols. */
bool allocator_frame_has_module(enum profile_kind kind, const char *path);

/*
 * The location that a signal's way back has left in every stack of a CPU profile, where no name
 * tells it: behind all leaves, of at least two samples, nameless, and in the C library. A caller
 * that all samples have in common is none. PROFILE_NONE without one.
 */
uint32_t allocator_frame_trampoline(const struct profile *profile);
