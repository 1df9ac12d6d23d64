/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/schema.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

#define PROCESS_COLUMNS                                                         \
	"    service LowCardinality(String), version LowCardinality(String),\n" \
	"    host LowCardinality(String), pid UInt32, started DateTime,"

#define KEY_COLUMNS PROCESS_COLUMNS " ts DateTime,\n    snapshot UInt64,\n"

/* The probability that an object of the mean size is sampled; formulas in analysis/unsample.h. */
#define NOT_SAMPLED "exp(-sampled_bytes / samples / sampling_interval)"

/* As fleet/rows.c writes what has no name. */
#define UNNAMED_FRAMES                                                                      \
	"arrayCount(f -> f = '[anonymous]' OR match(f, '.[+]0x[0-9a-f]+$'), arrayMap(f -> " \
	"toString(f), frames))"

struct fleet_table {
	const char *name, *columns, *engine, *version_column, *order;
	const char *age; /* the column that says how old a row is; NULL: rows stay */
	bool is_growth;
	bool is_whole; /* on each server of a cluster */
};

static const struct fleet_table tables[] = {
	{
		.name = "sample",
		.columns = KEY_COLUMNS
		"    stack UInt64, samples Float32, sampled_bytes Float64, sampling_interval "
		"UInt64,\n"
		"    inuse_objects Float64 ALIAS samples / (1 - " NOT_SAMPLED "),\n"
		"    inuse_bytes Float64 ALIAS sampled_bytes / (1 - " NOT_SAMPLED "),\n"
		"    inuse_variance Float64 ALIAS samples * pow(sampled_bytes / samples, 2) *\n"
		"        " NOT_SAMPLED " / pow(1 - " NOT_SAMPLED ", 2)\n",
		.engine = "ReplacingMergeTree",
		.version_column = "",
		.order = "PARTITION BY toMonday(ts)\n"
			 "ORDER BY (service, host, pid, started, snapshot, stack)",
		.age = "ts",
	},
	{
		.name = "stack",
		.columns = "    stack UInt64, site UInt64, frames Array(LowCardinality(String)),\n"
			   "    build_ids Array(LowCardinality(String)), offsets Array(UInt64),\n"
			   "    rank UInt64 DEFAULT bitShiftLeft(toUInt64(65535 - "
			   "least(" UNNAMED_FRAMES ", "
			   "65535)), 48) +\n"
			   "        bitShiftLeft(toUInt64(least(length(frames), 65535)), 32) + "
			   "bitShiftRight(site, 32)\n",
		.engine = "ReplacingMergeTree",
		.version_column = "rank",
		.order = "ORDER BY stack",
		.is_whole = true,
	},
	{
		.name = "profile",
		.columns = KEY_COLUMNS
		"    stacks UInt32, inuse_bytes Float64, inuse_variance Float64,\n"
		"    sampling_interval UInt64, allocated UInt64, active UInt64, metadata UInt64,\n"
		"    resident UInt64, mapped UInt64, retained UInt64, rss UInt64, reason String,\n"
		"    label_names Array(String), label_values Array(String)\n",
		.engine = "ReplacingMergeTree",
		.version_column = "",
		.order = "PARTITION BY toMonday(ts)\n"
			 "ORDER BY (service, host, pid, started, snapshot)",
		.age = "ts",
	},
	{
		.name = "growth_day",
		.columns = PROCESS_COLUMNS
		" day Date,\n"
		"    stack UInt64, snapshots UInt32, bytes Float64, bytes_hours Float64\n",
		.engine = "ReplacingMergeTree",
		.version_column = "snapshots",
		.order = "PARTITION BY toMonday(day)\n"
			 "ORDER BY (service, host, pid, started, stack, day)",
		.age = "day",
		.is_growth = true,
	},
	{
		.name = "process_day",
		.columns = PROCESS_COLUMNS
		" day Date,\n"
		"    snapshots UInt32, hours Float64, hours_squared Float64,\n"
		"    label_names Array(String), label_values Array(String)\n",
		.engine = "ReplacingMergeTree",
		.version_column = "snapshots",
		.order = "PARTITION BY toMonday(day)\n"
			 "ORDER BY (service, host, pid, started, day)",
		.age = "day",
		.is_growth = true,
	},
	{
		.name = "heapctl_schema",
		.columns = "    version UInt32, applied DateTime\n",
		.engine = "MergeTree",
		.version_column = "",
		.order = "ORDER BY version",
		.is_whole = true,
	},
};

enum { TABLES = sizeof tables / sizeof tables[0] };

