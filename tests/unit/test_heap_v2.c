/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "profile/raw_write.h"
#include "profile_texts.h"

static const char example[] =
	"heap_v2/524288\n"
	"  t*: 28: 1500 [30: 1600]\n"
	"  t0: 20: 1000 [21: 1010]\n"
	"  t3: 8: 500 [9: 590] worker pool 3\n"
	"@ 0x7f06a3a2630f 0x55d41fef4427 0xffffffffff600401\n"
	"  t*: 18: 900 [0: 0]\n"
	"  t0: 10: 400 [0: 0]\n"
	"  t3: 8: 500 [9: 590]\n"
	"@ 0x7f06a3a2630f\n"
	"  t*: 10: 600 [11: 700]\n"
	"  t0: 10: 600 [11: 700]\n"
	"\n"
	"MAPPED_LIBRARIES:\n"
	"55d41fef2000-55d41fef8000 r-xp 00002000 fe:00 24797    /usr/bin/a b\n"
	"7f06a3000000-7f06a3b00000 r-xp 00000000 fe:00 9 /lib/x.so (deleted)\n"
	"7f06a4000000-7f06a4b00000 rw-p 00000000 00:00 0 \n"
	"7ffd3a5f2000-7ffd3a5f4000 r-xp 00000000 00:00 0          [vdso]\n";

static void reads_what_jemalloc_writes(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup) struct profile *const profile = must_read_text(example);

	assert_int_equal(profile->weighting, PROFILE_EXPONENTIAL);
	assert_int_equal(profile->interval_bytes, 524288);
	assert_counters(profile->header_counters, 28, 1500, 30, 1600);
	assert_true(profile->has_allocated);
	assert_int_equal(profile->sample_count, 2);
	assert_counters(profile->samples[0].counters, 18, 900, 0, 0);
	assert_counters(profile->samples[1].counters, 10, 600, 11, 700);
	assert_int_equal(profile->stacks[profile->samples[0].stack].depth, 3);
	assert_true(address_at(profile, &profile->samples[0], 0) == 0x7f06a3a2630f);
	assert_true(address_at(profile, &profile->samples[0], 1) == 0x55d41fef4427);
	assert_true(address_at(profile, &profile->samples[0], 2) == 0xffffffffff600401);
	assert_int_equal(profile->location_count, 3);
}

static void tells_threads_apart(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup) struct profile *const profile = must_read_text(example);

	assert_int_equal(profile->thread_count, 2);
	assert_int_equal(profile->threads[1].id, 3);
	assert_string_equal(profile->threads[1].name, "worker pool 3");
	assert_string_equal(profile->threads[0].name, "");
	assert_counters(profile->threads[1].counters, 8, 500, 9, 590);
	assert_int_equal(profile->thread_sample_count, 3);
	assert_int_equal(profile->thread_samples[1].thread, 1);
	assert_counters(profile->thread_samples[1].counters, 8, 500, 9, 590);
	assert_int_equal(profile->samples[0].thread, PROFILE_NONE);
}

static void threads_that_are_not_requested_are_left_out(void **state)
{
	(void)state;
	const struct profile_read_options options = { .leaves_out_threads = true };
	struct profile *profile = NULL;
	struct error err = { 0 };

	assert_true(profile_read("test", example, strlen(example), &options, &profile, &err));
	assert_int_equal(profile->sample_count, 2);
	assert_int_equal(profile->thread_sample_count, 0);
	assert_string_equal(profile->threads[1].name, "worker pool 3");
	profile_free(profile);
}

static void finds_the_mapping_of_each_address(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup) struct profile *const profile = must_read_text(example);

	assert_true(profile->has_mappings);
	assert_int_equal(profile->mapping_count, 4);
	assert_string_equal(profile->program, "/usr/bin/a b");
	assert_string_equal(profile->mappings[profile->locations[0].mapping].path, "/lib/x.so");
	assert_true(profile->mappings[profile->locations[0].mapping].deleted);
	assert_int_equal(profile->mappings[profile->locations[1].mapping].file_offset, 0x2000);
	assert_int_equal(profile->locations[2].mapping, PROFILE_NONE);
	assert_string_equal(profile->mappings[2].path, "");
	assert_string_equal(profile->mappings[3].path, "[vdso]");
}

