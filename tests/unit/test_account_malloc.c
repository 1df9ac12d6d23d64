/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/account.h"

#include <math.h>
#include <string.h>

#include "analysis/allocator_stats.h"
#include "unit.h"

/* RSS 41 MiB: 8 in the break of 10, 12 in a heap of 16, 20 in other mappings, 1 in a stack. */
static const struct smaps kernel = {
	.resident = 41 << 20,
	.program_break = 8 << 20,
	.program_break_size = 10 << 20,
	.anonymous = 32 << 20,
	.stacks = 1 << 20,
	.unreserved_size = 64 << 20,
	.unreserved_resident = 12 << 20,
	.heaps_size = 16 << 20,
	.heaps_resident = 12 << 20,
	.heap_count = 1,
};

struct made {
	json_t *document;
	struct account account;
};

static struct made make(const char *text, const struct smaps *smaps)
{
	const struct account_profile none = { 0 };
	struct made made = { .document = json_loads(text, 0, NULL) };
	struct account_malloc malloc;

	assert_non_null(made.document);
	assert_true(account_malloc_read(made.document, &malloc));
	malloc.agent = 1 << 20;
	made.account = account_malloc_make(&malloc, smaps, &none);
	return made;
}

static double bytes(const struct made *made, const char *name)
{
	for (size_t i = 0; i < made->account.row_count; i++) {
		if (strcmp(made->account.rows[i].name, name) == 0)
			return made->account.rows[i].bytes;
	}
	fail_msg("no row %s", name);
	return 0;
}

static void check_sum(const struct made *made)
{
	double sum = 0;

	for (size_t i = 0; i < made->account.row_count; i++) {
		if (made->account.rows[i].kind != ACCOUNT_OUTSIDE)
			sum += made->account.rows[i].bytes;
	}
	assert_true(made->account.has_kernel);
	assert_true(fabs(sum - made->account.resident) < 1e-6);
}

#define GLIBC(arena, mapped)                                                                    \
	"{\"malloc\": {\"name\": \"glibc\", \"figures\": {\"arena_bytes\": " arena              \
	", \"in_use_bytes\": 20000000, \"free_bytes\": 7262976, \"fast_bin_bytes\": 1000000, "  \
	"\"top_bytes\": 62976, \"mapped_bytes\": " mapped ", \"mapped_blocks\": 7, \"free_chun" \
	"ks\": 99}, \"options\": {}, \"reason\": \"\"}}"

static void what_glibc_has_in_its_heaps_and_is_not_resident_is_exact(void **state)
{
	(void)state;
	struct made made = make(GLIBC("27262976", "10485760"), &kernel);

	check_sum(&made);
	assert_true(bytes(&made, "in_use") == 20000000);
	assert_true(bytes(&made, "mapped_blocks") == 10485760);
	assert_true(bytes(&made, "fast_bins") == 1000000);
	assert_true(bytes(&made, "fragmentation") == 6200000);
	assert_true(bytes(&made, "top") == 62976);
	/* Of 26 MiB in heaps 20 are resident; of 20 in other mappings 10 are blocks, 1 the agent.
	 */
	assert_true(bytes(&made, "not_resident") == -6 * 1048576.0);
	assert_true(bytes(&made, "agent") == 1 << 20);
	assert_true(bytes(&made, "other") == 9 << 20);
	assert_true(bytes(&made, "program_break") == 0);
	assert_true(bytes(&made, "arenas") == 26 << 20);
	json_decref(made.document);
}

static void without_an_agent_all_rows_are_the_kernels(void **state)
{
	(void)state;
	struct smaps huge = kernel;

	huge.huge_pages = 4 << 20;
	for (int has_glibc = 0; has_glibc <= 1; has_glibc++) {
		const struct made made = { .account = account_kernel_make(&huge, has_glibc) };
		check_sum(&made);
		for (size_t i = 0; i < made.account.row_count; i++)
			assert_int_equal(made.account.rows[i].source, ACCOUNT_MEASURED);
		assert_true(bytes(&made, "other") == (has_glibc ? 20 << 20 : 32 << 20));
		assert_true(bytes(&made, "program_break") == 8 << 20);
		assert_true(bytes(&made, "huge_pages") == 4 << 20);
		if (has_glibc)
			assert_true(bytes(&made, "arena_heaps") == 12 << 20);
	}
}

static void what_was_in_use_before_an_attach_is_a_row(void **state)
{
	(void)state;
	const struct account_profile since = { .is_there = true,
		.is_since_attach = true,
		.inuse = 4e6,
		.inuse_low = 3e6,
		.inuse_high = 5e6 };
	const struct account_profile more = { .is_there = true,
		.is_since_attach = true,
		.inuse = 4e7,
		.inuse_low = 3e7,
		.inuse_high = 5e7 };
	const struct account_profile whole = { .is_there = true, .inuse = 4e6 };
	struct made made = make(GLIBC("27262976", "10485760"), &kernel);
	struct made other = made;

	account_split_at_attach(&other.account, &whole);
	assert_int_equal(other.account.row_count, made.account.row_count);
	account_split_at_attach(&other.account, &since);
	check_sum(&other);
	assert_true(bytes(&other, "since_attach") == 4e6);
	assert_true(bytes(&other, "before_attach") == 20000000 + 10485760 - 4e6);
	assert_true(other.account.has_before);
	assert_true(other.account.before_low == 20000000 + 10485760 - 5e6);
	assert_true(other.account.before_high == 20000000 + 10485760 - 3e6);
	/* They stay for comparison. */
	assert_true(bytes(&other, "in_use") == 20000000);
	/* More was freed between the two readings than was there before. */
	account_split_at_attach(&made.account, &more);
	check_sum(&made);
	assert_true(bytes(&made, "since_attach") == 20000000 + 10485760);
	assert_true(bytes(&made, "before_attach") == 0);
	assert_true(made.account.before_low == 0 && made.account.before_high == 485760);
	json_decref(made.document);
}

