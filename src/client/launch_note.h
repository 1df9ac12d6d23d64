/* SPDX-License-Identifier: Apache-2.0 */
/* Notes of a launch plan, for those who make it. */
#pragma once

#include "client/launch.h"

/* Adds a note; one that finds no room is dropped. */
void launch_note(struct launch_plan *plan, const char *format, ...) PRINTF_FORMAT(2, 3);
