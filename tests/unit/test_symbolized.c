/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/symbolized.h"

#include "profile_texts.h"

/* What jeprof writes, caller first; the name of a return address stands one before it. */
static const char example[] = "--- symbol\n"
			      "binary=/usr/bin/server\n"
			      "0x0000000000401fff main\n"
			      "0x402fff outer--middle(int)--inner\n"
			      "0x403000 leaf\n"
			      "0x403fff 0x0000000000403fff\n"
			      "---\n"
			      "--- heap\n"
			      "heap_v2/524288\n"
			      "  t*: 1: 10 [0: 0]\n"
			      "@ 0x403000 0x403000 0x402000\n"
			      "  t*: 1: 10 [0: 0]\n"
			      "@ 0x404000\n"
			      "  t*: 1: 10 [0: 0]\n";

static const struct profile_frame *frame_of(
	const struct profile *profile, uint64_t address, uint32_t depth)
{
	for (size_t i = 0; i < profile->location_count; i++) {
		const struct profile_location *const location = &profile->locations[i];
		if (location->address != address)
			continue;
		return depth < location->frame_count
			       ? &profile->frames[location->first_frame + depth]
			       : NULL;
	}
	fail_msg("no location at %llx", (unsigned long long)address);
	return NULL;
}

static void reads_what_jeprof_writes(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup) struct profile *profile = must_read_text(example);

	assert_string_equal(profile->program, "/usr/bin/server");
	assert_int_equal(profile->interval_bytes, 524288);
	assert_int_equal(profile->sample_count, 2);
	assert_string_equal(frame_of(profile, 0x402000, 0)->function, "main");
	assert_string_equal(frame_of(profile, 0x403000, 0)->function, "inner");
	assert_string_equal(frame_of(profile, 0x403000, 1)->function, "middle(int)");
	assert_string_equal(frame_of(profile, 0x403000, 2)->function, "outer");
	assert_null(frame_of(profile, 0x403000, 3));
	assert_null(frame_of(profile, 0x404000, 0));
}

static void a_leaf_is_named_at_its_own_address(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *profile = must_read_text(
		"--- symbol\n0x403000 leaf\n---\nheap_v2/1\nt*: 1: 1 [0: 0]\n@ 0x403000\n"
		"t*: 1: 1 [0: 0]\n");

	assert_string_equal(frame_of(profile, 0x403000, 0)->function, "leaf");
}

static void the_second_half_stands_alone(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *heap = must_read_text("--- heap\nheap_v2/1\nt*: 1: 1 [0: 0]\n");
	CLEANUP(profile_cleanup)
	struct profile *growth = must_read_text(
		"---  growthz ---\nheap profile: 1: 2 [1: 2] @ growthz\n1: 2 [1: 2] @ 0x1\n");

	assert_int_equal(heap->weighting, PROFILE_EXPONENTIAL);
	assert_int_equal(growth->kind, PROFILE_GROWTH);
}

static void a_body_with_names_keeps_them(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *profile = must_read_text("--- symbol\n0x0 other\n---\nmain;serve 7\n");

	assert_int_equal(profile->locations[0].frame_count, 1);
	assert_string_equal(profile->frames[profile->locations[0].first_frame].function, "serve");
}

static void malformed_input_is_reported(void **state)
{
	(void)state;
	assert_text_refused("--- symbol\n0x1 a\n", "byte 17: it ends in the middle of the names");
	assert_text_refused("--- symbol\n---\n--- heap\n", "byte 24: no profile follows the names");
	assert_text_refused("--- symbol\n---\nhello\n", "byte 15: no profile of any known format");
	assert_text_refused("--- symbol\n---\n--- heap\n--- heap\n--- heap\n",
		"no profile of any known format follows");
	assert_text_refused("--- symbol\n---\n--- heap\nheap_v2/z\n", "byte 32: a number");
}

/* Reads what symbolized_write makes of the profile. */
static struct profile *written_and_read(const struct profile *profile)
{
	struct buffer out;
	struct error err = { 0 };

	buffer_init(&out, &memory_heap);
	if (!symbolized_write(profile, NULL, &out, &err))
		fail_msg("%s", err.message);
	struct profile *const again = must_read(out.data, out.size);
	buffer_deinit(&out);
	return again;
}

static void writes_what_it_reads(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup) struct profile *profile = must_read_text(example);
	profile->frames[0].file = profile_intern(profile, "/src/inner.c");
	profile->frames[0].line = 12;
	CLEANUP(profile_cleanup) struct profile *again = written_and_read(profile);

	assert_string_equal(again->program, "/usr/bin/server");
	assert_int_equal(again->sample_count, 2);
	assert_string_equal(frame_of(again, 0x402000, 0)->function, "main");
	assert_string_equal(frame_of(again, 0x403000, 2)->function, "outer");
	assert_string_equal(frame_of(again, 0x403000, 0)->file, "/src/inner.c");
	assert_int_equal(frame_of(again, 0x403000, 0)->line, 12);
	assert_string_equal(frame_of(again, 0x403000, 1)->file, "");
	assert_null(frame_of(again, 0x404000, 0));
}

/* "--" would separate two names, and an address and "??" are not names elsewhere. */
static void names_stay_without_addresses(void **state)
{
	(void)state;
	static const char *const names[] = { "operator--(A&)", "a---b", "0x1234", "??", "main" };
	CLEANUP(profile_cleanup)
	struct profile *profile = must_read_text("main;??;0x1234;a---b;operator--(A&) 10\n");
	CLEANUP(profile_cleanup) struct profile *again = written_and_read(profile);

	assert_int_equal(again->weighting, PROFILE_WEIGHTED);
	assert_counters(again->samples[0].counters, 0, 10, 0, 0);
	assert_int_equal(again->location_count, 5);
	for (size_t i = 0; i < again->location_count; i++) {
		const struct profile_location *const location = &again->locations[i];
		assert_true(location->is_named);
		assert_true(location->address == 0);
		assert_int_equal(location->frame_count, 1);
		assert_string_equal(again->frames[location->first_frame].function, names[i]);
	}
}

static void an_operator_separates_no_names(void **state)
{
	(void)state;
	CLEANUP(profile_cleanup)
	struct profile *profile = must_read_text("--- symbol\n"
						 "0x401fff my_operator--It::operator--()--inner\n"
						 "0x402fff operator----outer\n"
						 "---\n"
						 "--- heap\n"
						 "heap_v2/524288\n"
						 "  t*: 1: 10 [0: 0]\n"
						 "@ 0x404000 0x403000 0x402000\n"
						 "  t*: 1: 10 [0: 0]\n");

	assert_string_equal(frame_of(profile, 0x402000, 0)->function, "inner");
	assert_string_equal(frame_of(profile, 0x402000, 1)->function, "It::operator--()");
	assert_string_equal(frame_of(profile, 0x402000, 2)->function, "my_operator");
	assert_string_equal(frame_of(profile, 0x403000, 0)->function, "outer");
	assert_string_equal(frame_of(profile, 0x403000, 1)->function, "operator--");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reads_what_jeprof_writes),
	cmocka_unit_test(a_leaf_is_named_at_its_own_address),
	cmocka_unit_test(the_second_half_stands_alone),
	cmocka_unit_test(a_body_with_names_keeps_them),
	cmocka_unit_test(malformed_input_is_reported),
	cmocka_unit_test(writes_what_it_reads),
	cmocka_unit_test(names_stay_without_addresses),
	cmocka_unit_test(an_operator_separates_no_names),
};
UNIT_MAIN(tests)
