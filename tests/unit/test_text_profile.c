/* SPDX-License-Identifier: Apache-2.0 */
/* gperftools' text formats, contention profiles, collapsed stacks. */
#include "profile_texts.h"

static const char *function_at(
	const struct profile *profile, const struct profile_sample *sample, size_t depth)
{
	const struct profile_stack *const stack = &profile->stacks[sample->stack];

	assert_true(depth < stack->depth);
	const struct profile_location *const location =
		&profile->locations[profile->stack_locations[stack->first + depth]];
	assert_int_equal(location->frame_count, 1);
	return profile->frames[location->first_frame].function;
}

static void reads_tcmallocs_heap_profile(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *profile = must_read_text(
		"heap profile:   1246:  8800744 [  1247:  8800745] @ heap_v2/524288\n"
		"     1:     4096 [     2:     8192] @ 0x40f2a1 0x40c77d\n"
		"  1245: 8796648 [ 1245: 8796648] @\n"
		"\nMAPPED_LIBRARIES:\n"
		"00400000-00500000 r-xp 00000000 fe:00 1 /usr/bin/server\n");

	assert_int_equal(profile->kind, PROFILE_HEAP);
	assert_int_equal(profile->weighting, PROFILE_EXPONENTIAL);
	assert_int_equal(profile->interval_bytes, 524288);
	assert_counters(profile->header_counters, 1246, 8800744, 1247, 8800745);
	assert_int_equal(profile->sample_count, 2);
	assert_counters(profile->samples[0].counters, 1, 4096, 2, 8192);
	assert_true(address_at(profile, &profile->samples[0], 1) == 0x40c77d);
	assert_int_equal(profile->stacks[profile->samples[1].stack].depth, 0);
	assert_string_equal(profile->program, "/usr/bin/server");
	assert_int_equal(profile->locations[0].mapping, 0);
}

static void the_first_line_says_how_counters_are_meant(void **state)
{
	(void)state;
	static const struct {
		const char *first_line;
		enum profile_kind kind;
		enum profile_weighting weighting;
		uint64_t interval_bytes;
	} cases[] = {
		{ "1: 2 [1: 2] @ heapprofile", PROFILE_HEAP, PROFILE_WEIGHTED, 0 },
		{ "1: 2 [1: 2] @ heap/1048576", PROFILE_HEAP, PROFILE_RATIO, 1048576 },
		{ "1: 2 [1: 2] @ heap", PROFILE_HEAP, PROFILE_RATIO, 262144 },
		{ "1: 2 [1: 2] @ heapz_v2", PROFILE_HEAP, PROFILE_EXPONENTIAL, 131072 },
		{ "1: 2 [1: 2] @ growthz/1", PROFILE_GROWTH, PROFILE_WEIGHTED, 0 },
		{ "1: 2 [1: 2] @ fragmentation", PROFILE_HEAP, PROFILE_WEIGHTED, 0 },
		{ "1: 2 [1: 2]", PROFILE_HEAP, PROFILE_RATIO, 262144 },
		{ "1: 2 [1: 3]", PROFILE_HEAP, PROFILE_WEIGHTED, 0 },
		{ "1: 2 [3: 2] @", PROFILE_HEAP, PROFILE_WEIGHTED, 0 },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[128];
		snprintf(text, sizeof text, "heap profile: %s\n1: 2 [1: 2] @ 0x1\n",
			cases[i].first_line);
		CLEANUP(profile_cleanup) struct profile *profile = must_read_text(text);
		assert_int_equal(profile->kind, cases[i].kind);
		assert_int_equal(profile->weighting, cases[i].weighting);
		assert_int_equal(profile->interval_bytes, cases[i].interval_bytes);
		assert_int_equal(profile->sample_count, 1);
	}
}

