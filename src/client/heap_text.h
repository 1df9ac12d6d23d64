/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether an agent's answer has the shape of a heap profile, before it is kept for days: another
 * program may listen where an agent would, and send anything. Only lines are looked at, in one pass
 * and without memory; what they mean is for the reader in src/profile.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* ERROR_INPUT, with the line, for what is no profile of jemalloc. */
MUST_CHECK bool heap_text_check(const char *text, size_t size, struct error *err);
