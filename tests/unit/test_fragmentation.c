/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/fragmentation.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profile_texts.h"

/* An interval of one byte: nothing is scaled up. */
static const char text[] = "--- symbol\n"
			   "binary=/bin/server\n"
			   "0x40010f main\n"
			   "0x40020f small\n"
			   "0x40030f mixed\n"
			   "0x40040f large\n"
			   "---\n"
			   "--- heap\n"
			   "heap_v2/1\n"
			   "  t*: 5001: 1384586 [0: 0]\n"
			   "@ 0x400210 0x400110\n"
			   "  t*: 3000: 192010 [0: 0]\n"
			   "@ 0x400310 0x400110\n"
			   "  t*: 2000: 144000 [0: 0]\n"
			   "@ 0x400410 0x400110\n"
			   "  t*: 1: 1048576 [0: 0]\n"
			   "\nMAPPED_LIBRARIES:\n"
			   "400000-401000 r-xp 00000000 00:00 1 /bin/server\n";

static const struct fragmentation_class classes[] = { { 32, 500 }, { 64, 4000 }, { 96, 1000 } };
static const struct fragmentation fragmentation = { classes, 3 };

/* Of the last node of that name; zeros when there is none. */
static struct view_totals totals_of(const struct view *view, const char *name)
{
	struct view_totals *const all = view_sum_nodes(view, PROFILE_INUSE_SPACE);
	struct view_totals found = { 0 };

	for (size_t i = 0; i < view->node_count; i++) {
		if (strcmp(view->nodes[i].name, name) == 0)
			found = all[i];
	}
	free(all);
	return found;
}

static double flat_of(const struct view *view, const char *name)
{
	return totals_of(view, name).flat.value;
}

static double cumulative_of(const struct view *view, const char *name)
{
	return totals_of(view, name).cumulative.value;
}

static double error_of(const struct view *view, const char *name)
{
	return sqrt(totals_of(view, name).flat.variance);
}

static struct view *build_of(const char *profile_text, const char *focus)
{
	struct profile *const profile = must_read_text(profile_text);
	const struct view_input input = { profile, false };
	const struct filter_text words = { .focus = focus };
	struct filter *filter = NULL;
	struct view *view = NULL;
	struct error err = { 0 };

	assert_true(filter_new(&words, &filter, &err));
	const struct view_request request = { .filter = filter };
	if (!fragmentation_build(&fragmentation, &input, 1, &request, &view, &err))
		fail_msg("%s", err.message);
	filter_free(filter);
	profile_free(profile);
	return view;
}

static struct view *build(const char *focus)
{
	return build_of(text, focus);
}

static const char *text_with(const char *form, const char *more, char out[600])
{
	const char *const place = strstr(form, "%s");

	snprintf(out, 600, "%.*s%s%s", (int)(place - form), form, more, place + 2);
	return out;
}

/* A class's free bytes are counted; sampling errs in how they are shared out. */
static void only_shares_are_estimates(void **state)
{
	(void)state;
	static const char alone[] =
		"--- symbol\nbinary=/bin/server\n0x40010f main\n0x40020f small\n"
		"0x40030f other\n---\n--- heap\n"
		"heap_v2/4096\n  t*: 50: 3200 [0: 0]\n"
		"@ 0x400210 0x400110\n  t*: 50: 3200 [0: 0]\n"
		"%s"
		"\nMAPPED_LIBRARIES:\n"
		"400000-401000 r-xp 00000000 00:00 1 /bin/server\n";
	char text_of_two[600];

	struct view *view = build_of(text_with(alone, "", text_of_two), NULL);
	assert_true(fabs(flat_of(view, "small") - 4000) < 1);
	/* A site that was never sampled may be there, too: with more samples, less of it. */
	assert_true(fabs(error_of(view, "small") - 4000.0 / 52) < 1);
	view_free(view);
	view = build_of(
		text_with(alone, "@ 0x400310 0x400110\n  t*: 50: 3200 [0: 0]\n", text_of_two),
		NULL);
	assert_true(fabs(flat_of(view, "small") - 2000) < 1);
	/* A share of 50 samples of 100: 4000 times sqrt(.5 .5 / 100). */
	assert_true(fabs(error_of(view, "small") - 204) < 4);
	assert_true(fabs(error_of(view, "small") - error_of(view, "other")) < 1e-6);
	assert_string_equal(view->label, "free in slabs");
	view_free(view);
}

static void shares_a_class_by_live_objects(void **state)
{
	(void)state;
	struct view *const view = build(NULL);

	/*
	 * The mean of "mixed" is 72: three quarters of its 2000 objects are in 64, beside 3000 of
	 * "small", whose mean is 64 but for rounding.
	 */
	assert_true(fabs(flat_of(view, "small") - 4000.0 * 3000 / 4500) < 1);
	assert_true(fabs(flat_of(view, "mixed") - (4000.0 * 1500 / 4500 + 1000)) < 1);
	assert_true(flat_of(view, "large") == 0);
	view_free(view);
}

static void shows_sites_below_their_class(void **state)
{
	(void)state;
	struct view *const view = build(NULL);

	assert_true(fabs(cumulative_of(view, "32-byte objects") - 500) < 1e-6);
	assert_true(fabs(cumulative_of(view, "64-byte objects") - 4000) < 1e-6);
	assert_true(fabs(cumulative_of(view, "96-byte objects") - 1000) < 1e-6);
	assert_true(cumulative_of(view, "main") > 4900);
	view_free(view);
}

static void keeps_the_sum_with_unattributed_memory(void **state)
{
	(void)state;
	struct view *const view = build(NULL);

	assert_true(fabs(flat_of(view, "(no sampled object)") - 500) < 1e-6);
	assert_true(fabs(view_sum(view, PROFILE_INUSE_SPACE).value - 5500) < 1e-6);
	assert_true(fabs(view->total[PROFILE_INUSE_SPACE] - 5500) < 1e-6);
	view_free(view);
}

static void gives_nothing_to_sites_that_a_filter_leaves_out(void **state)
{
	(void)state;
	struct view *const view = build("small");

	assert_true(fabs(flat_of(view, "small") - 4000.0 * 3000 / 4500) < 1);
	assert_true(flat_of(view, "mixed") == 0);
	view_free(view);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(only_shares_are_estimates),
	cmocka_unit_test(shares_a_class_by_live_objects),
	cmocka_unit_test(shows_sites_below_their_class),
	cmocka_unit_test(keeps_the_sum_with_unattributed_memory),
	cmocka_unit_test(gives_nothing_to_sites_that_a_filter_leaves_out),
};

UNIT_MAIN(tests)
