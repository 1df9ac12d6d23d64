/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/view_builder.h"

#include <math.h>
#include <string.h>

#include "base/xalloc.h"

#include "profile_texts.h"
#include "unit.h"

/* Figures small enough that nothing is scaled up: objects of 1 MiB, an interval of one byte. */
#define MAPS                                                            \
	"MAPPED_LIBRARIES:\n"                                           \
	"400000-401000 r-xp 00000000 00:00 1 /bin/server\n"             \
	"7000000-7010000 r-xp 00000000 00:00 2 /lib/libjemalloc.so.2\n" \
	"8000000-8010000 r-xp 00000000 00:00 3 /lib/libparse.so.1\n"

static const char text[] = "--- symbol\n"
			   "binary=/bin/server\n"
			   "0x40010f main\n"
			   "0x40020f serve--handle\n"
			   "0x40030f xrealloc\n"
			   "0x800010f parse\n"
			   "0x40040f main\n"
			   "---\n"
			   "--- heap\n"
			   "heap_v2/1\n"
			   "  t*: 4: 4194304 [0: 0]\n"
			   "  t1: 1: 1048576 [0: 0] worker\n"
			   "@ 0x7000110 0x400210 0x400110\n"
			   "  t*: 1: 1048576 [2: 2097152]\n"
			   "  t1: 1: 1048576 [2: 2097152]\n"
			   "@ 0x7000110 0x8000110 0x400210 0x400110\n"
			   "  t*: 2: 2097152 [2: 2097152]\n"
			   "@ 0x7000110 0x8000210 0x400410\n"
			   "  t*: 1: 1048576 [1: 1048576]\n"
			   "\n" MAPS;

#define MIB 1048576.0

struct made {
	struct profile *profile;
	struct filter *filter;
	struct view *view;
};

static void made_free(struct made *made)
{
	view_free(made->view);
	filter_free(made->filter);
	profile_free(made->profile);
}

static struct made make(struct filter_text words, struct view_request request)
{
	struct made made = { .profile = must_read_text(text) };
	struct error err = { 0 };

	assert_true(filter_new(&words, &made.filter, &err));
	request.filter = made.filter;
	request.counter = PROFILE_INUSE_SPACE;
	const struct view_input input = { made.profile, false };
	if (!view_build(&input, 1, &request, &made.view, &err))
		fail_msg("%s", err.message);
	return made;
}

/* The paths of a view as "a;b;c VALUE" in MiB, sorted by nothing but their order. */
static char *paths_of(const struct view *view)
{
	struct buffer out;

	buffer_init(&out, &memory_or_exit);
	for (size_t i = 0; i < view->path_count; i++) {
		const struct view_path *const path = &view->paths[i];
		for (uint32_t at = 0; at < path->depth; at++)
			buffer_printf(&out, "%s%s", at == 0 ? "" : ";",
				view->nodes[view->path_nodes[path->first + at]].name);
		buffer_printf(
			&out, " %g\n", view_path_estimate(view, path, view->counter).value / MIB);
	}
	return buffer_take(&out);
}

static void assert_paths(struct filter_text words, struct view_request request, const char *wanted)
{
	struct made made = make(words, request);
	char *const paths = paths_of(made.view);

	assert_string_equal(paths, wanted);
	free(paths);
	made_free(&made);
}

#define WORDS(...) ((struct filter_text){ __VA_ARGS__ })
#define REQUEST(...) ((struct view_request){ __VA_ARGS__ })

static void cuts_the_allocator_off_even_without_names(void **state)
{
	(void)state;
	assert_paths(WORDS(0), REQUEST(0),
		"main;serve;handle (inline) 1\n"
		"main;serve;handle (inline);parse 2\n"
		"main;[libparse.so.1]+0x20f 1\n");
}

static void keeps_the_allocator_when_asked(void **state)
{
	(void)state;
	assert_paths(WORDS(0), REQUEST(.pruning = PRUNE_NOTHING),
		"main;serve;handle (inline);[libjemalloc.so.2]+0x10f 1\n"
		"main;serve;handle (inline);parse;[libjemalloc.so.2]+0x10f 2\n"
		"main;[libparse.so.1]+0x20f;[libjemalloc.so.2]+0x10f 1\n");
}

static void counts_inlined_functions_as_their_callers_when_asked(void **state)
{
	(void)state;
	assert_paths(WORDS(0), REQUEST(.no_inlines = true),
		"main;serve 1\nmain;serve;parse 2\nmain;[libparse.so.1]+0x20f 1\n");
}

