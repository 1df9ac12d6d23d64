/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/trend.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "profile_texts.h"

enum { PROFILES = 9, MAIN = 0, MINUTE_MS = 60000 };

/* A stack, innermost first, as numbers of functions; and its bytes in each profile. */
struct line {
	int functions[4]; /* ends with MAIN */
	double bytes[PROFILES];
};

/* When the agent was attached, of each profile; NULL: it was not. */
static const int64_t *attached_ms;

/* jeprof's symbolized form, in which function N is called "fN" and lies at 0x400000 + 16 N. */
static struct profile *make_profile(
	const struct line *lines, size_t count, int function_count, size_t which)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	double sum = 0;

	buffer_init(&text, &memory_or_exit);
	buffer_append_string(&text, "--- symbol\nbinary=/bin/server\n");
	for (int i = 0; i < function_count; i++)
		buffer_printf(&text, "0x%x f%d\n", 0x40000f + 16 * i, i);
	for (size_t i = 0; i < count; i++)
		sum += lines[i].bytes[which];
	buffer_printf(&text, "---\n--- heap\nheap_v2/1\n  t*: %zu: %.0f [0: 0]\n", count, sum);
	for (size_t i = 0; i < count; i++) {
		buffer_append_string(&text, "@");
		for (size_t j = 0; j == 0 || lines[i].functions[j - 1] != MAIN; j++)
			buffer_printf(&text, " 0x%x", 0x400010 + 16 * lines[i].functions[j]);
		buffer_printf(&text, "\n  t*: 1: %.0f [0: 0]\n", lines[i].bytes[which]);
	}
	buffer_append_string(&text, "\nMAPPED_LIBRARIES:\n"
				    "400000-500000 r-xp 00000000 00:00 1 /bin/server\n");
	struct profile *const profile = must_read_text(buffer_string(&text));
	profile->time_ms = (int64_t)(which + 1) * MINUTE_MS;
	profile->sampler = profile_intern(profile, "heapctl");
	profile->attached_ms = attached_ms == NULL ? 0 : attached_ms[which];
	return profile;
}

static struct trend *build(
	const struct line *lines, size_t count, int function_count, enum trend_unit unit)
{
	const struct filter_text everything = { 0 };
	CLEANUP(series_deinit) struct series series = { 0 };
	struct filter *filter = NULL;
	struct trend *trend = NULL;
	struct error err;

	series_init(&series, PROFILE_INUSE_SPACE);
	for (size_t i = 0; i < PROFILES; i++)
		series_add(&series, make_profile(lines, count, function_count, i));
	series_finish(&series);
	assert_true(filter_new(&everything, &filter, &err));
	const struct trend_request request = { .view = { .filter = filter }, .unit = unit };
	if (!trend_build(&series, &request, &trend, &err))
		fail_msg("%s", err.message);
	filter_free(filter);
	return trend;
}

static const struct trend_site *find(const struct trend *trend, const char *name)
{
	for (size_t i = 0; i < trend->site_count; i++) {
		if (strcmp(trend->sites[i].name, name) == 0)
			return &trend->sites[i];
	}
	fail_msg("no site %s", name);
	return NULL;
}

/* f3 is called by f1, where it grows, and more by f2, where it does not. */
static const struct line two_ways[] = {
	{ { 3, 1, MAIN }, { 100, 200, 300, 400, 500, 600, 700, 800, 900 } },
	{ { 3, 2, MAIN }, { 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000, 5000 } },
};

static void a_site_has_a_value_for_each_profile(void **state)
{
	(void)state;
	CLEANUP(trend_cleanup) struct trend *trend = build(two_ways, 2, 4, TREND_FLAT);

	assert_int_equal(trend->site_count, 1);
	assert_true(trend->has_times);
	assert_true(trend->hours[PROFILES - 1] * 60 == PROFILES - 1);
	for (size_t i = 0; i < PROFILES; i++) {
		const double bytes = two_ways[0].bytes[i] + two_ways[1].bytes[i];
		assert_true(find(trend, "f3")->series[i].value == bytes);
		assert_true(trend->total.series[i].value == bytes);
	}
}

static void the_stack_of_a_site_is_where_most_of_the_change_is(void **state)
{
	(void)state;
	CLEANUP(trend_cleanup) struct trend *trend = build(two_ways, 2, 4, TREND_FLAT);

	assert_string_equal(find(trend, "f3")->stack, "f0 > f1 > f3");
}

static void stacks_are_sites_of_their_own(void **state)
{
	(void)state;
	CLEANUP(trend_cleanup) struct trend *trend = build(two_ways, 2, 4, TREND_STACKS);

	assert_int_equal(trend->site_count, 2);
	assert_true(find(trend, "f0 > f1 > f3")->series[1].value == 200);
	assert_true(find(trend, "f0 > f2 > f3")->series[1].value == 5000);
}

