/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl fleet: asks the database of a fleet and prints what it answers. */
#pragma once

#include "cli/fleet_options.h"

MUST_CHECK bool fleet_session_run(const struct fleet_options *options, struct error *err);
