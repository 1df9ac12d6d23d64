/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl fleet: asks the database of a fleet and prints what it answers. */
#pragma once

#include "cli/fleet_options.h"
#include "cli/verb.h"

/* The verb: prints what failed, and returns the exit code. `err` is what failed, where it is known.
 */
int fleet_command_run(const struct verb *verb, int argc, char **argv, struct error *err);

MUST_CHECK bool fleet_session_run(const struct fleet_options *options, struct error *err);
