/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>

#include "base/buffer.h"
#include "profile_texts.h"

struct shape {
	bool is_64_bits;
	bool is_big_endian;
};

static void put(struct buffer *out, struct shape shape, uint64_t word)
{
	const uint64_t wide = shape.is_big_endian ? htobe64(word) : htole64(word);
	const uint32_t narrow =
		shape.is_big_endian ? htobe32((uint32_t)word) : htole32((uint32_t)word);

	if (shape.is_64_bits)
		buffer_append(out, &wide, sizeof wide);
	else
		buffer_append(out, &narrow, sizeof narrow);
}

static void put_all(struct buffer *out, struct shape shape, const uint64_t *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		put(out, shape, words[i]);
}

static const uint64_t words[] = {
	0, 3, 0, 10000, 0,    /* header: 10 ms */
	5, 2, 0x1500, 0x1700, /* 5 samples of a stack */
	1, 1, 0x1700,	      /* 1 of another one */
	0, 1, 0,	      /* the end */
};

static void reads_words_of_all_shapes(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		const struct shape shape = { i & 1, i & 2 };
		struct buffer bytes;
		buffer_init(&bytes, &memory_heap);
		put_all(&bytes, shape, words, sizeof words / sizeof *words);
		buffer_append_string(&bytes, "1000-2000 r-xp 00000000 fe:00 1 /bin/a\n");
		CLEANUP(profile_cleanup)
		struct profile *profile = must_read(bytes.data, bytes.size);
		buffer_deinit(&bytes);

		assert_int_equal(profile->kind, PROFILE_CPU);
		assert_int_equal(profile->sample_count, 2);
		assert_counters(profile->samples[0].counters, 5, 50000000, 0, 0);
		assert_true(address_at(profile, &profile->samples[0], 0) == 0x1500);
		assert_true(address_at(profile, &profile->samples[0], 1) == 0x1700);
		assert_string_equal(profile->program, "/bin/a");
	}
}

/* The same address is another place when it is returned to. */
static void only_the_leaf_is_exact(void **state)
{
	(void)state;
	const struct shape shape = { true, false };
	struct buffer bytes;
	buffer_init(&bytes, &memory_heap);
	put_all(&bytes, shape, words, sizeof words / sizeof *words);
	CLEANUP(profile_cleanup) struct profile *profile = must_read(bytes.data, bytes.size);
	buffer_deinit(&bytes);

	assert_int_equal(profile->location_count, 3);
	assert_true(profile->locations[0].is_exact);
	assert_false(profile->locations[1].is_exact);
	assert_true(profile->locations[2].is_exact);
}

static void truncation_is_reported(void **state)
{
	(void)state;
	const struct shape shape = { true, false };
	struct buffer bytes;
	buffer_init(&bytes, &memory_heap);
	put_all(&bytes, shape, words, sizeof words / sizeof *words);
	assert_refused(bytes.data, 8 * 8, "byte 56: it ends in the middle of a stack");
	assert_refused(bytes.data, 9 * 8, "it ends too early");
	put(&bytes, shape, 0);
	bytes.data[6 * 8 + 4] = 1;
	assert_refused(bytes.data, bytes.size, "a stack of more than 65536 frames");
	buffer_deinit(&bytes);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reads_words_of_all_shapes),
	cmocka_unit_test(only_the_leaf_is_exact),
	cmocka_unit_test(truncation_is_reported),
};
UNIT_MAIN(tests)