/* With recursion, so that counting a node once for each stack makes a difference. */
static const char recursive[] = "--- symbol\n"
				"binary=/bin/server\n"
				"0x0f main\n"
				"0x1f walk--visit\n"
				"0x2f parse\n"
				"---\n"
				"--- heap\n"
				"heap_v2/524288\n"
				"  t*: 4: 4194304 [0: 0]\n"
				"@ 0x20 0x20 0x10\n"
				"  t*: 3: 300 [7: 7000]\n"
				"@ 0x30 0x20 0x10\n"
				"  t*: 2: 2097152 [0: 0]\n"
				"@ 0x20 0x20 0x10\n"
				"  t*: 1: 4096 [0: 0]\n"
				"@\n"
				"  t*: 1: 99 [1: 99]\n";

static void assert_estimate(struct estimate found, struct estimate wanted)
{
	assert_true(fabs(found.value - wanted.value) <= 1e-9 * fabs(wanted.value));
	assert_true(fabs(found.variance - wanted.variance) <= 1e-9 * fabs(wanted.variance));
	assert_true(found.samples == wanted.samples);
}

static void totals_without_paths_are_those_of_the_paths(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup) struct profile *const profile = must_read_text(recursive);
	const struct view_input input = { profile, false };
	const enum profile_counter counters[] = { PROFILE_INUSE_SPACE, PROFILE_ALLOC_OBJECTS };
	CLEANUP(filter_cleanup) struct filter *filter = NULL;
	struct error err = { 0 };

	assert_true(filter_new(&WORDS(0), &filter, &err));
	for (size_t c = 0; c < 2; c++) {
		struct view_request request = { .filter = filter, .counter = counters[c] };
		CLEANUP(view_cleanup) struct view *full = NULL;
		CLEANUP(view_cleanup) struct view *lean = NULL;
		assert_true(view_build(&input, 1, &request, &full, &err));
		request.totals_only = true;
		assert_true(view_build(&input, 1, &request, &lean, &err));
		CLEANUP(free_cleanup)
		struct view_totals *wanted = view_sum_nodes(full, counters[c]);
		CLEANUP(free_cleanup) struct view_totals *found = view_sum_nodes(lean, counters[c]);
		assert_int_equal(full->path_count, 3);
		assert_int_equal(lean->path_count, 0);
		assert_int_equal(lean->node_count, full->node_count);
		for (size_t i = 0; i < full->node_count; i++) {
			assert_string_equal(lean->nodes[i].name, full->nodes[i].name);
			assert_estimate(found[i].flat, wanted[i].flat);
			assert_estimate(found[i].cumulative, wanted[i].cumulative);
		}
		assert_float_equal(
			view_whole(lean, counters[c]), view_whole(full, counters[c]), 1e-6);
		assert_true(lean->total[counters[c]] == full->total[counters[c]]);
	}
}

static void merges_addresses_of_one_function(void **state)
{
	(void)state;
	struct made made = make(WORDS(0), REQUEST(0));
	size_t count = 0;

	/* 0x40010f and 0x40040f are both main. */
	for (size_t i = 0; i < made.view->node_count; i++)
		count += strcmp(made.view->nodes[i].name, "main") == 0;
	assert_int_equal(count, 1);
	made_free(&made);
}

static void shows_addresses_as_they_are_looked_up(void **state)
{
	(void)state;
	assert_paths(WORDS(.focus = "parse$"), REQUEST(.granularity = VIEW_ADDRESSES),
		"000000000040010f main ??:0;000000000040020f serve ??:0;"
		"000000000040020f handle (inline) ??:0;000000000800010f parse ??:0 2\n");
}

static void focuses_on_stacks_and_ignores_stacks(void **state)
{
	(void)state;
	assert_paths(WORDS(.focus = "^parse$"), REQUEST(0), "main;serve;handle (inline);parse 2\n");
	assert_paths(WORDS(.ignore = "handle"), REQUEST(0), "main;[libparse.so.1]+0x20f 1\n");
	/* Addresses match, too, but what was cut off does not. */
	assert_paths(WORDS(.focus = "800020f"), REQUEST(0), "main;[libparse.so.1]+0x20f 1\n");
	assert_paths(WORDS(.focus = "700010f"), REQUEST(0), "");
}

