/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocator_find for programs that test the agent without jemalloc, as under sanitizers, which
 * bring an allocator of their own: it finds the fake.
 */
#pragma once

#include "allocator_fake.h"

/* The fake allocator that allocator_find returned. */
struct allocator_fake *allocator_stub(void);
