/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/demangle.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "unit.h"

static void assert_demangled(const char *linkage, const char *expected)
{
	CLEANUP(buffer_deinit) struct buffer out = { 0 };

	buffer_init(&out, &memory_or_exit);
	buffer_append_string(&out, ">");
	const bool readable = demangle_append(linkage, &out);
	if (expected == NULL) {
		assert_false(readable);
		assert_string_equal(buffer_string(&out), ">");
	} else {
		assert_true(readable);
		assert_string_equal(buffer_string(&out) + 1, expected);
	}
}

static void keeps_template_arguments(void **state)
{
	(void)state;
	assert_demangled("_ZN6shapes5outerIiEET_S1_", "int shapes::outer<int>(int)");
	assert_demangled(
		"_ZNK7ceph_leIjEcvjEv", "ceph_le<unsigned int>::operator unsigned int() const");
}

static void tells_implementations_of_a_trait_apart(void **state)
{
	(void)state;
	assert_demangled(
		"_ZN52_$LT$traits..Metre$u20$as$u20$core..fmt..Display$GT$3fmt17he49608938a5ec739E",
		"<traits::Metre as core::fmt::Display>::fmt");
	assert_demangled(
		"_RNvXCsjpqusJtDZHO_6traitsNtB2_5MetreNtNtCsgEmfK2I1SDS_4core3fmt7Display3fmt",
		"<traits::Metre as core::fmt::Display>::fmt");
	assert_demangled(
		"_RNvXs_CsjpqusJtDZHO_6traitsNtB4_6SecondNtNtCsgEmfK2I1SDS_4core3fmt7Display3fmt",
		"<traits::Second as core::fmt::Display>::fmt");
}

static void leaves_plain_names_alone(void **state)
{
	(void)state;
	assert_demangled("malloc", NULL);
	assert_demangled("_Znonsense", NULL);
	assert_demangled("", NULL);
	assert_demangled("_start", NULL);
}

static void bounds_long_and_growing_names(void **state)
{
	(void)state;
	CLEANUP(free_cleanup) char *name = xcalloc(1, DEMANGLE_MAX_NAME_BYTES + 16);
	CLEANUP(buffer_deinit) struct buffer out = { 0 };

	strcpy(name, "_Z1f");
	memset(name + 4, 'P', DEMANGLE_MAX_NAME_BYTES);
	strcpy(name + 4 + DEMANGLE_MAX_NAME_BYTES, "i");
	assert_demangled(name, NULL);

	/* Each argument repeats the one before twice: 2^30 words if it is not stopped. */
	buffer_init(&out, &memory_or_exit);
	buffer_append_string(&out, "_Z1fSt4pairIiiE");
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	buffer_append_string(&out, "St4pairIS_S_E");
	for (int i = 0; i < 30; i++)
		buffer_printf(&out, "St4pairIS%c_S%c_E", digits[i], digits[i]);
	const char *const bomb = xstrdup(buffer_string(&out));
	buffer_clear(&out);
	if (demangle_append(bomb, &out))
		assert_true(out.size <= DEMANGLE_MAX_RESULT_BYTES);
	free((void *)(uintptr_t)bomb);
}

static void demangles_each_name_of_a_table_once(void **state)
{
	(void)state;
	struct string_pool strings;
	struct name_table table;
	char **texts = NULL;
	size_t text_count = 0;

	string_pool_init(&strings);
	struct work_budget budget;

	work_budget_init(&budget);
	name_table_init(&table, &strings, &budget);
	static char names[3000][32];
	static char same[3000][32];
	for (int i = 0; i < 3000; i++) {
		snprintf(names[i], sizeof names[i], "_Z5f%04di", i);
		strcpy(same[i], names[i]);
		assert_int_equal(name_table_add(&table, names[i]), i);
		assert_int_equal(name_table_add(&table, names[i]), i);
		assert_int_equal(name_table_add(&table, same[i]), i);
	}
	assert_int_equal(name_table_add(&table, "malloc@@GLIBC_2.2.5"), 3000);
	name_table_demangle(&table, 3, &texts, &text_count);
	assert_string_equal(table.names[0].function, "f0000(int)");
	assert_string_equal(table.names[2999].function, "f2999(int)");
	assert_string_equal(table.names[3000].linkage, "malloc");
	assert_string_equal(table.names[3000].function, "");
	for (size_t i = 0; i < text_count; i++)
		free(texts[i]);
	free(texts);
	name_table_deinit(&table);
	string_pool_deinit(&strings);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(keeps_template_arguments),
	cmocka_unit_test(tells_implementations_of_a_trait_apart),
	cmocka_unit_test(leaves_plain_names_alone),
	cmocka_unit_test(bounds_long_and_growing_names),
	cmocka_unit_test(demangles_each_name_of_a_table_once),
};
UNIT_MAIN(tests)