static void a_return_address_belongs_to_the_mapping_of_its_call(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *const profile =
		must_read_text("heap_v2/1\nt*: 1: 1 [0: 0]\n@ 0x2000 0x1000\nt*: 1: 1 [0: 0]\n"
			       "MAPPED_LIBRARIES:\n"
			       "1000-2000 r-xp 00000000 fe:00 1 /bin/a\n");

	assert_int_equal(profile->locations[0].mapping, 0);
	assert_int_equal(profile->locations[1].mapping, PROFILE_NONE);
}

static void an_empty_heap_is_a_profile(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *const profile = must_read_text("heap_v2/4096\n  t*: 0: 0 [0: 0]\n");

	assert_int_equal(profile->sample_count, 0);
	assert_false(profile->has_mappings);
	assert_false(profile->has_allocated);
	assert_string_equal(profile->program, "");
}

static void a_stack_may_be_empty(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *const profile =
		must_read_text("heap_v2/4096\n  t*: 1: 5 [0: 0]\n@\n  t*: 1: 5 [0: 0]\n"
			       "@ \n  t*: 2: 7 [0: 0]\n");

	assert_int_equal(profile->sample_count, 2);
	assert_int_equal(profile->stack_count, 1);
	assert_int_equal(profile->stacks[0].depth, 0);
}

static void equal_stacks_are_stored_once(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *const profile =
		must_read_text("heap_v2/4096\n t*: 2: 5 [0: 0]\n@ 0x1 0x2\n t*: 1: 5 [0: 0]\n"
			       "@ 0x2 0x1\n t*: 1: 5 [0: 0]\n@ 0x1 0x2\n t*: 1: 5 [0: 0]\n");

	assert_int_equal(profile->sample_count, 3);
	assert_int_equal(profile->stack_count, 2);
	assert_int_equal(profile->samples[0].stack, profile->samples[2].stack);
	assert_int_equal(profile->location_count, 2);
}

/* As many again and again, also of those that are looked up together. */
static void equal_stacks_far_apart_are_stored_once(void **state)
{
	(void)state;
	enum { STACKS = 500 };
	static const unsigned periods[] = { 1, 2, 7, 31, 32, 33, 100, STACKS };

	for (size_t p = 0; p < sizeof periods / sizeof *periods; p++) {
		CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
		buffer_append_string(&text, "heap_v2/4096\n t*: 2: 5 [0: 0]\n");
		for (unsigned i = 0; i < STACKS; i++) {
			buffer_append_string(&text, "@");
			for (unsigned depth = 0; depth < i % periods[p] % 5 + 1; depth++)
				buffer_printf(&text, " 0x%x", 0x1000 + i % periods[p] + depth);
			buffer_printf(&text, "\n t*: %u: 5 [0: 0]\n t1: %u: 5 [0: 0]\n", i, i);
		}
		CLEANUP(profile_cleanup)
		struct profile *const profile = must_read_text(buffer_string(&text));
		assert_int_equal(profile->stack_count, periods[p]);
		assert_int_equal(profile->sample_count, STACKS);
		assert_int_equal(profile->thread_sample_count, STACKS);
		for (unsigned i = 0; i < STACKS; i++) {
			const struct profile_sample *const sample = &profile->samples[i];
			assert_int_equal(sample->stack, i % periods[p]);
			assert_int_equal(profile->thread_samples[i].stack, i % periods[p]);
			assert_true(sample->counters[PROFILE_INUSE_OBJECTS] == i);
			assert_int_equal(
				profile->stacks[sample->stack].depth, i % periods[p] % 5 + 1);
			assert_true(address_at(profile, sample, 0) == 0x1000 + i % periods[p]);
		}
	}
}

static void lines_of_unknown_meaning_become_comments(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *const profile =
		must_read_text("%warn old\nheap_v2/4096\n  t*: 1: 5 [0: 0]\nfrag_util: 7\n@ 0x1\n"
			       "  t*: 1: 5 [0: 0]\n  f: 0/3: 12\n");

	assert_int_equal(profile->comment_count, 3);
	assert_string_equal(profile->comments[0], "%warn old");
	assert_string_equal(profile->comments[1], "frag_util: 7");
	assert_string_equal(profile->comments[2], "f: 0/3: 12");
	assert_int_equal(profile->sample_count, 1);
}

static void check_sampling(const char *line, const char *wanted)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	CLEANUP(buffer_deinit) struct buffer said = { 0 };
	CLEANUP(buffer_deinit) struct buffer written = { 0 };
	struct error err;

	buffer_init(&text, &memory_or_exit);
	buffer_init(&said, &memory_or_exit);
	buffer_init(&written, &memory_or_exit);
	buffer_printf(&text, "heap_v2/512\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n%s", line);
	struct profile *const profile = must_read_text(buffer_string(&text));
	profile_describe_sampling(profile, &said);
	assert_string_equal(buffer_string(&said), wanted);
	assert_true(raw_write(profile, &written, &err));
	assert_string_equal(buffer_string(&written), buffer_string(&text));
	profile_free(profile);
}