static void retains_and_excludes_locations_by_their_outermost_function(void **state)
{
	(void)state;
	assert_paths(WORDS(.exclude = "^serve$"), REQUEST(0),
		"main 1\nmain;parse 2\nmain;[libparse.so.1]+0x20f 1\n");
	/* handle is inlined into serve, so its name does not count; what is empty is dropped. */
	assert_paths(WORDS(.retain = "^handle$"), REQUEST(0), "");
	assert_paths(WORDS(.retain = "^(serve|parse)$"), REQUEST(0),
		"serve;handle (inline) 1\nserve;handle (inline);parse 2\n");
}

static void shows_and_hides_single_frames(void **state)
{
	(void)state;
	assert_paths(WORDS(.hide = "^serve$"), REQUEST(0),
		"main;handle (inline) 1\nmain;handle (inline);parse 2\n"
		"main;[libparse.so.1]+0x20f 1\n");
	assert_paths(WORDS(.show = "^handle$"), REQUEST(0), "handle (inline) 3\n");
}

static void shows_stacks_from_a_match_on(void **state)
{
	(void)state;
	assert_paths(WORDS(.show_from = "^serve$"), REQUEST(0),
		"serve;handle (inline) 1\nserve;handle (inline);parse 2\n");
}

/* Where a function calls one that calls it elsewhere. */
static void shows_stacks_from_a_match_on_whatever_other_stacks_show(void **state)
{
	(void)state;
	static const char swapped[] = "--- symbol\n0x0f main\n0x1f walk\n---\n--- heap\n"
				      "heap_v2/1\n  t*: 2: 2097152 [0: 0]\n"
				      "@ 0x10 0x20\n  t*: 1: 1048576 [0: 0]\n"
				      "@ 0x20 0x10\n  t*: 1: 1048576 [0: 0]\n";
	CLEANUP(profile_cleanup) struct profile *const profile = must_read_text(swapped);
	const struct view_input input = { profile, false };
	CLEANUP(filter_cleanup) struct filter *filter = NULL;
	CLEANUP(view_cleanup) struct view *view = NULL;
	struct error err = { 0 };

	assert_true(filter_new(&WORDS(.show_from = "walk"), &filter, &err));
	assert_true(view_build(&input, 1,
		&REQUEST(.filter = filter, .counter = PROFILE_INUSE_SPACE), &view, &err));
	CLEANUP(free_cleanup) char *paths = paths_of(view);
	assert_string_equal(paths, "walk;main 1\nwalk 1\n");
}

static void prunes_what_a_function_calls(void **state)
{
	(void)state;
	assert_paths(WORDS(.prune_from = "^serve$"), REQUEST(0),
		"main;serve 3\nmain;[libparse.so.1]+0x20f 1\n");
	assert_paths(WORDS(.prune_from = "^handle$"), REQUEST(0),
		"main;serve;handle (inline) 3\nmain;[libparse.so.1]+0x20f 1\n");
	assert_paths(WORDS(.prune_from = "^(main|serve)$"), REQUEST(0), "main;serve 3\nmain 1\n");
	/* What is hidden does not match, nor what is no longer there. */
	assert_paths(WORDS(.prune_from = "^serve$", .hide = "^serve$"), REQUEST(0),
		"main;handle (inline) 1\nmain;handle (inline);parse 2\n"
		"main;[libparse.so.1]+0x20f 1\n");
	assert_paths(
		WORDS(.prune_from = "^main$", .show_from = "^parse$"), REQUEST(0), "parse 2\n");
}

static void takes_single_threads_by_number_or_name(void **state)
{
	(void)state;
	assert_paths(WORDS(.thread = "1"), REQUEST(0), "main;serve;handle (inline) 1\n");
	assert_paths(WORDS(.thread = "worker"), REQUEST(0), "main;serve;handle (inline) 1\n");
	assert_paths(WORDS(.thread = "2"), REQUEST(0), "");
	struct made made = make(WORDS(.thread = "1"), REQUEST(0));
	assert_true(made.view->total[PROFILE_INUSE_SPACE] == MIB);
	made_free(&made);
}

