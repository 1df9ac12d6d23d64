/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/raw_write.h"

#include "profile_texts.h"

static void assert_written(const struct profile *profile, const char *text)
{
	struct buffer out;
	struct error err = { 0 };

	buffer_init(&out, &memory_heap);
	assert_true(raw_write(profile, &out, &err));
	assert_string_equal(buffer_string(&out), text);
	buffer_deinit(&out);
}

static void heap_v2_comes_out_as_it_went_in(void **state)
{
	(void)state;
	static const char text[] =
		"heap_v2/524288\n"
		"  t*: 28: 1500 [30: 1600]\n"
		"  t0: 20: 1000 [21: 1010]\n"
		"  t3: 8: 500 [9: 590] worker pool 3\n"
		"@ 0x7f06a3a2630f 0x55d41fef4427\n"
		"  t*: 18: 900 [0: 0]\n"
		"  t3: 8: 500 [9: 590]\n"
		"  t0: 10: 400 [0: 0]\n"
		"@\n"
		"  t*: 1: 2 [0: 0]\n"
		"@ 0x7f06a3a2630f\n"
		"  t*: 10: 600 [11: 700]\n"
		"  t0: 10: 600 [11: 700]\n"
		"\n"
		"MAPPED_LIBRARIES:\n"
		"55d41fef2000-55d41fef8000 r-xp 00002000 00:00 0 /usr/bin/a b\n"
		"#build-id 55d41fef2000 0123abcd\n"
		"7f06a3000000-7f06a3b00000 r--p 00000000 00:00 0 /lib/x.so (deleted)\n"
		"7f06a4000000-7f06a4b00000 r--p 00000000 00:00 0 \n"
		"#process redis server\n";
	CLEANUP(profile_cleanup) struct profile *profile = must_read_text(text);

	assert_string_equal(profile->mappings[0].build_id, "0123abcd");
	assert_string_equal(profile->mappings[1].build_id, "");
	assert_string_equal(profile->process_name, "redis server");
	assert_written(profile, text);
}

static void counters_keep_their_meaning(void **state)
{
	(void)state;
	static const char *const texts[] = {
		"heap profile: 1: 2 [3: 4] @ heapprofile\n1: 2 [3: 4] @ 0x1 0x2\n",
		"heap profile: 1: 2 [3: 4] @ growth\n1: 2 [3: 4] @ 0x1 0x2\n",
		"heap profile: 1: 2 [3: 4] @ heap/1048576\n1: 2 [3: 4] @ 0x1 0x2\n",
		("heap profile: 1: 2 [3: 4] @ heapprofile\n1: 2 [3: 4] @ 0x1 0x2\n"
		 "\nMAPPED_LIBRARIES:\n#interval 524288\n"),
	};

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		CLEANUP(profile_cleanup) struct profile *profile = must_read_text(texts[i]);
		assert_written(profile, texts[i]);
	}
}

static void other_kinds_are_refused(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *profile = must_read_text("--- contention\n1 2 @ 0x1\n");
	struct buffer out;
	struct error err = { 0 };

	buffer_init(&out, &memory_heap);
	assert_false(raw_write(profile, &out, &err));
	assert_int_equal(err.kind, ERROR_UNSUPPORTED);
	buffer_deinit(&out);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(heap_v2_comes_out_as_it_went_in),
	cmocka_unit_test(counters_keep_their_meaning),
	cmocka_unit_test(other_kinds_are_refused),
};
UNIT_MAIN(tests)