static void gperftools_own_memory_map_is_understood(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *profile =
		must_read_text("heap profile: 1: 2 [1: 2] @ heapprofile\n1: 2 [1: 2] @ 0x40001000\n"
			       "--- Memory map:\n  build=/opt/lib\n"
			       "  40000000-40015000: $build/ld-2.3.2.so\n");

	assert_int_equal(profile->mapping_count, 1);
	assert_string_equal(profile->mappings[0].path, "/opt/lib/ld-2.3.2.so");
	assert_int_equal(profile->locations[0].mapping, 0);
}

static void malformed_gperftools_lines_are_reported(void **state)
{
	(void)state;
	assert_text_refused("heap profile: 1: 2 [1: 2", "']' was expected");
	assert_text_refused("heap profile: 1: 2 [1: 2] @ heap\n1: 2 [1: 2] @ 0x1 0x2",
		"it ends in the middle of a stack: truncated");
	assert_text_refused("heap profile: 1: 2 [1: 2] @ heap\n1: 2 [1: 2] 0x1\n",
		"byte 45: '@' was expected before the stack");
	assert_text_refused(
		"heap profile: 1: 2 [1: 2] @ heap\n1: 2 [1: 2] @ 0x1 zz\n", "byte 51: an address");
}

static void contention_becomes_nanoseconds(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *profile =
		must_read_text("--- contention:\ncycles/second = 2000000000\nsampling period = 10\n"
			       "ms since reset = 5\n    3000   7 @ 0x1 0x2\n  500 @ 0x3\n"
			       "slow release thread 3  @ 0x4\n"
			       "MAPPED_LIBRARIES:\n1-9 r-xp 00000000 fe:00 1 /bin/a\n");

	assert_int_equal(profile->kind, PROFILE_CONTENTION);
	assert_int_equal(profile->sample_count, 2);
	assert_counters(profile->samples[0].counters, 70, 15000, 0, 0);
	assert_counters(profile->samples[1].counters, 10, 2500, 0, 0);
	assert_int_equal(profile->comment_count, 2);
	assert_int_equal(profile->mapping_count, 1);
	assert_text_refused("--- contention:\ncycles/second = 0\n", "it must be above 0");
	CLEANUP(profile_cleanup)
	struct profile *const off =
		must_read_text("--- mutex:\ncycles/second=1000000000\nsampling period=0\n");
	assert_int_equal(off->sample_count, 0);
	CLEANUP(profile_cleanup)
	struct profile *const go =
		must_read_text("--- mutex:\ncycles/second=1000000000\n"
			       "sampling period=1\n459 2 @ 0x4b62be 0x4b6225\n"
			       "#\t0x4b62bd\tsync.(*Mutex).Unlock+0xbd\t/mutex.go:2\n");
	assert_int_equal(go->kind, PROFILE_CONTENTION);
	assert_int_equal(go->sample_count, 1);
	assert_string_equal(function_at(go, &go->samples[0], 0), "sync.(*Mutex).Unlock");
	assert_string_equal(function_at(go, &go->samples[0], 1), "runtime.goexit");
	assert_text_refused("--- mutex:\ncycles/second=1\n459 2 @ 0x4b62be 0x4b62",
		"it ends in the middle of a stack: truncated");
	assert_text_refused("--- mutex:\ncycles/second=1\n459 2 @ 0x4b62be 0x4b6225\n"
			    "#\t0x4b62bd\tsync.(*Mutex).Un",
		"it ends in the middle of a name: truncated");
}

