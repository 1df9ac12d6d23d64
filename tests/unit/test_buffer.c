/* SPDX-License-Identifier: Apache-2.0 */
#include "base/buffer.h"

#include <string.h>

#include "unit.h"

static void grows_and_keeps_contents(void **state)
{
	(void)state;
	struct buffer buffer;
	buffer_init(&buffer, &memory_heap);
	for (int i = 0; i < 1000; i++)
		buffer_printf(&buffer, "%d,", i);
	assert_false(buffer.failed);
	assert_int_equal(buffer.size, 10 * 2 + 90 * 3 + 900 * 4);
	assert_contains(buffer_string(&buffer), "998,999,");
	buffer_deinit(&buffer);
}

static void pages_serve_the_resident_side(void **state)
{
	(void)state;
	struct buffer buffer;
	buffer_init(&buffer, &memory_pages);
	for (int i = 0; i < 10000; i++)
		buffer_append(&buffer, "0123456789", 10);
	assert_int_equal(buffer.size, 100000);
	assert_memory_equal(buffer.data + 99990, "0123456789", 10);
	buffer_deinit(&buffer);
	assert_null(buffer.data);
}

static void fails_for_good_at_its_limit(void **state)
{
	(void)state;
	struct buffer buffer;
	buffer_init(&buffer, &memory_heap);
	buffer.limit = 8;
	buffer_append_string(&buffer, "12345678");
	assert_false(buffer.failed);
	buffer_append_char(&buffer, '9');
	assert_true(buffer.failed);
	buffer.limit = SIZE_MAX;
	buffer_append_char(&buffer, '9');
	assert_int_equal(buffer.size, 8);
	buffer_deinit(&buffer);
}

static void prints_more_than_it_had_room_for(void **state)
{
	(void)state;
	char wide[5000];
	memset(wide, 'x', sizeof wide - 1);
	wide[sizeof wide - 1] = '\0';
	struct buffer buffer;
	buffer_init(&buffer, &memory_heap);
	buffer_printf(&buffer, "<%s>", wide);
	assert_int_equal(buffer.size, 5001);
	assert_int_equal(buffer.data[5000], '>');
	buffer_deinit(&buffer);
}

struct drained {
	size_t bytes;
	unsigned pieces;
	bool fails;
};

static bool take(void *context, const char *data, size_t size)
{
	struct drained *const drained = context;

	assert_int_equal(data[0], 'a');
	drained->bytes += size;
	drained->pieces++;
	return !drained->fails;
}

static void hands_a_long_output_over_in_pieces(void **state)
{
	(void)state;
	CLEANUP(buffer_deinit) struct buffer buffer = { 0 };
	struct drained drained = { 0 };
	const struct buffer_drain drain = { take, &drained };
	const size_t records = 3 * 1024 * 1024 / 4 + 1;

	buffer_init(&buffer, &memory_heap);
	buffer.drain = &drain;
	for (size_t i = 0; i < records; i++) {
		buffer_append_string(&buffer, "abc\n");
		buffer_drain(&buffer);
	}
	assert_int_equal(drained.pieces, 3);
	assert_int_equal(drained.bytes + buffer.size, 4 * records);
	assert_true(buffer.capacity < 3 * 1024 * 1024);

	drained.fails = true;
	for (size_t i = 0; i < records; i++) {
		buffer_append_string(&buffer, "abc\n");
		buffer_drain(&buffer);
	}
	assert_true(buffer.failed);
	assert_int_equal(drained.pieces, 4);
	assert_int_equal(buffer.size, 0);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(grows_and_keeps_contents),
	cmocka_unit_test(pages_serve_the_resident_side),
	cmocka_unit_test(fails_for_good_at_its_limit),
	cmocka_unit_test(prints_more_than_it_had_room_for),
	cmocka_unit_test(hands_a_long_output_over_in_pieces),
};
UNIT_MAIN(tests)
