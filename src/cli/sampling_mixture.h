/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How profiles that are added up were sampled: the processes of a server may have different
 * allocators, or have been started differently.
 */
#pragma once

#include <stddef.h>

#include "base/buffer.h"
#include "profile/profile.h"

/*
 * Appends "; a sample every 512 KiB", or "; a sample every 4 KiB to 64 KiB"; nothing where no
 * profile says it.
 */
void sampling_intervals_append(struct profile *const *profiles, size_t count, struct buffer *text);

/* Says on stderr which differ in sampler or interval. */
void sampling_mixture_warn(struct profile *const *profiles, size_t count);
