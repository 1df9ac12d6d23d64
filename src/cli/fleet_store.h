/* SPDX-License-Identifier: Apache-2.0 */
/* The database of a fleet, and other destinations, as the options of `heapctl send` and `heapctl
 * fleet` name it. */
#pragma once

#include "fleet/clickhouse.h"
#include "fleet/destination.h"

struct fleet_store_options {
	const char *url;
	const char *password_file; /* NULL: no password */
};

/* Trusts the authorities of HEAPCTL_CACERT as other verbs do. Does not connect. Warns of a password
 * that crosses a network unencrypted. */
MUST_CHECK bool fleet_store_open(const struct fleet_store_options *options,
	struct clickhouse **clickhouse, struct error *err);

/* The same for what `heapctl send` sends to; url, password and authorities of `wanted` are set. */
MUST_CHECK bool fleet_destination_open(const struct fleet_store_options *options,
	struct destination_options wanted, struct destination **destination, struct error *err);
