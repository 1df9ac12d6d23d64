/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether there is room for the agent: in the control group of a process for its threads, and for
 * its memory, for which the kernel would otherwise end a process of the group; and for its mappings
 * in the process, whose own would otherwise fail.
 */
#pragma once

#include <stdbool.h>

#include "client/process.h"

/* ERROR_STATE. `is_forced`: memory and mappings are not checked. */
MUST_CHECK bool attach_room_check(const struct process *process, bool is_forced, struct error *err);