static void takes_samples_by_tag(void **state)
{
	(void)state;
	const char *const by_thread[] = { "thread=^work" };
	const char *const too_big[] = { "bytes=1025kb:" };
	const char *const right[] = { "bytes=:1mb", "bytes=512kb:2mb" };
	assert_paths(WORDS(.tags = { by_thread, 1 }), REQUEST(0), "main;serve;handle (inline) 1\n");
	assert_paths(WORDS(.tags = { too_big, 1 }), REQUEST(0), "");
	assert_paths(WORDS(.tags = { right, 2 }, .focus = "parse"), REQUEST(0),
		"main;serve;handle (inline);parse 2\n");
}

static void leaves_out_samples_by_tag(void **state)
{
	(void)state;
	const char *const small[] = { "bytes=:1023kb" };
	const char *const any[] = { "bytes=:1023kb", "bytes=1mb:" };
	const char *const by_thread[] = { "thread=^work" };
	const char *const other[] = { "thread=^other" };
	assert_paths(WORDS(.ignored_tags = { small, 1 }, .focus = "parse"), REQUEST(0),
		"main;serve;handle (inline);parse 2\n");
	assert_paths(WORDS(.ignored_tags = { any, 2 }), REQUEST(0), "");
	assert_paths(WORDS(.ignored_tags = { by_thread, 1 }), REQUEST(0), "");
	assert_paths(WORDS(.ignored_tags = { other, 1 }, .tags = { by_thread, 1 }), REQUEST(0),
		"main;serve;handle (inline) 1\n");
}

static void refuses_bad_patterns_and_tags(void **state)
{
	(void)state;
	struct filter *filter = NULL;
	struct error err = { 0 };
	const char *const unknown[] = { "colour=red" };
	static const char *const senseless[] = { "bytes=many", "bytes=nan", "bytes=:nan",
		"bytes=inf", "bytes=0x10", "bytes=-1", "bytes=1.2.3", "bytes=5:1",
		"bytes=1kb:1000" };

	assert_false(filter_new(&WORDS(.focus = "a(b"), &filter, &err));
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_contains(err.message, "invalid pattern 'a(b' at character 4");
	assert_false(filter_new(&WORDS(.tags = { unknown, 1 }), &filter, &err));
	assert_contains(err.message, "invalid tag 'colour=red'");
	for (size_t i = 0; i < sizeof senseless / sizeof *senseless; i++) {
		char wanted[64];

		snprintf(wanted, sizeof wanted, "'%s' is not a range of sizes",
			senseless[i] + strlen("bytes="));
		assert_false(filter_new(&WORDS(.tags = { &senseless[i], 1 }), &filter, &err));
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_contains(err.message, wanted);
	}
}

static void cancels_patterns_that_never_end(void **state)
{
	(void)state;
	static const char slow[] =
		"--- symbol\n0x40010f aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n"
		"---\n--- heap\nheap_v2/1\n  t*: 1: 1 [0: 0]\n"
		"@ 0x400110\n  t*: 1: 1 [0: 0]\n";
	struct profile *const profile = must_read_text(slow);
	struct filter *filter = NULL;
	struct view *view = NULL;
	struct error err = { 0 };

	assert_true(filter_new(&WORDS(.focus = "^(a+)+$"), &filter, &err));
	const struct view_request request = { .filter = filter };
	const struct view_input input = { profile, false };
	assert_false(view_build(&input, 1, &request, &view, &err));
	assert_contains(err.message, "takes too long");
	filter_free(filter);
	profile_free(profile);
}

static char *combine(
	const char *first, const char *second, bool is_base, struct view_request request)
{
	struct profile *const profiles[] = { must_read_text(first), must_read_text(second) };
	const struct view_input inputs[] = { { profiles[0], false }, { profiles[1], is_base } };
	struct filter *filter = NULL;
	struct view *view = NULL;
	struct error err = { 0 };

	assert_true(filter_new(&WORDS(0), &filter, &err));
	request.filter = filter;
	request.counter = PROFILE_INUSE_SPACE;
	if (!view_build(inputs, 2, &request, &view, &err))
		fail_msg("%s", err.message);
	assert_true(view->is_difference == is_base);
	char *const paths = paths_of(view);
	view_free(view);
	filter_free(filter);
	profile_free(profiles[0]);
	profile_free(profiles[1]);
	return paths;
}

static char *difference(const char *now, const char *base, struct view_request request)
{
	return combine(now, base, true, request);
}