static void a_recursive_function_counts_once(void **state)
{
	(void)state;
	static const struct line recursive[] = {
		{ { 1, 1, 1, MAIN }, { 100, 200, 300, 400, 500, 600, 700, 800, 900 } },
	};
	CLEANUP(trend_cleanup) struct trend *trend = build(recursive, 1, 2, TREND_CUMULATIVE);

	assert_true(find(trend, "f1")->series[0].value == 100);
	assert_true(find(trend, "f0")->series[0].value == 100);
}

static void small_sites_beyond_the_maximum_are_counted(void **state)
{
	(void)state;
	enum { FUNCTIONS = 2050, LOOKED_AT = 2000 };
	CLEANUP(free_cleanup) struct line *lines = xcalloc(FUNCTIONS, sizeof *lines);

	for (int i = 0; i < FUNCTIONS; i++) {
		lines[i] = (struct line){ .functions = { i + 1, MAIN } };
		for (size_t j = 0; j < PROFILES; j++)
			lines[i].bytes[j] = 1000 + i;
	}
	CLEANUP(trend_cleanup)
	struct trend *trend = build(lines, FUNCTIONS, FUNCTIONS + 1, TREND_FLAT);
	assert_int_equal(trend->site_count, LOOKED_AT);
	assert_int_equal(trend->left_out, FUNCTIONS - LOOKED_AT);
	/* Only the biggest are tested. */
	(void)find(trend, "f2050");
	(void)find(trend, "f51");
}

/* All memory is replaced within three minutes, and the sampler sees only the new. */
static const struct line fills_up[] = {
	{ { 1, MAIN }, { 1000, 4000, 7000, 9000, 9010, 8990, 9000, 9010, 8990 } },
};

static void the_start_of_an_attach_is_no_growth(void **state)
{
	(void)state;
	static const int64_t times[PROFILES] = { 30000, 30000, 30000, 30000, 30000, 30000, 30000,
		30000, 30000 };
	CLEANUP(trend_cleanup) struct trend *before = build(fills_up, 1, 2, TREND_FLAT);
	assert_int_equal(before->warm_up_count, 0);
	assert_true(before->sites[0].growth.step_count > 0);

	attached_ms = times;
	CLEANUP(trend_cleanup) struct trend *trend = build(fills_up, 1, 2, TREND_FLAT);
	attached_ms = NULL;
	assert_int_equal(trend->attached_ms, 30000);
	/* Of 8.5 min. */
	assert_int_equal(trend->warm_up_count, 3);
	assert_true(trend->is_warm_up[2] && !trend->is_warm_up[3]);
	assert_true(trend->sites[0].has_growth);
	assert_string_equal(trend_site_kind(&trend->sites[0]), "none");
	assert_int_equal(trend->sites[0].growth.step_count, 0);
	assert_false(trend->sites[0].is_suspect);
	/* They are shown. */
	assert_true(trend->sites[0].series[0].value == 1000);
	assert_int_equal(trend->runs[PROFILES - 1], 0);
}

static void another_attach_is_another_run(void **state)
{
	(void)state;
	static const int64_t times[PROFILES] = { 0, 0, 0, 0, 290000, 290000, 290000, 290000,
		290000 };
	static const struct line level[] = {
		{ { 1, MAIN }, { 9000, 9010, 8990, 9000, 10, 4000, 4010, 3990, 4000 } },
	};
	attached_ms = times;
	CLEANUP(trend_cleanup) struct trend *trend = build(level, 1, 2, TREND_FLAT);
	attached_ms = NULL;

	assert_int_equal(trend->attach_count, 1);
	assert_int_equal(trend->reset_count, 0);
	assert_int_equal(trend->process_count, 1);
	assert_int_equal(trend->runs[3], 0);
	assert_int_equal(trend->runs[4], 1);
	assert_int_equal(trend->sites[0].growth.step_count, 0);
	assert_false(trend->sites[0].is_suspect);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(a_site_has_a_value_for_each_profile),
	cmocka_unit_test(the_stack_of_a_site_is_where_most_of_the_change_is),
	cmocka_unit_test(stacks_are_sites_of_their_own),
	cmocka_unit_test(a_recursive_function_counts_once),
	cmocka_unit_test(small_sites_beyond_the_maximum_are_counted),
	cmocka_unit_test(the_start_of_an_attach_is_no_growth),
	cmocka_unit_test(another_attach_is_another_run),
};

UNIT_MAIN(tests)