static void says_what_took_the_samples_and_since_when(void **state)
{
	(void)state;
	check_sampling("", "");
	check_sampling("#sampling jemalloc\n", "sampled by jemalloc");
	check_sampling("#sampling jemalloc since 1763716881123\n",
		"sampled by jemalloc since 2025-11-21 09:21:21 UTC, without what was allocated "
		"before");
	check_sampling("#sampling jemalloc since 1763716881123 attached 1763716881100 at "
		       "1763717601200\n",
		"sampled by jemalloc since the attach 12 min earlier (2025-11-21 09:21:21 UTC), "
		"without what was allocated before");
	/* After a reset the time of the attach does not matter. */
	check_sampling("#sampling jemalloc since 1763716881123 attached 1763716000000 at "
		       "1763717601200\n",
		"sampled by jemalloc since 2025-11-21 09:21:21 UTC, without what was allocated "
		"before");
	check_sampling("#sampling heapctl from-start mapped\n",
		"sampled by heapctl from the start, with memory that the program mapped itself, "
		"and without calls of malloc that stay within a module");
	check_sampling("#sampling heapctl since 1763716881123 attached 1763716881100 at "
		       "1763717601200 entry\n",
		"sampled by heapctl since the attach 12 min earlier (2025-11-21 09:21:21 UTC), "
		"without what was allocated before");
	check_sampling("#sampling heapctl from-start\n",
		"sampled by heapctl from the start, and without calls of malloc that stay within "
		"a module");
}

/* heapctl's sampler writes them; with a stack that has none, and again when the profile is written.
 */
static void temporary_allocations_can_be_left_alone(void **state)
{
	(void)state;
	static const char text[] = "heap_v2/512\n  t*: 3: 30 [9: 900]\n#temporary 5: 500\n"
				   "@ 0x1\n  t*: 1: 10 [4: 400]\n"
				   "@ 0x2\n  t*: 2: 20 [5: 500]\n#temporary 5: 500\n"
				   "\nMAPPED_LIBRARIES:\n";
	CLEANUP(buffer_deinit) struct buffer written = { 0 };
	struct profile *const profile = must_read_text(text);
	struct error err;

	assert_true(profile->has_temporary);
	assert_int_equal(profile->comment_count, 0);
	buffer_init(&written, &memory_or_exit);
	assert_true(raw_write(profile, &written, &err));
	assert_string_equal(buffer_string(&written), text);
	assert_true(profile_select_temporary(profile, &err));
	assert_true(profile->samples[0].counters[PROFILE_ALLOC_OBJECTS] == 0);
	assert_true(profile->samples[1].counters[PROFILE_ALLOC_OBJECTS] == 5);
	assert_true(profile->samples[1].counters[PROFILE_ALLOC_SPACE] == 500);
	assert_true(profile->samples[1].counters[PROFILE_INUSE_SPACE] == 0);
	assert_true(profile->header_counters[PROFILE_ALLOC_SPACE] == 500);
	profile_free(profile);

	struct profile *const other = must_read_text(example);
	assert_false(profile_select_temporary(other, &err));
	assert_int_equal(err.kind, ERROR_INPUT);
	profile_free(other);
	assert_text_refused("heap_v2/1\n t*: 1: 1 [0: 0]\n#temporary 3\n", "a colon was expected");
}

static void windows_line_ends_do_not_matter(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *const profile = must_read_text(
		"heap_v2/4096\r\n  t*: 1: 5 [0: 0]\r\n@ 0x1 0x2\r\n  t*: 1: 5 [0: 0]\r\n");

	assert_int_equal(profile->stacks[0].depth, 2);
	assert_int_equal(profile->sample_count, 1);
}

/* Numbers are read in another way where there is room to load several bytes at once. */
static const char far_from_the_end[] = "a line of unknown meaning, which is longer than the reach "
				       "of all that reads numbers several digits at a time\n";