/* The same program at another address, as after a restart. */
static const char moved[] = "--- symbol\n"
			    "0x50010f main\n"
			    "0x50020f serve--handle\n"
			    "---\n"
			    "--- heap\n"
			    "heap_v2/1\n"
			    "  t*: 5: 5242880 [0: 0]\n"
			    "@ 0x7000110 0x500210 0x500110\n"
			    "  t*: 3: 3145728 [0: 0]\n"
			    "@ 0x7000110 0x9000210 0x500110\n"
			    "  t*: 2: 2097152 [0: 0]\n"
			    "\n"
			    "MAPPED_LIBRARIES:\n"
			    "500000-501000 r-xp 00000000 00:00 1 /bin/server\n"
			    "7000000-7010000 r-xp 00000000 00:00 2 /lib/libjemalloc.so.2\n"
			    "9000000-9010000 r-xp 00000000 00:00 3 /lib/libparse.so.1\n";

static void subtracts_across_restarts(void **state)
{
	(void)state;
	char *const paths = difference(moved, text, REQUEST(0));
	assert_string_equal(paths, "main;serve;handle (inline) 2\n"
				   "main;[libparse.so.1]+0x20f 1\n"
				   "main;serve;handle (inline);parse -2\n");
	free(paths);
}

static void drops_what_shrank_when_asked(void **state)
{
	(void)state;
	char *const paths = difference(moved, text, REQUEST(.drop_negative = true));
	assert_string_equal(paths, "main;serve;handle (inline) 2\n"
				   "main;[libparse.so.1]+0x20f 1\n"
				   "main;serve;handle (inline);parse 0\n");
	free(paths);
}

/* Collapsed stacks have names as they are printed: short ones, and places for want of one. */
static void subtracts_collapsed_stacks_by_printed_names(void **state)
{
	(void)state;
	static const char heap[] = "--- symbol\n"
				   "0x40010f main\n"
				   "0x40020f cache::grow(unsigned long)\n"
				   "---\n"
				   "--- heap\n"
				   "heap_v2/1\n"
				   "  t*: 3: 3145728 [0: 0]\n"
				   "@ 0x7000110 0x400210 0x400110\n"
				   "  t*: 2: 2097152 [0: 0]\n"
				   "@ 0x7000110 0x8000210 0x400110\n"
				   "  t*: 1: 1048576 [0: 0]\n"
				   "@\n"
				   "  t*: 1: 1048576 [0: 0]\n"
				   "\n" MAPS;
	static const char collapsed[] = "main;cache::grow 1048576\n"
					"[no stack] 1048576\n"
					"main;[libparse.so.1]+0x20f 1048576\n";
	char *const grown = difference(heap, collapsed, REQUEST(0));
	char *const shrunk = difference(collapsed, heap, REQUEST(0));

	assert_string_equal(grown, "main;cache::grow 1\n"
				   "main;[libparse.so.1]+0x20f 0\n"
				   " 0\n");
	assert_string_equal(shrunk, "main;cache::grow -1\n"
				    " 0\n"
				    "main;[libparse.so.1]+0x20f 0\n");
	free(grown);
	free(shrunk);
}

static void adds_collapsed_stacks_without_changing_other_names(void **state)
{
	(void)state;
	static const char heap[] = "--- symbol\n"
				   "0x40010f grow(int)\n"
				   "0x40020f grow(char const*)\n"
				   "---\n"
				   "--- heap\n"
				   "heap_v2/1\n"
				   "  t*: 3: 3145728 [0: 0]\n"
				   "@ 0x7000110 0x400110\n"
				   "  t*: 1: 1048576 [0: 0]\n"
				   "@ 0x7000110 0x400210\n"
				   "  t*: 1: 1048576 [0: 0]\n"
				   "@ 0x7000110 0x8000210\n"
				   "  t*: 1: 1048576 [0: 0]\n"
				   "\n" MAPS;
	char *const paths =
		combine(heap, "main 1048576\n", false, REQUEST(.granularity = VIEW_LINES));

	assert_string_equal(paths, "grow(int) ??:0 1\n"
				   "grow(char const*) ??:0 1\n"
				   "[libparse.so.1]+0x20f 1\n"
				   "main ??:0 1\n");
	free(paths);
}

static void adds_missing_stacks_of_all_forms(void **state)
{
	(void)state;
	static const char collapsed[] = "[no stack] 1048576\n"
					"main;parse 2097152\n"
					"[no stack];parse 1048576\n";
	static const char heap[] = "heap_v2/1\n"
				   "  t*: 1: 1048576 [0: 0]\n"
				   "@\n"
				   "  t*: 1: 1048576 [0: 0]\n"
				   "\n" MAPS;
	char *const paths = combine(collapsed, heap, false, REQUEST(0));

	assert_string_equal(paths, " 2\nmain;parse 2\n[no stack];parse 1\n");
	free(paths);
}

