/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapctl record TARGET:*: a recording of each process, also of those that begin meanwhile. The
 * others, and those that end before the recording, are named.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"
#include "cli/timed_recording.h"

/* False where no process has a profile. */
MUST_CHECK bool record_tree(const struct record_request *request, struct error *err);
