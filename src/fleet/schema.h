/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a fleet in ClickHouse.
 *
 *	sample		a row for each stack of each snapshot: samples as they were taken; estimates
 *			and their variances are computed when they are read
 *	stack		what a stack is: its site, its functions, and build-ids with offsets
 *	profile		a row for each snapshot, written after all others of it: the snapshot counts
 *			from then on
 *	heapctl_schema	the version of all this
 *
 * A key is (service, host, pid, started, snapshot). Rows of equal keys are equal and are merged by
 * the server, so what is sent twice is there once in the end.
 *
 * ClickHouse 18.16 and 24 differ in what is said here and in nothing else: LowCardinality is behind
 * a setting in the old one, and it has no TTL, so that old partitions are dropped instead.
 */
#pragma once

#include <stdint.h>

#include "fleet/clickhouse.h"

enum { FLEET_SCHEMA_VERSION = 1 };

/* The server's version, as far as it matters. */
enum schema_dialect {
	SCHEMA_OLD, /* before 20 */
	SCHEMA_NEW,
};

enum schema_dialect schema_dialect_of(unsigned server_version);

/* Statements, each with its parameters for clickhouse_run. */
struct schema_statement {
	char *text;
	const char *parameters;
	bool has_database; /* it is for the URL's database, which may have to be made first */
};

struct schema {
	struct schema_statement *statements;
	size_t count, capacity;
};

/* What makes all tables that are not there yet. */
void schema_make(enum schema_dialect dialect, const char *database, struct schema *schema);
void schema_deinit(struct schema *schema);

/*
 * What limits the age of rows: a TTL, or of an old server the removal of each partition that is
 * older now. Reads the server's list of partitions, and fails only when that cannot be read.
 */
MUST_CHECK bool schema_keep(struct clickhouse *clickhouse, enum schema_dialect dialect,
	int64_t keep_days, struct schema *schema, struct error *err);

/* For clickhouse-client --multiquery. */
void schema_print(const struct schema *schema, struct buffer *out);

/*
 * Runs them. ERROR_UNSUPPORTED when the tables are those of a later heapctl.
 */
MUST_CHECK bool schema_apply(
	struct clickhouse *clickhouse, const struct schema *schema, struct error *err);

/*
 * Whether the tables are there and are ours. ERROR_NOT_FOUND, ERROR_UNSUPPORTED. Sets when they
 * were made, in seconds since 1970; NULL: not asked for.
 */
MUST_CHECK bool schema_check(struct clickhouse *clickhouse, int64_t *made_s, struct error *err);
