/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A heap_v2 profile like that of a large server, of any number of stacks: a call graph of some
 * ten thousand call sites in a dozen modules, stacks of 12 to 40 frames that are walks through it,
 * one to three threads for each. The same number of stacks gives the same text.
 */
#pragma once

#include <stddef.h>

#include "base/buffer.h"

void synthetic_profile_write(struct buffer *out, size_t stack_count);

/* The part before it that makes it a symbolized profile: a name for each of its addresses. */
void synthetic_profile_write_names(struct buffer *out);
