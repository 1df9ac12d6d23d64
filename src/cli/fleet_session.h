/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl fleet: asks the database of a fleet and prints what it answers. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/fleet_store.h"

enum fleet_action {
	FLEET_SCHEMA,
};

struct fleet_options {
	struct fleet_store_options store;
	enum fleet_action action;
	int64_t keep_days; /* 0: for ever */
	bool applies;
};

MUST_CHECK bool fleet_session_run(const struct fleet_options *options, struct error *err);
