/* SPDX-License-Identifier: Apache-2.0 */
#include "base/hash_index.h"

#include <stdio.h>
#include <string.h>

#include "base/string_pool.h"
#include "unit.h"

static bool is_number(const void *items, uint32_t position, const void *key)
{
	return ((const uint64_t *)items)[position] == *(const uint64_t *)key;
}

static void finds_every_key_after_growing(void **state)
{
	(void)state;
	static uint64_t keys[20000];
	struct hash_index index;
	hash_index_init(&index);
	for (uint32_t i = 0; i < 20000; i++) {
		const uint64_t key = (uint64_t)i * 4096;
		assert_int_equal(hash_index_add(&index, hash_u64(key), is_number, keys, &key, i),
			HASH_INDEX_NONE);
		keys[i] = key;
	}
	for (uint32_t i = 0; i < 20000; i++) {
		const uint64_t key = (uint64_t)i * 4096;
		assert_int_equal(hash_index_find(&index, hash_u64(key), is_number, keys, &key), i);
		assert_int_equal(
			hash_index_add(&index, hash_u64(key), is_number, keys, &key, 77777), i);
	}
	const uint64_t absent = 1;
	assert_int_equal(hash_index_find(&index, hash_u64(absent), is_number, keys, &absent),
		HASH_INDEX_NONE);
	hash_index_deinit(&index);
}

/*
 * Without a key a factor of the product can be made zero, and all texts that begin so are one: the
 * index becomes a list.
 */
static void texts_made_to_collide_do_not(void **state)
{
	(void)state;
	uint64_t words[2] = { hash_fixed_u64(sizeof words), 0 };
	const uint64_t weak = hash_fixed_bytes(words, sizeof words);
	uint64_t last = 0;

	for (words[1] = 1; words[1] < 100; words[1]++) {
		const uint64_t hash = hash_bytes(words, sizeof words);
		assert_int_equal(hash_fixed_bytes(words, sizeof words), weak);
		assert_int_not_equal(hash, last);
		assert_int_not_equal(hash_u64(words[1]), hash_fixed_u64(words[1]));
		last = hash;
	}
}

static void interns_equal_texts_to_one_pointer(void **state)
{
	(void)state;
	struct string_pool pool;
	string_pool_init(&pool);
	const char *const first = string_pool_add(&pool, "malloc");
	for (int i = 0; i < 5000; i++) {
		char text[32];
		snprintf(text, sizeof text, "function_%d", i);
		string_pool_add(&pool, text);
	}
	assert_ptr_equal(string_pool_add_sized(&pool, "malloc_usable_size", 6), first);
	assert_ptr_not_equal(string_pool_add(&pool, "mallo"), first);
	assert_string_equal(string_pool_add(&pool, ""), "");
	assert_int_equal(pool.count, 5003);
	string_pool_deinit(&pool);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(finds_every_key_after_growing),
	cmocka_unit_test(texts_made_to_collide_do_not),
	cmocka_unit_test(interns_equal_texts_to_one_pointer),
};
UNIT_MAIN(tests)