static void counters_of_all_lengths_are_read(void **state)
{
	(void)state;
	char text[4096] = "heap_v2/1\n t*: 1: 5 [0: 0]\n";
	for (unsigned digits = 1; digits <= 12; digits++)
		snprintf(text + strlen(text), sizeof text - strlen(text),
			"@ 0x1\nt*: %.*s: %.*s [%.*s: %.*s]\n", digits, "987654321098", 13 - digits,
			"1234567890123", digits, "000000000000", digits, "100000000000");
	strcat(text, far_from_the_end);
	CLEANUP(profile_cleanup) struct profile *const profile = must_read_text(text);

	assert_int_equal(profile->sample_count, 12);
	for (unsigned digits = 1; digits <= 12; digits++) {
		const double shift = pow(10, 12 - digits);
		assert_counters(profile->samples[digits - 1].counters, floor(987654321098 / shift),
			floor(1234567890123 / pow(10, digits)), 0, 100000000000 / shift);
	}
}

static void addresses_of_all_lengths_are_read(void **state)
{
	(void)state;
	char text[512] = "heap_v2/1\n t*: 1: 5 [0: 0]\n@";
	for (unsigned digits = 1; digits <= 16; digits++)
		snprintf(text + strlen(text), sizeof text - strlen(text), " 0x%.*s", (int)digits,
			"f9E8d7C6b5A40312");
	strcat(text, "\n t*: 1: 5 [0: 0]\n");
	strcat(text, far_from_the_end);
	CLEANUP(profile_cleanup) struct profile *const profile = must_read_text(text);

	assert_int_equal(profile->stacks[0].depth, 16);
	for (unsigned digits = 1; digits <= 16; digits++)
		assert_true(address_at(profile, &profile->samples[0], digits - 1) ==
			    UINT64_C(0xf9e8d7c6b5a40312) >> 4 * (16 - digits));
}

static void address_zero_is_an_address(void **state)
{
	(void)state;
	char text[512] = "heap_v2/1\n t*: 1: 5 [0: 0]\n@ 0x0 0x1 0x0\n  t*: 1: 5 [0: 0]\n"
			 "@ 0x1 0x0\n  t*: 1: 5 [0: 0]\n";
	strcat(text, far_from_the_end);
	CLEANUP(profile_cleanup) struct profile *const profile = must_read_text(text);

	assert_int_equal(profile->location_count, 2);
	assert_int_equal(profile->stacks[0].depth, 3);
	assert_true(address_at(profile, &profile->samples[0], 0) == 0);
	assert_true(address_at(profile, &profile->samples[0], 1) == 1);
	assert_true(address_at(profile, &profile->samples[0], 2) == 0);
	assert_true(address_at(profile, &profile->samples[1], 1) == 0);
}

static void truncation_is_reported_with_its_place(void **state)
{
	(void)state;
	const char *const maps = strstr(example, "MAPPED");
	const size_t stacks = (size_t)(maps - example);
	size_t refused = 0;

	for (size_t size = 0; size < stacks; size++) {
		struct profile *profile = NULL;
		struct error err = { 0 };
		if (!profile_read("web.heap", example, size, NULL, &profile, &err)) {
			refused++;
			assert_contains(err.message, "web.heap: byte ");
		}
		profile_free(profile);
	}
	/* What remains readable is cut exactly behind a line of counters, or a digit of one. */
	assert_in_range(refused, stacks * 8 / 10, stacks);
	assert_refused(example, strlen("heap_v2/524288\n"), "byte 15: it ends before the totals");
	assert_refused(example, stacks - 2 * strlen("  t*: 10: 600 [11: 700]\n") - 2,
		"byte 234: it ends between a stack and its counters");
	assert_refused(example, sizeof example - 40, "it ends in the middle of a mapping");
	const size_t path_end = (size_t)(strstr(example, " (deleted)") - example);
	assert_refused(example, path_end, "it ends in the middle of a mapping");
	assert_refused(example, path_end - 2, "it ends in the middle of a mapping");
	/* The names of the kernel's own mappings say where they end. */
	struct profile *whole = NULL;
	struct error err = { 0 };
	assert_true(profile_read("whole", example, sizeof example - 2, NULL, &whole, &err));
	profile_free(whole);
}

