/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/fleet_session.h"

#include <stdio.h>

#include "base/xalloc.h"
#include "fleet/schema.h"

static bool print_or_apply(
	const struct fleet_options *options, struct clickhouse *clickhouse, struct error *err)
{
	CLEANUP(schema_deinit) struct schema schema = { 0 };
	CLEANUP(schema_deinit) struct schema keep = { 0 };
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	unsigned version = 0;

	if (!clickhouse_version(clickhouse, &version, err))
		return false;
	const enum schema_dialect dialect = schema_dialect_of(version);
	schema_make(dialect, clickhouse_database(clickhouse), &schema);
	if (options->applies && !schema_apply(clickhouse, &schema, err))
		return false;
	if (options->keep_days != 0 &&
		!schema_keep(clickhouse, dialect, options->keep_days, &keep, err))
		return false;
	if (options->applies) {
		if (!schema_apply(clickhouse, &keep, err))
			return false;
		printf("%s: tables of version %d\n", clickhouse_name(clickhouse),
			FLEET_SCHEMA_VERSION);
		return true;
	}
	schema_print(&schema, &text);
	schema_print(&keep, &text);
	fputs(buffer_string(&text), stdout);
	return true;
}

bool fleet_session_run(const struct fleet_options *options, struct error *err)
{
	CLEANUP(clickhouse_cleanup) struct clickhouse *clickhouse = NULL;

	return fleet_store_open(&options->store, &clickhouse, err) &&
	       print_or_apply(options, clickhouse, err);
}