static void go_samples_as_jemalloc_does_and_names_its_stacks(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *profile =
		must_read_text("heap profile: 2: 30 [2: 30] @ heap/8192\n"
			       "1: 10 [1: 10] @ 0x4b3f0c 0x4b3f0c 0x4b3ec7 0x461121\n"
			       "#\t0x4b3f0b\tmain.fill[...]+0x6b\t\t/src/main.go:4\n"
			       "#\t0x4b3f0b\tmain.fill[...]+0x6b\t\t/src/main.go:4\n"
			       "#\t0x4b3ec6\tmain.inner+0x26\t/src/main.go:9\n"
			       "#\t0x4b3ec6\tmain.outer+0x26\t/src/main.go:6\n\n"
			       "1: 20 [1: 20] @ 0x1001 0x4b3ec7 0x461121\n"
			       "#\t0x4b3ec6\tmain.inner+0x26\t/src/main.go:9\n"
			       "#\t0x4b3ec6\tmain.outer+0x26\t/src/main.go:6\n\n"
			       "# runtime.MemStats\n");

	assert_int_equal(profile->weighting, PROFILE_EXPONENTIAL);
	assert_int_equal(profile->interval_bytes, 4096);
	assert_int_equal(profile->comment_count, 1);
	assert_int_equal(profile->frame_count, 4);
	assert_string_equal(function_at(profile, &profile->samples[0], 1), "main.fill[...]");
	assert_string_equal(function_at(profile, &profile->samples[0], 3), "runtime.goexit");
	/* Of the second stack, the leaf is a function of the runtime, which has no line. */
	const struct profile_stack *const stack = &profile->stacks[profile->samples[1].stack];
	const struct profile_location *const inlined =
		&profile->locations[profile->stack_locations[stack->first]];
	assert_int_equal(stack->depth, 2);
	const struct profile_frame *const frames = &profile->frames[inlined->first_frame];
	assert_int_equal(inlined->frame_count, 2);
	assert_string_equal(frames[0].function, "main.inner");
	assert_string_equal(frames[1].function, "main.outer");
	assert_string_equal(frames[1].file, "/src/main.go");
	assert_int_equal(frames[1].line, 6);
}

static void a_cut_shows_in_any_sum_of_the_first_line(void **state)
{
	(void)state;
	static const char all[] = "heap profile: 1: 2 [3: 8] @ heapprofile\n1: 2 [2: 4] @ 0x1\n"
				  "0: 0 [1: 4] @ 0x2\n";
	char cut[sizeof all];

	snprintf(cut, sizeof cut, "%.*s", (int)(strstr(all, "0: 0") - all), all);
	CLEANUP(profile_cleanup) struct profile *const whole = must_read_text(all);
	CLEANUP(profile_cleanup) struct profile *const part = must_read_text(cut);
	assert_false(whole->lacks_stacks);
	assert_true(part->lacks_stacks);
}

static void go_samples_all_or_nothing(void **state)
{
	(void)state;
	static const struct {
		const char *period;
		bool is_complete;
	} cases[] = { { "2", true }, { "0", false } };

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char text[128];
		snprintf(text, sizeof text,
			"heap profile: 1: 10 [1: 10] @ heap/%s\n1: 10 [1: 10] @ 0x2 "
			"0x3\n#\t0x1\tf+0x1\n",
			cases[i].period);
		CLEANUP(profile_cleanup) struct profile *profile = must_read_text(text);
		assert_int_equal(profile->weighting, PROFILE_WEIGHTED);
		assert_int_equal(profile->interval_bytes, 0);
		assert_int_equal(profile->is_complete, cases[i].is_complete);
	}
}

static void a_go_line_without_a_name_names_nothing(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *profile = must_read_text(
		"heap profile: 1: 10 [1: 10] @ heap/8192\n1: 10 [1: 10] @ 0x1001 0x2001 0x3001\n"
		"#\t0x1000\n#\t0x2000\tmain.main\n#\t0x3000\n#\t0x9000\tmain.other+0x1\n"
		"#\t0xfffffffffffffffff\tx\n#\t0x\n");

	assert_int_equal(profile->weighting, PROFILE_EXPONENTIAL);
	assert_int_equal(profile->frame_count, 1);
	assert_string_equal(function_at(profile, &profile->samples[0], 1), "main.main");
	assert_string_equal(profile->frames[0].file, "");
}