enum schema_dialect schema_dialect_of(unsigned server_version)
{
	return server_version < 20 ? SCHEMA_OLD : SCHEMA_NEW;
}

static void add_statement(
	struct schema *schema, char *text, const char *parameters, bool has_database)
{
	*XAPPEND(schema->statements, schema->count, schema->capacity) =
		(struct schema_statement){ text, parameters, has_database, false };
}

/* One that each server of a cluster runs, and answers. */
static void add_for_all(struct schema *schema, char *text)
{
	*XAPPEND(schema->statements, schema->count, schema->capacity) =
		(struct schema_statement){ text, "", false, true };
}

static bool check_place(
	struct clickhouse *clickhouse, const struct schema_place *place, struct error *err)
{
	if (!place->has_samples || place->is_distributed == (place->cluster != NULL))
		return true;
	error_set(err, ERROR_STATE, "%s has the tables of %s", clickhouse_name(clickhouse),
		place->is_distributed ? "a cluster" : "one server");
	return error_hint(err, place->is_distributed ? "name the cluster with --cluster"
						     : "name another database for the cluster");
}

bool schema_find_place(struct clickhouse *clickhouse, const char *cluster,
	struct schema_place *place, struct error *err)
{
	CLEANUP(clickhouse_rows_cleanup) json_t *rows = NULL;
	const char *const database = clickhouse_database(clickhouse);
	unsigned version = 0;
	CLEANUP(free_cleanup)
	char *query = xasprintf("SELECT has(groupArray(name), 'stack'), has(groupArray(name), "
				"'stack_1'), (SELECT count() FROM system.columns WHERE database = "
				"'%s' AND table = 'stack' AND name = 'rank'), "
				"has(groupArray(name), 'sample'), "
				"has(groupArray(concat(name, engine)), 'sampleDistributed') "
				"FROM system.tables WHERE database = '%s'",
		database, database);

	if (!clickhouse_version(clickhouse, &version, err) ||
		!clickhouse_select_system(clickhouse, query, "uuuuu", &rows, err))
		return false;
	*place = (struct schema_place){
		.dialect = schema_dialect_of(version),
		.database = database,
		.cluster = cluster,
	};
	if (json_array_size(rows) == 1) {
		const json_t *const row = json_array_get(rows, 0);
		place->has_unranked_stack =
			clickhouse_unsigned(row, 0) != 0 && clickhouse_unsigned(row, 2) == 0;
		place->has_earlier_stack = clickhouse_unsigned(row, 1) != 0;
		place->has_samples = clickhouse_unsigned(row, 3) != 0;
		place->is_distributed = clickhouse_unsigned(row, 4) != 0;
	}
	return check_place(clickhouse, place, err);
}

static void make_table(const struct schema_place *place, const struct fleet_table *table,
	const char *name, struct schema *schema)
{
	add_statement(schema,
		xasprintf("CREATE TABLE IF NOT EXISTS %s (\n%s) ENGINE = %s(%s) %s", name,
			table->columns, table->engine, table->version_column, table->order),
		place->dialect == SCHEMA_OLD ? "&allow_experimental_low_cardinality_type=1" : "",
		true);
}

/* Replicas of a shard have one path, those of a table that is whole everywhere as well. */
static void make_cluster_table(
	const struct schema_place *place, const struct fleet_table *table, struct schema *schema)
{
	const char *const suffix = table->is_whole ? "" : "_local";

	add_for_all(schema,
		xasprintf("CREATE TABLE IF NOT EXISTS %s.%s%s ON CLUSTER %s (\n%s) "
			  "ENGINE = Replicated%s('/clickhouse/tables/%s%s/%s', '%s'%s%s) %s",
			place->database, table->name, suffix, place->cluster, table->columns,
			table->engine, table->is_whole ? "" : "{shard}/", place->database,
			table->name, table->is_whole ? "{shard}-{replica}" : "{replica}",
			table->version_column[0] == '\0' ? "" : ", ", table->version_column,
			table->order));
	if (!table->is_whole)
		add_for_all(schema,
			xasprintf("CREATE TABLE IF NOT EXISTS %s.%s ON CLUSTER %s AS %s.%s%s "
				  "ENGINE = Distributed(%s, %s, %s%s, cityHash64(service, host))",
				place->database, table->name, place->cluster, place->database,
				table->name, suffix, place->cluster, place->database, table->name,
				suffix));
}

/*
 * Version 1 had no rank, which a table cannot get later. Rows that are inserted meanwhile are in
 * one of both tables, and each step can be done again.
 */
