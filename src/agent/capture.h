/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile taken now, in a file that has no name: a memfd, or where that or /proc is missing a
 * file in the agent's private folder whose name is gone before anybody can look.
 */
#pragma once

#include <stdint.h>

#include "agent/descriptor.h"
#include "agent/folder.h"
#include "allocator/allocator.h"

struct captured_profile {
	struct descriptor file; /* read it with pread from offset 0 */
	uint64_t size_bytes;
	uint64_t stack_count;
	int64_t time_ms;     /* when, since 1970 */
	int64_t duration_ms; /* how long jemalloc took */
};

#define CAPTURE_NONE ((struct captured_profile){ .file = DESCRIPTOR_NONE })

/* `folder` may have an empty path when there is none. */
MUST_CHECK bool capture_take(struct allocator *allocator, const struct folder *folder,
	struct captured_profile *capture, struct error *err);

static inline void capture_release(struct captured_profile *capture)
{
	descriptor_close(&capture->file);
}
