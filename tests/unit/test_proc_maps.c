/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc_maps.h"

#include <string.h>

#include "unit.h"

static bool parse(const char *line, struct proc_map *map)
{
	return proc_map_parse(line, strlen(line), map);
}

static void reads_a_library(void **state)
{
	(void)state;
	struct proc_map map;
	assert_true(parse("7f1c2a000000-7f1c2a026000 r-xp 00026000 fe:00 1573 "
			  "                      /usr/lib/a b.so (deleted)",
		&map));
	assert_int_equal(map.start, 0x7f1c2a000000);
	assert_int_equal(map.limit, 0x7f1c2a026000);
	assert_int_equal(map.file_offset, 0x26000);
	assert_int_equal(map.inode, 1573);
	assert_true(map.executable && map.readable && !map.writable && map.deleted);
	assert_int_equal(map.path_size, strlen("/usr/lib/a b.so"));
	assert_memory_equal(map.path, "/usr/lib/a b.so", map.path_size);
}

static void reads_anonymous_memory(void **state)
{
	(void)state;
	struct proc_map map;
	assert_true(parse("7ffd-8000 rw-p 00000000 00:00 0", &map));
	assert_int_equal(map.path_size, 0);
	assert_true(parse("7ffd-8000 rw-p 00000000 00:00 0 ", &map));
	assert_int_equal(map.path_size, 0);
}

static void refuses_what_is_no_mapping(void **state)
{
	(void)state;
	static const char *const cases[] = { "", "7f", "7f-80", "7f-80 r-xp", "zz-80 r-xp 0 0:0 0",
		"7f-80 r-xp 0 00 12", "11111111111111111111111-2 r-xp 0 0:0 0", "# comment" };
	struct proc_map map;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		assert_false(parse(cases[i], &map));
}

static void finds_the_mappings_among_other_lines(void **state)
{
	static const char text[] = "# comment\n\n1000-2000 r-xp 0 0:0 0 /a\nbroken\n"
				   "3000-4000 rw-p 0 0:0 0\n5000-6000 r--p 0 0:0 0 /last";
	const char *at = text;
	struct proc_map map;

	(void)state;
	for (uint64_t start = 0x1000; start <= 0x5000; start += 0x2000) {
		assert_true(proc_map_next(&at, text + sizeof text - 1, &map));
		assert_int_equal(map.start, start);
	}
	assert_int_equal(map.path_size, 5);
	assert_false(proc_map_next(&at, text + sizeof text - 1, &map));
	assert_false(proc_map_next(&at, text + sizeof text - 1, &map));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reads_a_library),
	cmocka_unit_test(reads_anonymous_memory),
	cmocka_unit_test(refuses_what_is_no_mapping),
	cmocka_unit_test(finds_the_mappings_among_other_lines),
};
UNIT_MAIN(tests)