static void take_over_stack(const struct schema_place *place, struct schema *schema)
{
#define STACK_COLUMNS "stack, site, frames, build_ids, offsets"
	if (place->has_unranked_stack) {
		for (size_t i = 0; i < TABLES; i++)
			if (strcmp(tables[i].name, "stack") == 0)
				make_table(place, &tables[i], "stack_2", schema);
		add_statement(schema, xstrdup("RENAME TABLE stack TO stack_1, stack_2 TO stack"),
			"", true);
	}
	if (place->has_unranked_stack || place->has_earlier_stack) {
		add_statement(schema,
			xstrdup("INSERT INTO stack (" STACK_COLUMNS ") SELECT " STACK_COLUMNS
				" FROM stack_1"),
			"", true);
		add_statement(schema, xstrdup("DROP TABLE stack_1"), "", true);
	}
}

static void make_database(const struct schema_place *place, struct schema *schema)
{
	if (place->cluster != NULL)
		add_for_all(schema, xasprintf("CREATE DATABASE IF NOT EXISTS %s ON CLUSTER %s",
					    place->database, place->cluster));
	else
		add_statement(schema,
			xasprintf("CREATE DATABASE IF NOT EXISTS %s", place->database), "", false);
}

void schema_make(const struct schema_place *place, struct schema *schema)
{
	make_database(place, schema);
	for (size_t i = 0; i < TABLES; i++) {
		if (place->cluster != NULL)
			make_cluster_table(place, &tables[i], schema);
		else
			make_table(place, &tables[i], tables[i].name, schema);
	}
	take_over_stack(place, schema);
	add_statement(schema,
		xasprintf("INSERT INTO heapctl_schema SELECT toUInt32(%d), now() FROM system.one "
			  "WHERE toUInt32(%d) NOT IN (SELECT version FROM heapctl_schema)",
			FLEET_SCHEMA_VERSION, FLEET_SCHEMA_VERSION),
		"", true);
}

void schema_deinit(struct schema *schema)
{
	for (size_t i = 0; i < schema->count; i++)
		free(schema->statements[i].text);
	free(schema->statements);
	*schema = (struct schema){ 0 };
}

/* The server calls a partition by its Monday; nothing else may get into a statement. */
static bool is_partition(const char *text)
{
	return strlen(text) == 8 && strspn(text, "0123456789") == 8;
}

static void alter(const struct schema_place *place, const struct fleet_table *table,
	const char *change, struct schema *schema)
{
	if (place->cluster != NULL)
		add_for_all(schema, xasprintf("ALTER TABLE %s.%s_local ON CLUSTER %s %s",
					    place->database, table->name, place->cluster, change));
	else
		add_statement(
			schema, xasprintf("ALTER TABLE %s %s", table->name, change), "", true);
}

/* By their ids: 18.16 does not take the day of the first one, which begins before 1970. */
static bool drop_partitions(struct clickhouse *clickhouse, const struct schema_place *place,
	const struct fleet_table *table, int64_t keep_days, struct schema *schema,
	struct error *err)
{
	CLEANUP(clickhouse_rows_cleanup) json_t *rows = NULL;
	CLEANUP(free_cleanup)
	char *parts = place->cluster == NULL
			      ? xstrdup("system.parts")
			      : xasprintf("cluster('%s', system, parts)", place->cluster);
	CLEANUP(free_cleanup)
	char *query =
		xasprintf("SELECT DISTINCT partition_id FROM %s "
			  "WHERE active AND database = '%s' AND table = '%s%s' AND partition_id < "
			  "toString(toYYYYMMDD(toMonday(toDate(now() - %" PRId64 ")))) "
			  "ORDER BY partition_id",
			parts, place->database, table->name, place->cluster == NULL ? "" : "_local",
			keep_days * 86400);
	size_t index;
	json_t *row;

	if (!clickhouse_select(clickhouse, query, "s", &rows, err))
		return false;
	json_array_foreach(rows, index, row)
	{
		const char *const id = clickhouse_text(row, 0);
		if (!is_partition(id))
			return error_set(err, ERROR_INPUT, "%s: the partition \"%.40s\" is no day",
				clickhouse_name(clickhouse), id);
		CLEANUP(free_cleanup) char *change = xasprintf("DROP PARTITION ID '%s'", id);
		alter(place, table, change, schema);
	}
	return true;
}

static bool keep_table(struct clickhouse *clickhouse, const struct schema_place *place,
	const struct fleet_table *table, int64_t days, struct schema *schema, struct error *err)
{
	if (place->dialect == SCHEMA_OLD)
		return drop_partitions(clickhouse, place, table, days, schema, err);
	CLEANUP(free_cleanup)
	char *change = xasprintf("MODIFY TTL %s + INTERVAL %" PRId64 " DAY", table->age, days);
	alter(place, table, change, schema);
	return true;
}