static void subtracts_names_at_any_granularity(void **state)
{
	(void)state;
	char *const paths = difference("main;load(int) 1048576\nmain;load(char) 2097152\n",
		"main;load 1048576\n", REQUEST(.granularity = VIEW_ADDRESSES));

	assert_string_equal(paths, "0000000000000000 main ??:0;0000000000000000 load ??:0 2\n");
	free(paths);
}

static void subtracts_functions_where_one_side_has_no_lines(void **state)
{
	(void)state;
	static const char collapsed[] = "main;serve;handle[inline] 1048576\n"
					"main;serve;handle[inline];parse 2097152\n"
					"main;[libparse.so.1]+0x20f 1048576\n";
	for (int g = 0; g < VIEW_GRANULARITIES; g++) {
		char *const paths = difference(
			text, collapsed, REQUEST(.granularity = (enum view_granularity)g));
		assert_string_equal(paths, "main;serve;handle (inline) 0\n"
					   "main;serve;handle (inline);parse 0\n"
					   "main;[libparse.so.1]+0x20f 0\n");
		free(paths);
	}
}

/* The stacks of one side may all be in a library without debug information. */
static void keeps_the_granularity_where_both_sides_have_addresses(void **state)
{
	(void)state;
	static const char without[] = "--- symbol\n"
				      "0x800010f parse\n"
				      "---\n"
				      "--- heap\n"
				      "heap_v2/1\n"
				      "  t*: 1: 1048576 [0: 0]\n"
				      "@ 0x7000110 0x8000110\n"
				      "  t*: 1: 1048576 [0: 0]\n"
				      "\n" MAPS;
	static const char with[] = "--- symbol\n"
				   "0x800010f parse\n"
				   "0x40010f main\n"
				   "#line 0x40010f\t/src/main.c:7\n"
				   "---\n"
				   "--- heap\n"
				   "heap_v2/1\n"
				   "  t*: 3: 3145728 [0: 0]\n"
				   "@ 0x7000110 0x8000110\n"
				   "  t*: 1: 1048576 [0: 0]\n"
				   "@ 0x7000110 0x400110\n"
				   "  t*: 2: 2097152 [0: 0]\n"
				   "\n" MAPS;
	char *const lines = difference(with, without, REQUEST(.granularity = VIEW_LINES));
	char *const addresses = difference(with, without, REQUEST(.granularity = VIEW_ADDRESSES));

	assert_string_equal(lines, "parse ??:0 0\nmain /src/main.c:7 2\n");
	assert_string_equal(addresses, "000000000800010f parse ??:0 0\n"
				       "000000000040010f main /src/main.c:7 2\n");
	free(lines);
	free(addresses);
}

static void does_not_compare_offsets_of_different_builds(void **state)
{
	(void)state;
	char *rebuilt = xstrdup(moved);
	char *const version = strstr(rebuilt, "libparse.so.1");
	version[12] = '2';
	char *const paths = difference(rebuilt, text, REQUEST(0));
	/* Functions still meet by their names; places without one do not. */
	assert_contains(paths, "main;serve;handle (inline) 2\n");
	assert_contains(paths, "main;[libparse.so.2]+0x20f 2\n");
	assert_contains(paths, "main;[libparse.so.1]+0x20f -1\n");
	free(paths);
	free(rebuilt);
}

static void subtracts_a_profile_from_itself_to_nothing(void **state)
{
	(void)state;
	char *const paths = difference(text, text, REQUEST(0));
	assert_string_equal(paths, "main;serve;handle (inline) 0\n"
				   "main;serve;handle (inline);parse 0\n"
				   "main;[libparse.so.1]+0x20f 0\n");
	free(paths);
}

static void refuses_to_mix_kinds(void **state)
{
	(void)state;
	struct profile *const heap = must_read_text(text);
	struct profile *const other = must_read_text(text);
	const struct view_input inputs[] = { { heap, false }, { other, true } };
	struct filter *filter = NULL;
	struct view *view = NULL;
	struct error err = { 0 };

	other->kind = PROFILE_CONTENTION;
	assert_true(filter_new(&WORDS(0), &filter, &err));
	const struct view_request request = { .filter = filter };
	assert_false(view_build(inputs, 2, &request, &view, &err));
	assert_contains(err.message, "different kinds");
	filter_free(filter);
	profile_free(heap);
	profile_free(other);
}

