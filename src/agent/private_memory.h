/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's memory: whole pages, which a forked child does not inherit (MADV_DONTFORK).
 *
 * A child begins with an agent of its own, so nothing half-changed and nothing secret is carried
 * over, and fork has less to copy. Pointers into this memory must not be followed in a child.
 */
#pragma once

#include "base/memory.h"

extern const struct memory memory_private;