static void malformed_lines_are_reported_with_their_place(void **state)
{
	(void)state;
	const char *const header = "heap_v2/4096\n  t*: 1: 5 [0: 0]\n";
	static const struct {
		const char *line;
		const char *problem;
	} cases[] = {
		{ "@ 0x1g\n", "byte 36: an address was expected" },
		{ "@ x\n", "byte 33: an address was expected" },
		{ "@ 0x123456789012345678901234567890\n", "an address of more than 64 bits" },
		{ "t1: 5: 5 [5: 99999999999999999999999]\n", "a number of more than 64 bits" },
		{ "t1: 5: -5 [5: 9]\n", "byte 38: a number was expected" },
		{ "t1: 5 5 [5: 9]\n", "byte 37: a colon was expected after the number of objects" },
		{ "t1: 5: 5 (5: 9)\n", "'[' was expected" },
		{ "t1: 5: 5 [5: 9\n", "']' was expected" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[256];
		snprintf(text, sizeof text, "%s%s", header, cases[i].line);
		assert_text_refused(text, cases[i].problem);
		strcat(text, far_from_the_end);
		assert_text_refused(text, cases[i].problem);
	}
	assert_text_refused("heap_v2/abc\n", "byte 8: a number was expected");
}

static void a_line_without_end_is_refused(void **state)
{
	(void)state;
	const size_t size = 3 * 1024 * 1024;
	CLEANUP(free_cleanup) char *text = malloc(size);
	assert_non_null(text);
	memset(text, 'x', size);
	memcpy(text, "heap_v2/1\n", 10);
	assert_refused(text, size, "byte 10: a line of more than a million bytes");

	memset(text, ' ', size);
	memcpy(text, "heap_v2/1\n@", 11);
	for (size_t i = 12; i + 1 < size; i += 2)
		text[i] = '1';
	assert_refused(text, size, "a stack of more than 65536 frames");
}

/* It stands in front of each path, so a long one would fill the memory from a few lines. */
static void a_build_directory_is_no_longer_than_a_path(void **state)
{
	(void)state;
	static char text[8192];
	size_t size = (size_t)snprintf(
		text, sizeof text, "%s", "heap_v2/1\n  t*: 1: 1 [0: 0]\nMAPPED_LIBRARIES:\nbuild=");

	memset(text + size, 'x', 5000);
	size += 5000;
	size += (size_t)snprintf(text + size, sizeof text - size,
		"\n00400000-00401000 r-xp 00000000 00:00 1 $build/program\n");
	assert_refused(text, size, "a build directory longer than a path can be");
}

/* As cat writes them. */
static void several_profiles_in_one_are_refused(void **state)
{
	(void)state;
	static const char first[] = "heap_v2/1\n  t*: 1: 2 [0: 0]\n@ 0x1\n  t*: 1: 2 [0: 0]\n";
	static const char *const between[] = { "",
		"\nMAPPED_LIBRARIES:\n1000-2000 r-xp 00000000 00:00 0 /bin/a\n" };
	static const char *const next[] = { first,
		"heap profile: 1: 2 [3: 4] @ heapprofile\n1: 2 [3: 4] @ 0x1\n",
		"--- symbol\n---\n--- heap\nheap_v2/1\n  t*: 1: 2 [0: 0]\n" };
	char text[512];

	for (size_t i = 0; i < 2 * (sizeof next / sizeof *next); i++) {
		snprintf(text, sizeof text, "%s%s%s", first, between[i % 2], next[i / 2]);
		assert_text_refused(text, "another profile begins here");
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reads_what_jemalloc_writes),
	cmocka_unit_test(tells_threads_apart),
	cmocka_unit_test(threads_that_are_not_requested_are_left_out),
	cmocka_unit_test(finds_the_mapping_of_each_address),
	cmocka_unit_test(a_return_address_belongs_to_the_mapping_of_its_call),
	cmocka_unit_test(an_empty_heap_is_a_profile),
	cmocka_unit_test(a_stack_may_be_empty),
	cmocka_unit_test(equal_stacks_are_stored_once),
	cmocka_unit_test(equal_stacks_far_apart_are_stored_once),
	cmocka_unit_test(lines_of_unknown_meaning_become_comments),
	cmocka_unit_test(says_what_took_the_samples_and_since_when),
	cmocka_unit_test(temporary_allocations_can_be_left_alone),
	cmocka_unit_test(windows_line_ends_do_not_matter),
	cmocka_unit_test(counters_of_all_lengths_are_read),
	cmocka_unit_test(addresses_of_all_lengths_are_read),
	cmocka_unit_test(address_zero_is_an_address),
	cmocka_unit_test(truncation_is_reported_with_its_place),
	cmocka_unit_test(malformed_lines_are_reported_with_their_place),
	cmocka_unit_test(a_line_without_end_is_refused),
	cmocka_unit_test(a_build_directory_is_no_longer_than_a_path),
	cmocka_unit_test(several_profiles_in_one_are_refused),
};
UNIT_MAIN(tests)
