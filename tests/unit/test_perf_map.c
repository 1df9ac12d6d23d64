/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_table.h"

#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"
#include "unit.h"

static void find(const char *map, const uint64_t *addresses, size_t count, const char **names)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	static char kept[8][64];
	struct perf_map_match matches[8] = { 0 };

	buffer_init(&text, &memory_or_exit);
	buffer_append_string(&text, map);
	perf_map_find(&text, addresses, count, matches);
	for (size_t i = 0; i < count; i++) {
		names[i] = NULL;
		if (matches[i].name_size == 0)
			continue;
		snprintf(kept[i], sizeof kept[i], "%.*s", (int)matches[i].name_size,
			text.data + matches[i].name);
		names[i] = kept[i];
	}
}

static void finds_what_covers_an_address(void **state)
{
	(void)state;
	static const uint64_t addresses[] = { 0xfff, 0x1000, 0x10ff, 0x1100 };
	const char *names[4];
	find("1000 100 LazyCompile:~run app.js:3\n", addresses, 4, names);
	assert_null(names[0]);
	assert_string_equal(names[1], "LazyCompile:~run app.js:3");
	assert_string_equal(names[2], "LazyCompile:~run app.js:3");
	assert_null(names[3]);
}

static void takes_the_last_line_of_reused_memory(void **state)
{
	(void)state;
	static const uint64_t addresses[] = { 0x1010, 0x1090 };
	const char *names[2];
	find("1000 100 old\n0x1000 0x80 new\n", addresses, 2, names);
	assert_string_equal(names[0], "new");
	assert_string_equal(names[1], "old");
}

static void skips_lines_that_say_nothing(void **state)
{
	(void)state;
	static const uint64_t addresses[] = { 0x1010 };
	const char *names[1];
	find("\n1000\n1000 20\n1000 20 \nxyz 20 a\n11111111111111111 1 b\n1000 ffffffffffffffff c",
		addresses, 1, names);
	assert_string_equal(names[0], "c");
	find("", addresses, 1, names);
	assert_null(names[0]);
}

static void lines_that_hold_all_addresses_cost_no_more_than_others(void **state)
{
	(void)state;
	enum { LINES = 2000, ADDRESSES = 1000 };
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	static uint64_t addresses[ADDRESSES];
	static struct perf_map_match matches[ADDRESSES];

	buffer_init(&text, &memory_or_exit);
	for (uint64_t i = 0; i < ADDRESSES; i++)
		addresses[i] = 0x1000 + i;
	for (int i = 0; i < LINES; i++)
		buffer_printf(&text, "1 ffffffff name%d\n", i);
	assert_in_range(
		perf_map_find(&text, addresses, ADDRESSES, matches), LINES, LINES + ADDRESSES);
	for (size_t i = 0; i < ADDRESSES; i++)
		assert_memory_equal(text.data + matches[i].name, "name1999", 8);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(lines_that_hold_all_addresses_cost_no_more_than_others),
	cmocka_unit_test(finds_what_covers_an_address),
	cmocka_unit_test(takes_the_last_line_of_reused_memory),
	cmocka_unit_test(skips_lines_that_say_nothing),
};
UNIT_MAIN(tests)