static void tells_functions_that_look_alike_apart(void **state)
{
	(void)state;
	static const char alike[] = "--- symbol\n"
				    "0x40010f put(int)\n"
				    "0x40020f put(char)\n"
				    "0x800010f init\n"
				    "0x40030f init\n"
				    "---\n"
				    "--- heap\n"
				    "heap_v2/1\n"
				    "  t*: 4: 4 [0: 0]\n"
				    "@ 0x400110\n  t*: 1: 1048576 [0: 0]\n"
				    "@ 0x400210\n  t*: 1: 1048576 [0: 0]\n"
				    "@ 0x8000110\n  t*: 1: 1048576 [0: 0]\n"
				    "@ 0x400310\n  t*: 1: 1048576 [0: 0]\n\n" MAPS;
	struct profile *const profile = must_read_text(alike);
	const struct view_input input = { profile, false };
	struct filter *filter = NULL;
	struct view *view = NULL;
	struct error err = { 0 };

	assert_true(filter_new(&WORDS(0), &filter, &err));
	const struct view_request request = { .filter = filter, .counter = PROFILE_INUSE_SPACE };
	assert_true(view_build(&input, 1, &request, &view, &err));
	char *const paths = paths_of(view);
	assert_string_equal(
		paths, "put(int) 1\nput(char) 1\ninit [libparse.so.1] 1\ninit [server] 1\n");
	free(paths);
	view_free(view);
	filter_free(filter);
	profile_free(profile);
}

/* gperftools' CPU profile with these stacks, one sample each, leaf first, 0 at the end of each. */
static void assert_cpu_paths(
	const char *names, const uint64_t *stacks, bool keep_handler, const char *wanted)
{
	static const uint64_t header[] = { 0, 3, 0, 10000, 0 };
	static const uint64_t trailer[] = { 0, 1, 0 };
	struct buffer bytes;

	buffer_init(&bytes, &memory_or_exit);
	buffer_printf(&bytes, "--- symbol\n%s---\n--- profile\n", names);
	buffer_append(&bytes, header, sizeof header);
	while (stacks[0] != 0) {
		uint64_t count[] = { 1, 0 };
		while (stacks[count[1]] != 0)
			count[1]++;
		buffer_append(&bytes, count, sizeof count);
		buffer_append(&bytes, stacks, count[1] * sizeof *stacks);
		stacks += count[1] + 1;
	}
	buffer_append(&bytes, trailer, sizeof trailer);
	buffer_append_string(&bytes, "1000-2000 r-xp 00000000 fe:00 1 /bin/server\n"
				     "7000-8000 r-xp 00000000 fe:00 2 /lib/libc.so.6\n");
	struct made made = { .profile = must_read(bytes.data, bytes.size) };
	struct error err = { 0 };
	assert_int_equal(made.profile->kind, PROFILE_CPU);
	assert_true(filter_new(&(struct filter_text){ 0 }, &made.filter, &err));
	const struct view_input input = { made.profile, false };
	const struct view_request request = {
		.filter = made.filter,
		.counter = PROFILE_INUSE_OBJECTS,
		.pruning = keep_handler ? PRUNE_NOTHING : PRUNE_WRAPPERS,
	};
	assert_true(view_build(&input, 1, &request, &made.view, &err));
	buffer_clear(&bytes);
	for (size_t i = 0; i < made.view->path_count; i++) {
		const struct view_path *const path = &made.view->paths[i];
		for (uint32_t at = 0; at < path->depth; at++)
			buffer_printf(&bytes, "%s%s", at == 0 ? "" : ";",
				made.view->nodes[made.view->path_nodes[path->first + at]].name);
		buffer_append_string(&bytes, "\n");
	}
	assert_string_equal(buffer_string(&bytes), wanted);
	buffer_deinit(&bytes);
	made_free(&made);
}

#define CPU_NAMES "0x1100 parse\n0x1200 draw\n0x12ff main\n"