static void mapped_blocks_without_room_are_not_resident(void **state)
{
	(void)state;
	struct made made = make(GLIBC("27262976", "31457280"), &kernel);

	check_sum(&made);
	assert_true(bytes(&made, "not_resident") == -17 * 1048576.0);
	assert_true(bytes(&made, "other") == 0);
	json_decref(made.document);
}

/* A main arena that is not in the program break, heaps of another size. */
static void heaps_elsewhere_are_part_of_anonymous_memory(void **state)
{
	(void)state;
	struct made made = make(GLIBC("52428800", "0"), &kernel);

	check_sum(&made);
	json_decref(made.document);
}

static void glibc_without_figures_shows_its_heaps(void **state)
{
	(void)state;
	struct made made =
		make("{\"malloc\": {\"name\": \"glibc\", \"figures\": null, \"options\": {}, "
		     "\"reason\": \"large\"}}",
			&kernel);

	check_sum(&made);
	assert_true(bytes(&made, "main_heap") == 8 << 20);
	assert_true(bytes(&made, "arena_heaps") == 12 << 20);
	assert_true(bytes(&made, "not_resident") == 0);
	assert_true(bytes(&made, "other") == 19 << 20);
	json_decref(made.document);
}

static void other_mallocs_add_up_as_well(void **state)
{
	(void)state;
	static const char *const texts[] = {
		("{\"malloc\": {\"name\": \"tcmalloc\", \"figures\": {\"allocated_bytes\": "
		 "1000000, "
		 "\"thread_cache_bytes\": 2000, \"central_cache_bytes\": 300, "
		 "\"transfer_cache_bytes\": 40, \"page_heap_bytes\": 5000, \"unmapped_bytes\": "
		 "7000000, \"heap_bytes\": 8100000}, \"options\": {}}}"),
		("{\"malloc\": {\"name\": \"mimalloc\", \"figures\": {\"committed_bytes\": "
		 "99000000}, "
		 "\"options\": {}}}"),
		"{\"malloc\": {\"name\": \"hoard\", \"figures\": null, \"options\": {}}}",
	};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct made made = make(texts[i], &kernel);
		check_sum(&made);
		json_decref(made.document);
		/* From another machine there are the malloc's own rows. */
		made = make(texts[i], NULL);
		assert_false(made.account.has_kernel);
		json_decref(made.document);
	}
	struct made made = make(texts[0], &kernel);
	assert_true(bytes(&made, "rounding") == 1100000 - 1000000 - 2000 - 340 - 5000);
	assert_true(bytes(&made, "retained") == 7000000);
	json_decref(made.document);
}

static void statistics_of_jemalloc_are_others(void **state)
{
	(void)state;
	struct account_malloc malloc;
	json_t *const document = json_loads("{\"jemalloc\": {\"stats\": {}}}", 0, NULL);

	assert_false(account_malloc_read(document, &malloc));
	json_decref(document);
}

static void an_option_has_the_value_of_its_variable_or_tunable(void **state)
{
	(void)state;
	json_t *const document = json_loads(
		"{\"malloc\": {\"options\": {\"MALLOC_TOP_PAD_\": \"4096\", \"GLIBC_TUNABLES\": "
		"\"glibc.malloc.arena_max=3:glibc.malloc.trim_threshold=77\"}}}",
		0, NULL);
	static const char *const expected[][2] = {
		{ "MALLOC_TOP_PAD_", "MALLOC_TOP_PAD_=4096" },
		{ "MALLOC_ARENA_MAX", "glibc.malloc.arena_max=3" },
		{ "MALLOC_TRIM_THRESHOLD_", "glibc.malloc.trim_threshold=77" },
		{ "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_" },
		{ "glibc.malloc.mxfast", "glibc.malloc.mxfast" },
	};
	char text[96];

	for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
		allocator_stats_describe_option(document, expected[i][0], text, sizeof text);
		assert_string_equal(text, expected[i][1]);
	}
	json_decref(document);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(what_glibc_has_in_its_heaps_and_is_not_resident_is_exact),
	cmocka_unit_test(without_an_agent_all_rows_are_the_kernels),
	cmocka_unit_test(what_was_in_use_before_an_attach_is_a_row),
	cmocka_unit_test(mapped_blocks_without_room_are_not_resident),
	cmocka_unit_test(heaps_elsewhere_are_part_of_anonymous_memory),
	cmocka_unit_test(glibc_without_figures_shows_its_heaps),
	cmocka_unit_test(other_mallocs_add_up_as_well),
	cmocka_unit_test(statistics_of_jemalloc_are_others),
	cmocka_unit_test(an_option_has_the_value_of_its_variable_or_tunable),
};

UNIT_MAIN(tests)