static void reads_collapsed_stacks(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *profile =
		must_read_text("# made elsewhere\nmain;serve(int, char);parse 4096\n\n"
			       "main;serve(int, char) 12.5\nmain;serve(int, char);parse -4");

	assert_int_equal(profile->weighting, PROFILE_WEIGHTED);
	assert_int_equal(profile->sample_count, 3);
	assert_int_equal(profile->stack_count, 2);
	assert_int_equal(profile->location_count, 3);
	assert_string_equal(function_at(profile, &profile->samples[0], 0), "parse");
	assert_string_equal(function_at(profile, &profile->samples[0], 1), "serve(int, char)");
	assert_string_equal(function_at(profile, &profile->samples[0], 2), "main");
	assert_counters(profile->samples[0].counters, 0, 4096, 0, 0);
	assert_true(profile->samples[1].counters[PROFILE_INUSE_SPACE] == 12.5);
	assert_counters(profile->samples[2].counters, 0, -4, 0, 0);
	assert_int_equal(profile->comment_count, 1);
}

static void a_bad_collapsed_line_is_reported_with_its_place(void **state)
{
	(void)state;
	assert_text_refused("a;b 1\na;c\n", "byte 6: a stack and its value were expected");
	assert_text_refused("a;b 1\na;c nan\n", "byte 6: a stack and its value were expected");
	assert_text_refused("a;b 1\na;", "byte 6: it ends in the middle of a stack");
}

/* As its addresses are in the other formats: what is read can be written as `--raw`. */
static void a_collapsed_stack_has_a_limit(void **state)
{
	(void)state;
	enum { FRAME_BYTES = 2, FIRST_BYTES = 6 };
	const size_t size = FIRST_BYTES + (PROFILE_STACK_LIMIT + 1) * FRAME_BYTES + 1;
	CLEANUP(free_cleanup) char *text = malloc(size);
	assert_non_null(text);
	memcpy(text, "a;b 1\n", FIRST_BYTES);
	for (size_t i = FIRST_BYTES; i + FRAME_BYTES < size; i += FRAME_BYTES)
		memcpy(text + i, "f;", FRAME_BYTES);
	memcpy(text + size - 2, " 1", 2);

	assert_refused(text, size, "byte 6: a stack of more than 65536 frames");
	memcpy(text + FIRST_BYTES, "ff", 2);
	CLEANUP(profile_cleanup) struct profile *profile = must_read(text, size);
	assert_int_equal(profile->stacks[profile->samples[1].stack].depth, PROFILE_STACK_LIMIT);
}

static void what_is_no_profile_is_refused(void **state)
{
	(void)state;
	static const char zeros[4096];

	assert_text_refused("", "byte 0: it is empty");
	assert_text_refused("%warn nothing\n", "byte 14: it is empty");
	assert_text_refused("hello\nworld\n", "byte 0: not a profile of any known format");
	assert_refused(zeros, sizeof zeros, "byte 0: not a profile of any known format");
	assert_refused("\x7f"
		       "ELF\2\1\1\0\0\0\0",
		11, "not a profile of any known format");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reads_tcmallocs_heap_profile),
	cmocka_unit_test(the_first_line_says_how_counters_are_meant),
	cmocka_unit_test(gperftools_own_memory_map_is_understood),
	cmocka_unit_test(malformed_gperftools_lines_are_reported),
	cmocka_unit_test(contention_becomes_nanoseconds),
	cmocka_unit_test(go_samples_as_jemalloc_does_and_names_its_stacks),
	cmocka_unit_test(a_cut_shows_in_any_sum_of_the_first_line),
	cmocka_unit_test(go_samples_all_or_nothing),
	cmocka_unit_test(a_go_line_without_a_name_names_nothing),
	cmocka_unit_test(reads_collapsed_stacks),
	cmocka_unit_test(a_bad_collapsed_line_is_reported_with_its_place),
	cmocka_unit_test(a_collapsed_stack_has_a_limit),
	cmocka_unit_test(what_is_no_profile_is_refused),
};
UNIT_MAIN(tests)