bool schema_keep(struct clickhouse *clickhouse, const struct schema_place *place,
	const struct schema_age *age, struct schema *schema, struct error *err)
{
	for (size_t i = 0; i < TABLES; i++) {
		const struct fleet_table *const table = &tables[i];
		const int64_t days = table->age == NULL ? 0
				     : table->is_growth ? age->growth_days
							: age->snapshot_days;
		if (days != 0 && !keep_table(clickhouse, place, table, days, schema, err))
			return false;
	}
	return true;
}

void schema_print(const struct schema *schema, struct buffer *out)
{
	const char *set = "";

	for (size_t i = 0; i < schema->count; i++) {
		const struct schema_statement *const statement = &schema->statements[i];
		if (statement->parameters[0] != '\0' && strcmp(set, statement->parameters) != 0)
			buffer_printf(out, "SET %s;\n", statement->parameters + 1);
		if (statement->parameters[0] != '\0')
			set = statement->parameters;
		buffer_printf(out, "%s;\n", statement->text);
	}
}

static bool read_version(
	struct clickhouse *clickhouse, uint64_t *version, int64_t *made_s, struct error *err)
{
	CLEANUP(clickhouse_rows_cleanup) json_t *rows = NULL;

	if (!clickhouse_select(clickhouse,
		    "SELECT max(version), toUInt32(min(applied)) FROM heapctl_schema", "uu", &rows,
		    err))
		return false;
	const bool has_row = json_array_size(rows) == 1;
	*version = has_row ? clickhouse_unsigned(json_array_get(rows, 0), 0) : 0;
	*made_s = has_row ? (int64_t)clickhouse_unsigned(json_array_get(rows, 0), 1) : 0;
	return true;
}

static bool refuse_later(struct clickhouse *clickhouse, uint64_t version, struct error *err)
{
	error_set(err, ERROR_UNSUPPORTED,
		"%s has tables of version %" PRIu64 ", heapctl %s knows %d",
		clickhouse_name(clickhouse), version, HEAPCTL_VERSION, FLEET_SCHEMA_VERSION);
	return error_hint(err, "use the heapctl that made them");
}

bool schema_check(struct clickhouse *clickhouse, int64_t *made_s, struct error *err)
{
	uint64_t version;
	int64_t applied_s;

	if (!read_version(clickhouse, &version, &applied_s, err))
		return false;
	if (made_s != NULL)
		*made_s = applied_s;
	if (version > FLEET_SCHEMA_VERSION)
		return refuse_later(clickhouse, version, err);
	if (version != 0 && version < FLEET_SCHEMA_VERSION) {
		error_set(err, ERROR_UNSUPPORTED,
			"%s has tables of version %" PRIu64 ", heapctl %s needs version %d",
			clickhouse_name(clickhouse), version, HEAPCTL_VERSION,
			FLEET_SCHEMA_VERSION);
		return error_hint(err, "heapctl fleet schema --apply takes them over");
	}
	if (version == 0) {
		error_set(err, ERROR_NOT_FOUND, "%s has no tables of heapctl",
			clickhouse_name(clickhouse));
		return error_hint(err, "heapctl fleet schema --apply makes them");
	}
	return true;
}

/* Servers of a cluster run a statement with the settings of their own. */
static bool run(
	struct clickhouse *clickhouse, const struct schema_statement *statement, struct error *err)
{
	if (!statement->is_for_all)
		return clickhouse_run(clickhouse, statement->text, statement->parameters,
			statement->has_database, err);
	if (clickhouse_run_for_all(clickhouse, statement->text, err))
		return true;
	if (strstr(err->message, "LowCardinality") != NULL)
		error_hint(err, "set allow_experimental_low_cardinality_type to 1 in the profile "
				"default of each server");
	else if (strstr(err->message, "user default") != NULL)
		error_hint(err, "servers of this version ask each other as the user default "
				"without a password: let that user in from their addresses");
	return false;
}

bool schema_apply(struct clickhouse *clickhouse, const struct schema *schema, struct error *err)
{
	struct error unread = { 0 };
	uint64_t version = 0;
	int64_t ignored;

	/* Where there is no table yet, this fails. */
	if (read_version(clickhouse, &version, &ignored, &unread) && version > FLEET_SCHEMA_VERSION)
		return refuse_later(clickhouse, version, err);
	for (size_t i = 0; i < schema->count; i++)
		if (!run(clickhouse, &schema->statements[i], err))
			return false;
	return true;
}
