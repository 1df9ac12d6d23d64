/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables of a fleet in ClickHouse.
 *
 *	sample		a row for each stack of each snapshot: samples as they were taken; estimates
 *			and their variances are computed when they are read
 *	stack		what a stack is: its site, its functions, and build-ids with offsets. Of
 *			several rows that with the highest rank counts: the fewest functions without
 *			a name, then the most functions, then an arbitrary order that is always the
 *			same. So names can be added later, and it does not matter who sent first
 *	profile		a row for each snapshot, written after all others of it: the snapshot counts
 *			from then on
 *	process_day	sums of each whole day, for growth over months (fleet/growth_days.h)
 *	growth_day
 *	heapctl_schema	the version of all this
 *
 * A key is (service, host, pid, started, snapshot). Rows of equal keys are equal and are merged by
 * the server, so what is sent twice is there once in the end.
 *
 * On a cluster each shard has some of the hosts, in replicated tables NAME_local, over which the
 * tables above are Distributed. `stack` and `heapctl_schema` are whole on each server, so that it
 * can join them itself.
 *
 * ClickHouse 18.16 and 24 differ in what is said here and in nothing else: LowCardinality is behind
 * a setting in the old one, and it has no TTL, so that old partitions are dropped instead.
 */
#pragma once

#include <stdint.h>

#include "fleet/clickhouse.h"

enum { FLEET_SCHEMA_VERSION = 2 };

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
	bool is_for_all;   /* servers of the cluster, each of which answers */
};

struct schema {
	struct schema_statement *statements;
	size_t count, capacity;
};

/* Where the tables are to be, and what is there. */
struct schema_place {
	enum schema_dialect dialect;
	const char *database;
	const char *cluster;		  /* NULL: one server */
	bool has_samples, is_distributed; /* the table `sample` */
	bool has_unranked_stack;	  /* of version 1 */
	bool has_earlier_stack;		  /* renamed, and not copied yet */
};

/*
 * Reads what is there: the database may not be. `cluster` NULL: for one server. ERROR_STATE when
 * the tables of a cluster are there and none was named, or the other way round.
 */
MUST_CHECK bool schema_find_place(struct clickhouse *clickhouse, const char *cluster,
	struct schema_place *place, struct error *err);

/* What makes all tables that are not there yet, and takes over those of earlier versions. */
void schema_make(const struct schema_place *place, struct schema *schema);
void schema_deinit(struct schema *schema);

/* How long rows are kept; 0: for ever. */
struct schema_age {
	int64_t snapshot_days;
	int64_t growth_days; /* the sums of days */
};

/*
 * What limits the age of rows: a TTL, or of an old server the removal of each partition that is
 * older now. Reads the server's list of partitions, and fails only when that cannot be read.
 */
MUST_CHECK bool schema_keep(struct clickhouse *clickhouse, const struct schema_place *place,
	const struct schema_age *age, struct schema *schema, struct error *err);

/* For clickhouse-client --multiquery. */
void schema_print(const struct schema *schema, struct buffer *out);

/*
 * Runs them. ERROR_UNSUPPORTED when the tables are those of a later heapctl.
 */
MUST_CHECK bool schema_apply(
	struct clickhouse *clickhouse, const struct schema *schema, struct error *err);

/*
 * Whether the tables are there and are of this version. ERROR_NOT_FOUND, ERROR_UNSUPPORTED. Sets
 * when they were made, in seconds since 1970; NULL: not asked for.
 */
MUST_CHECK bool schema_check(struct clickhouse *clickhouse, int64_t *made_s, struct error *err);
