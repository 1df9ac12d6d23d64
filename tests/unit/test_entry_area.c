/* SPDX-License-Identifier: Apache-2.0 */
/* Where the code of patched functions is mapped. */
#include "sampler/entry_area.h"

#include <string.h>
#include <sys/mman.h>

#include "unit.h"

enum { RANGE_BYTES = 64 * ENTRY_AREA_BYTES };

static char *map_range(void)
{
	char *const range = mmap(
		NULL, RANGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	assert_true(range != MAP_FAILED);
	return range;
}

static bool map_in(const char *range, struct error *err)
{
	const uint64_t first = (uint64_t)(uintptr_t)range;

	return entry_area_map(first, first + RANGE_BYTES, err);
}

static void it_is_mapped_where_the_range_is_free(void **state)
{
	char *const range = map_range();
	char *const gap = range + 40 * (size_t)ENTRY_AREA_BYTES;
	struct error err = { 0 };

	(void)state;
	assert_int_equal(munmap(gap, ENTRY_AREA_BYTES), 0);
	assert_true(map_in(range, &err));
	assert_int_equal(entry_area_address(), (uintptr_t)gap);
	entry_area_unmap();
	assert_int_equal(entry_area_address(), 0);
	munmap(range, RANGE_BYTES);
}

static void a_range_that_was_taken_meanwhile_is_not_called_a_limit(void **state)
{
	char *const range = map_range();
	struct error err = { 0 };

	(void)state;
	assert_false(map_in(range, &err));
	assert_non_null(strstr(err.message, "have been taken meanwhile"));
	assert_string_equal(err.hint, "try again");
	munmap(range, RANGE_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_mapped_where_the_range_is_free),
		cmocka_unit_test(a_range_that_was_taken_meanwhile_is_not_called_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
