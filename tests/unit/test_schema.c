/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/schema.h"

#include <string.h>

#include "base/xalloc.h"
#include "unit.h"

static void has_tables_that_are_made_once(void **state)
{
	(void)state;
	CLEANUP(schema_deinit) struct schema schema = { 0 };
	size_t tables = 0;

	schema_make(&(struct schema_place){ .dialect = SCHEMA_NEW, .database = "heap" }, &schema);
	for (size_t i = 0; i < schema.count; i++)
		tables +=
			strncmp(schema.statements[i].text, "CREATE TABLE IF NOT EXISTS ", 27) == 0;
	assert_int_equal(tables, 6);
	assert_string_equal(schema.statements[0].text, "CREATE DATABASE IF NOT EXISTS heap");
	assert_false(schema.statements[0].has_database);
	assert_true(schema.statements[1].has_database);
}

static void old_servers_get_a_setting_for_low_cardinality(void **state)
{
	(void)state;
	CLEANUP(schema_deinit) struct schema old = { 0 };
	CLEANUP(schema_deinit) struct schema later = { 0 };
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	assert_int_equal(schema_dialect_of(18), SCHEMA_OLD);
	assert_int_equal(schema_dialect_of(24), SCHEMA_NEW);
	schema_make(&(struct schema_place){ .dialect = SCHEMA_OLD, .database = "heap" }, &old);
	schema_make(&(struct schema_place){ .dialect = SCHEMA_NEW, .database = "heap" }, &later);
	schema_print(&later, &text);
	assert_null(strstr(buffer_string(&text), "SET "));
	buffer_clear(&text);
	schema_print(&old, &text);
	const char *const set =
		strstr(buffer_string(&text), "SET allow_experimental_low_cardinality_type=1;\n");
	assert_non_null(set);
	assert_null(strstr(set + 1, "SET "));
}

static void later_servers_remove_old_rows_by_themselves(void **state)
{
	(void)state;
	CLEANUP(schema_deinit) struct schema schema = { 0 };
	const struct schema_place place = { .dialect = SCHEMA_NEW, .database = "heap" };
	struct error err = { 0 };

	assert_true(schema_keep(NULL, &place, &(struct schema_age){ 90, 0 }, &schema, &err));
	assert_int_equal(schema.count, 2);
	assert_string_equal(
		schema.statements[0].text, "ALTER TABLE sample MODIFY TTL ts + INTERVAL 90 DAY");
	assert_true(schema_keep(NULL, &place, &(struct schema_age){ 0, 1100 }, &schema, &err));
	assert_int_equal(schema.count, 4);
	assert_string_equal(schema.statements[2].text,
		"ALTER TABLE growth_day MODIFY TTL day + INTERVAL 1100 DAY");
}

static size_t count_of(const struct schema *schema, const char *text)
{
	size_t count = 0;

	for (size_t i = 0; i < schema->count; i++)
		count += strstr(schema->statements[i].text, text) != NULL;
	return count;
}

static void stacks_of_version_1_are_taken_over_whatever_step_was_last(void **state)
{
	(void)state;
	CLEANUP(schema_deinit) struct schema whole = { 0 };
	CLEANUP(schema_deinit) struct schema rest = { 0 };

	schema_make(
		&(struct schema_place){
			.dialect = SCHEMA_OLD, .database = "heap", .has_unranked_stack = true },
		&whole);
	assert_int_equal(count_of(&whole, "RENAME TABLE stack TO stack_1"), 1);
	assert_int_equal(count_of(&whole, "FROM stack_1"), 1);
	schema_make(
		&(struct schema_place){
			.dialect = SCHEMA_OLD, .database = "heap", .has_earlier_stack = true },
		&rest);
	assert_int_equal(count_of(&rest, "RENAME"), 0);
	assert_int_equal(count_of(&rest, "FROM stack_1"), 1);
	assert_int_equal(count_of(&rest, "DROP TABLE stack_1"), 1);
}

static void tables_of_a_cluster_are_replicated_and_distributed(void **state)
{
	(void)state;
	CLEANUP(schema_deinit) struct schema schema = { 0 };
	const struct schema_place place = {
		.dialect = SCHEMA_NEW, .database = "heap", .cluster = "fleet"
	};
	struct error err = { 0 };

	schema_make(&place, &schema);
	assert_int_equal(count_of(&schema, " ON CLUSTER fleet"), 11);
	assert_int_equal(count_of(&schema, "ENGINE = Distributed(fleet, heap, "), 4);
	assert_int_equal(count_of(&schema, "CREATE TABLE IF NOT EXISTS heap.sample_local ON"), 1);
	assert_int_equal(
		count_of(&schema, "ENGINE = ReplicatedReplacingMergeTree("
				  "'/clickhouse/tables/{shard}/heap/sample', '{replica}')"),
		1);
	assert_int_equal(count_of(&schema, "ENGINE = ReplicatedReplacingMergeTree("
					   "'/clickhouse/tables/heap/stack', '{shard}-{replica}', "
					   "rank)"),
		1);
	assert_true(schema_keep(NULL, &place, &(struct schema_age){ 90, 0 }, &schema, &err));
	assert_int_equal(count_of(&schema, "ALTER TABLE heap.sample_local ON CLUSTER fleet MODIFY "
					   "TTL ts + INTERVAL 90 DAY"),
		1);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(has_tables_that_are_made_once),
	cmocka_unit_test(old_servers_get_a_setting_for_low_cardinality),
	cmocka_unit_test(later_servers_remove_old_rows_by_themselves),
	cmocka_unit_test(tables_of_a_cluster_are_replicated_and_distributed),
	cmocka_unit_test(stacks_of_version_1_are_taken_over_whatever_step_was_last),
};

UNIT_MAIN(tests)
