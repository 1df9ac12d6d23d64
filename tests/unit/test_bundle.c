/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/bundle.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "profile_texts.h"

static const char heap[] = "heap_v2/524288\n"
			   "  t*: 1: 64 [0: 0]\n"
			   "@ 0x400110\n"
			   "  t*: 1: 64 [0: 0]\n"
			   "\nMAPPED_LIBRARIES:\n"
			   "400000-401000 r-xp 00000000 00:00 1 /bin/server\n";

static const char about[] = "{\"bundle\":1,\"time_ms\":1763600000123}";

static struct buffer make(void)
{
	struct buffer out;

	buffer_init(&out, &memory_or_exit);
	tar_append(&out, BUNDLE_ABOUT, about, strlen(about), 1763600000123);
	tar_append(&out, "unknown", "x", 1, 0);
	tar_append(&out, BUNDLE_PROFILE, heap, strlen(heap), 1763600000123);
	tar_append(&out, "stats.json", "{}", 2, 0);
	tar_finish(&out);
	return out;
}

static void reads_its_profile_and_the_time(void **state)
{
	(void)state;
	struct buffer text = make();
	struct profile *const profile = must_read(text.data, text.size);

	assert_int_equal(profile->sample_count, 1);
	assert_int_equal(profile->mapping_count, 1);
	assert_true(profile->time_ms == 1763600000123);
	profile_free(profile);
	buffer_deinit(&text);
}

/* Wherever the cut is: a member is missing without an error, or a part of it is there. */
static void a_bundle_that_was_cut_anywhere_is_refused(void **state)
{
	(void)state;
	struct buffer text = make();

	for (size_t size = 4096; size > 512; size -= 64) {
		struct profile *profile = NULL;
		struct error err = { 0 };
		if (text.size - size < 1024)
			continue;
		if (profile_read("cut", text.data, text.size - size, NULL, &profile, &err))
			fail_msg("%zu of %zu bytes are enough", text.size - size, text.size);
		assert_contains(err.message, "truncated");
	}
	assert_refused(text.data, text.size - 1024, "the archive is truncated: it has no end");
	buffer_deinit(&text);
}

static void finds_members(void **state)
{
	(void)state;
	struct buffer text = make();
	struct cursor in = cursor_over(text.data, text.size), member;

	assert_true(bundle_find(&in, "stats.json", &member));
	assert_int_equal(cursor_left(&member), 2);
	assert_memory_equal(member.start, "{}", 2);
	in = cursor_over(text.data, text.size);
	assert_true(bundle_find(&in, "smaps", &member));
	assert_null(member.start);
	buffer_deinit(&text);
}

/* The type of a member is in its checksum. */
static void set_type(char *header, char type)
{
	enum { TYPE_AT = 156, SUM_AT = 148 };
	unsigned sum = (unsigned)strtoul(header + SUM_AT, NULL, 8);

	sum += (unsigned)(type - header[TYPE_AT]);
	header[TYPE_AT] = type;
	snprintf(header + SUM_AT, 7, "%06o", sum);
}

static void passes_over_what_is_no_file(void **state)
{
	(void)state;
	struct cursor in, member;
	struct buffer text;

	buffer_init(&text, &memory_or_exit);
	tar_append(&text, "stats.json", "", 0, 0);
	set_type(text.data, '5');
	tar_append(&text, "stats.json", "{}", 2, 0);
	tar_finish(&text);
	in = cursor_over(text.data, text.size);
	assert_true(bundle_find(&in, "stats.json", &member));
	assert_int_equal(cursor_left(&member), 2);
	buffer_deinit(&text);
}