static void cuts_the_handler_out_of_cpu_profiles(void **state)
{
	(void)state;
	static const uint64_t stacks[] = { 0x1100, 0x1501, 0x7501, 0x1300, 0, 0x1200, 0x1300, 0,
		0 };
	static const char names[] =
		CPU_NAMES "0x1500 CpuProfiler::prof_handler\n0x7500 __restore_rt\n";

	assert_cpu_paths(names, stacks, false, "main;parse\nmain;draw\n");
	assert_cpu_paths(names, stacks, true,
		"main;__restore_rt;CpuProfiler::prof_handler;parse\nmain;draw\n");
}

static void finds_a_signals_nameless_way_back(void **state)
{
	(void)state;
	static const uint64_t stacks[] = { 0x1100, 0x7501, 0x1300, 0, 0x1200, 0x7501, 0x1300, 0,
		0 };
	static const uint64_t without[] = { 0x1100, 0x7501, 0x1300, 0, 0x1200, 0x7601, 0x1300, 0,
		0 };
	static const uint64_t single[] = { 0x1100, 0x7501, 0x1300, 0, 0 };

	assert_cpu_paths(CPU_NAMES, stacks, false, "main;parse\nmain;draw\n");
	assert_cpu_paths(CPU_NAMES, stacks, true,
		"main;[libc.so.6]+0x500;parse\nmain;[libc.so.6]+0x500;draw\n");
	assert_cpu_paths(CPU_NAMES, without, false,
		"main;[libc.so.6]+0x500;parse\nmain;[libc.so.6]+0x600;draw\n");
	assert_cpu_paths(CPU_NAMES, single, false, "main;[libc.so.6]+0x500;parse\n");
}

static void keeps_a_caller_that_all_samples_share(void **state)
{
	(void)state;
	static const uint64_t named[] = { 0x1100, 0x1300, 0, 0x1200, 0x1300, 0, 0 };
	static const uint64_t nameless[] = { 0x1100, 0x1400, 0, 0x1200, 0x1400, 0, 0 };

	assert_cpu_paths(CPU_NAMES, named, false, "main;parse\nmain;draw\n");
	assert_cpu_paths(CPU_NAMES, nameless, false, "[server]+0x3ff;parse\n[server]+0x3ff;draw\n");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(cuts_the_allocator_off_even_without_names),
	cmocka_unit_test(keeps_the_allocator_when_asked),
	cmocka_unit_test(counts_inlined_functions_as_their_callers_when_asked),
	cmocka_unit_test(totals_without_paths_are_those_of_the_paths),
	cmocka_unit_test(cuts_the_handler_out_of_cpu_profiles),
	cmocka_unit_test(finds_a_signals_nameless_way_back),
	cmocka_unit_test(keeps_a_caller_that_all_samples_share),
	cmocka_unit_test(merges_addresses_of_one_function),
	cmocka_unit_test(shows_addresses_as_they_are_looked_up),
	cmocka_unit_test(focuses_on_stacks_and_ignores_stacks),
	cmocka_unit_test(retains_and_excludes_locations_by_their_outermost_function),
	cmocka_unit_test(shows_and_hides_single_frames),
	cmocka_unit_test(shows_stacks_from_a_match_on),
	cmocka_unit_test(shows_stacks_from_a_match_on_whatever_other_stacks_show),
	cmocka_unit_test(prunes_what_a_function_calls),
	cmocka_unit_test(takes_single_threads_by_number_or_name),
	cmocka_unit_test(takes_samples_by_tag),
	cmocka_unit_test(leaves_out_samples_by_tag),
	cmocka_unit_test(refuses_bad_patterns_and_tags),
	cmocka_unit_test(cancels_patterns_that_never_end),
	cmocka_unit_test(subtracts_across_restarts),
	cmocka_unit_test(drops_what_shrank_when_asked),
	cmocka_unit_test(subtracts_collapsed_stacks_by_printed_names),
	cmocka_unit_test(adds_collapsed_stacks_without_changing_other_names),
	cmocka_unit_test(adds_missing_stacks_of_all_forms),
	cmocka_unit_test(subtracts_names_at_any_granularity),
	cmocka_unit_test(subtracts_functions_where_one_side_has_no_lines),
	cmocka_unit_test(keeps_the_granularity_where_both_sides_have_addresses),
	cmocka_unit_test(does_not_compare_offsets_of_different_builds),
	cmocka_unit_test(subtracts_a_profile_from_itself_to_nothing),
	cmocka_unit_test(refuses_to_mix_kinds),
	cmocka_unit_test(tells_functions_that_look_alike_apart),
};

UNIT_MAIN(tests)
