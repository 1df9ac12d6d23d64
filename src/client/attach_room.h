/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the control group of a process has room for the agent: its threads, and its memory, for
 * which the kernel would otherwise end a process of the group.
 */
#pragma once

#include <stdbool.h>

#include "client/process.h"

/* ERROR_STATE. `is_forced`: the memory is not checked. */
MUST_CHECK bool attach_room_check(const struct process *process, bool is_forced, struct error *err);
