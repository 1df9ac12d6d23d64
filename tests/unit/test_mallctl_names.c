/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator/mallctl_names.h"

#include <string.h>

#include "unit.h"

static void knows_the_types_of_plain_names(void **state)
{
	(void)state;
	assert_int_equal(mallctl_name_type("prof.active"), MALLCTL_BOOL);
	assert_int_equal(mallctl_name_type("prof.reset"), MALLCTL_SIZE);
	assert_int_equal(mallctl_name_type("epoch"), MALLCTL_U64);
	assert_int_equal(mallctl_name_type("arenas.narenas"), MALLCTL_U32);
	assert_int_equal(mallctl_name_type("opt.lg_prof_interval"), MALLCTL_SSIZE);
	assert_int_equal(mallctl_name_type("version"), MALLCTL_STRING);
	assert_int_equal(mallctl_name_type("thread.idle"), MALLCTL_UNIT);
}

static void knows_the_types_of_numbered_names(void **state)
{
	(void)state;
	assert_int_equal(mallctl_name_type("arena.0.purge"), MALLCTL_UNIT);
	assert_int_equal(mallctl_name_type("arena.4096.dirty_decay_ms"), MALLCTL_SSIZE);
	assert_int_equal(mallctl_name_type("stats.arenas.12.bins.3.nmalloc"), MALLCTL_U64);
	assert_int_equal(mallctl_name_type("stats.arenas.12.bins.3.curregs"), MALLCTL_SIZE);
	assert_int_equal(mallctl_name_type("stats.mutexes.prof.num_ops"), MALLCTL_U64);
	assert_int_equal(mallctl_name_type("stats.mutexes.prof.max_num_thds"), MALLCTL_U32);
}

static void config_is_bool_but_for_its_text(void **state)
{
	(void)state;
	assert_int_equal(mallctl_name_type("config.prof"), MALLCTL_BOOL);
	assert_int_equal(mallctl_name_type("config.malloc_conf"), MALLCTL_STRING);
}

static void guesses_nothing(void **state)
{
	(void)state;
	static const char *const names[] = { "", ".", "prof", "prof.active2", "arena..purge",
		"arena.x.purge", "arena.0", "stats.arenas.1.bins.2", "config.", "config.a.b" };

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
		assert_int_equal(mallctl_name_type(names[i]), MALLCTL_UNKNOWN);
}

static void refuses_to_read_what_crashes(void **state)
{
	(void)state;
	static const char *const names[] = { "arenas.lookup", "experimental.hooks.install",
		"experimental.hooks.prof_backtrace", "arena.3.extent_hooks", "arenas.create",
		"experimental.prof_recent.alloc_dump", "thread.allocatedp" };
	struct error err;

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		assert_false(mallctl_check_read(names[i], &err));
		assert_int_equal(err.kind, ERROR_DENIED);
		assert_contains(err.message, names[i]);
	}
	assert_true(mallctl_check_read("experimental.prof_recent.alloc_max", &err));
}

static void never_frees_the_memory_of_others(void **state)
{
	(void)state;
	struct error err;

	assert_false(mallctl_check_write("arena.0.reset", true, &err));
	assert_false(mallctl_check_write("arena.4096.destroy", true, &err));
	assert_false(mallctl_check_write("tcache.destroy", true, &err));
	assert_true(mallctl_check_write("arena.0.purge", false, &err));
}

static void wants_intent_for_what_writes_files(void **state)
{
	(void)state;
	struct error err;

	assert_false(mallctl_check_write("prof.dump", false, &err));
	assert_contains(err.hint, "force");
	assert_true(mallctl_check_write("prof.dump", true, &err));
	assert_false(mallctl_check_write("prof.reset", false, &err));
	assert_true(mallctl_check_write("prof.active", false, &err));
}

static void refuses_what_is_no_name(void **state)
{
	(void)state;
	char wide[200];
	struct error err;

	memset(wide, 'a', sizeof wide - 1);
	wide[sizeof wide - 1] = '\0';
	static const char *const names[] = { "", "a b", "Prof.active", ".prof", "prof.", "a\n" };
	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		assert_false(mallctl_check_read(names[i], &err));
		assert_int_equal(err.kind, ERROR_USAGE);
	}
	assert_false(mallctl_check_read(wide, &err));
}

