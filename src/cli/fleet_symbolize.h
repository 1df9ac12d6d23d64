/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl fleet symbolize: completes stacks that were sent without all of their names. */
#pragma once

#include "cli/fleet_options.h"
#include "fleet/clickhouse.h"

MUST_CHECK bool fleet_symbolize(const struct fleet_options *options, struct clickhouse *clickhouse,
	struct buffer *out, struct error *err);