static void refuses_every_truncation(void **state)
{
	(void)state;
	struct buffer text = make();
	/* The last member and the end are not needed for the profile. */
	const size_t needed = 3 * 512 + 512 + 512 + 2 * 512;
	struct profile *profile = NULL;
	struct error err = { 0 };

	for (size_t size = 0; size < text.size; size++) {
		const bool done = profile_read("cut", text.data, size, NULL, &profile, &err);
		if (done) {
			assert_true(size + 1024 > needed);
			profile_free(profile);
			profile = NULL;
		} else {
			assert_non_null(strstr(err.message, "cut"));
		}
	}
	buffer_deinit(&text);
}

static void survives_every_damaged_byte(void **state)
{
	(void)state;
	struct buffer text = make();

	for (size_t at = 0; at < text.size; at++) {
		struct profile *profile = NULL;
		struct error err = { 0 };
		text.data[at] = (char)(text.data[at] ^ 0x41);
		if (profile_read("damaged", text.data, text.size, NULL, &profile, &err))
			profile_free(profile);
		text.data[at] = (char)(text.data[at] ^ 0x41);
	}
	buffer_deinit(&text);
}

static void says_where_the_damage_is(void **state)
{
	(void)state;
	struct buffer text = make();

	text.data[1024 + 5] ^= 1;
	assert_refused(text.data, text.size, "byte 1024: the archive is damaged");
	buffer_deinit(&text);
}

static void refuses_another_format(void **state)
{
	(void)state;
	static const struct {
		const char *about, *message;
	} cases[] = {
		{ "{\"bundle\":2,\"time_ms\":1}", "it is a bundle of format 2" },
		{ "nonsense", "is damaged: it has no format number" },
		{ "", "is damaged: it has no format number" },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buffer text;
		buffer_init(&text, &memory_or_exit);
		tar_append(&text, BUNDLE_ABOUT, cases[i].about, strlen(cases[i].about), 0);
		tar_append(&text, BUNDLE_PROFILE, heap, strlen(heap), 0);
		tar_finish(&text);
		assert_refused(text.data, text.size, cases[i].message);
		buffer_deinit(&text);
	}
}

static void refuses_a_bundle_in_a_bundle(void **state)
{
	(void)state;
	struct buffer inner = make(), outer;

	buffer_init(&outer, &memory_or_exit);
	tar_append(&outer, BUNDLE_ABOUT, about, strlen(about), 0);
	tar_append(&outer, BUNDLE_PROFILE, inner.data, inner.size, 0);
	tar_finish(&outer);
	assert_refused(outer.data, outer.size, "is not a profile of any known format");
	buffer_deinit(&inner);
	buffer_deinit(&outer);
}

static void reads_a_profile_with_names_in_a_bundle(void **state)
{
	(void)state;
	static const char names[] = "--- symbol\n0x40010f serve\n---\n--- heap\n";
	CLEANUP(free_cleanup) char *named = xasprintf("%s%s", names, heap);
	struct buffer out;

	buffer_init(&out, &memory_or_exit);
	tar_append(&out, BUNDLE_ABOUT, about, strlen(about), 0);
	tar_append(&out, BUNDLE_PROFILE, named, strlen(named), 0);
	tar_finish(&out);
	struct profile *const profile = must_read(out.data, out.size);
	assert_int_equal(profile->sample_count, 1);
	assert_int_equal(profile->frame_count, 1);
	assert_string_equal(profile->frames[0].function, "serve");
	profile_free(profile);
	buffer_deinit(&out);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reads_its_profile_and_the_time),
	cmocka_unit_test(a_bundle_that_was_cut_anywhere_is_refused),
	cmocka_unit_test(finds_members),
	cmocka_unit_test(passes_over_what_is_no_file),
	cmocka_unit_test(refuses_every_truncation),
	cmocka_unit_test(survives_every_damaged_byte),
	cmocka_unit_test(says_where_the_damage_is),
	cmocka_unit_test(refuses_another_format),
	cmocka_unit_test(refuses_a_bundle_in_a_bundle),
	cmocka_unit_test(reads_a_profile_with_names_in_a_bundle),
};

UNIT_MAIN(tests)