static void parses_what_operators_type(void **state)
{
	(void)state;
	struct mallctl_value value;
	struct error err;

	assert_true(mallctl_value_parse(MALLCTL_BOOL, "true", &value, &err));
	assert_int_equal(value.number, 1);
	assert_true(mallctl_value_parse(MALLCTL_SSIZE, "-1", &value, &err));
	assert_int_equal((int64_t)value.number, -1);
	assert_true(mallctl_value_parse(MALLCTL_SIZE, "0x10", &value, &err));
	assert_int_equal(value.number, 16);
	assert_true(mallctl_value_parse(MALLCTL_STRING, "", &value, &err));
	assert_true(mallctl_value_parse(MALLCTL_UNIT, "", &value, &err));
}

static void refuses_values_of_another_type(void **state)
{
	(void)state;
	static const struct {
		enum mallctl_type type;
		const char *text;
	} cases[] = {
		{ MALLCTL_BOOL, "yes" },
		{ MALLCTL_BOOL, "2" },
		{ MALLCTL_BOOL, "" },
		{ MALLCTL_U32, "4294967296" },
		{ MALLCTL_U32, "-1" },
		{ MALLCTL_U64, "" },
		{ MALLCTL_U64, " 1" },
		{ MALLCTL_SIZE, "1x" },
		{ MALLCTL_SSIZE, "-" },
		{ MALLCTL_SSIZE, "99999999999999999999" },
		{ MALLCTL_UNIT, "1" },
		{ MALLCTL_UNKNOWN, "1" },
	};
	struct mallctl_value value = { .number = 77 };
	struct error err;

	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_false(mallctl_value_parse(cases[i].type, cases[i].text, &value, &err));
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_int_equal(value.number, 77);
	}
}

static void type_words_go_both_ways(void **state)
{
	(void)state;
	for (unsigned i = MALLCTL_BOOL; i <= MALLCTL_UNIT; i++) {
		const enum mallctl_type type = (enum mallctl_type)i;
		assert_int_equal(mallctl_type_parse(mallctl_type_name(type)), type);
	}
	assert_int_equal(mallctl_type_parse("unknown"), MALLCTL_UNKNOWN);
	assert_int_equal(mallctl_type_parse("int"), MALLCTL_UNKNOWN);
}

static void values_become_json(void **state)
{
	(void)state;
	static struct mallctl_value value;
	struct buffer out;
	struct json_writer json;

	buffer_init(&out, &memory_heap);
	json_init(&json, &out);
	json_array_begin(&json);
	value = (struct mallctl_value){ .type = MALLCTL_BOOL, .number = 1 };
	mallctl_value_json(&json, &value);
	value = (struct mallctl_value){ .type = MALLCTL_SSIZE, .number = (uint64_t)-1 };
	mallctl_value_json(&json, &value);
	value = (struct mallctl_value){ .type = MALLCTL_U64, .number = UINT64_MAX };
	mallctl_value_json(&json, &value);
	value = (struct mallctl_value){ .type = MALLCTL_STRING, .text = "a\"b" };
	mallctl_value_json(&json, &value);
	value = (struct mallctl_value){ .type = MALLCTL_UNIT };
	mallctl_value_json(&json, &value);
	json_array_end(&json);
	assert_string_equal(buffer_string(&out), "[true,-1,18446744073709551615,\"a\\\"b\",null]");
	buffer_deinit(&out);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(knows_the_types_of_plain_names),
	cmocka_unit_test(knows_the_types_of_numbered_names),
	cmocka_unit_test(config_is_bool_but_for_its_text),
	cmocka_unit_test(guesses_nothing),
	cmocka_unit_test(refuses_to_read_what_crashes),
	cmocka_unit_test(never_frees_the_memory_of_others),
	cmocka_unit_test(wants_intent_for_what_writes_files),
	cmocka_unit_test(refuses_what_is_no_name),
	cmocka_unit_test(parses_what_operators_type),
	cmocka_unit_test(refuses_values_of_another_type),
	cmocka_unit_test(type_words_go_both_ways),
	cmocka_unit_test(values_become_json),
};
UNIT_MAIN(tests)
