/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl send: finds the profiles of operands, resolves their symbols and sends them. */
#pragma once

#include "cli/fleet_store.h"
#include "fleet/identity.h"

struct send_options {
	struct fleet_store_options store;
	struct fleet_identity identity; /* what options say */
	const char *lib_prefixes;
	bool no_cache;
	int64_t retry_ms;
	char *const *operands;
	size_t operand_count;
};

/* Prints how many snapshots were sent. */
MUST_CHECK bool send_session_run(const struct send_options *options, struct error *err);
