/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/unpack.h"

#include <stdlib.h>
#include <string.h>

#include <zlib.h>
#include <zstd.h>

#include "base/xalloc.h"
#include "unit.h"

enum { LARGE_BYTES = (40 << 20) + 12345 };

/* Contents that shrink a little, and the same packed. */
struct contents {
	unsigned char *plain;
	unsigned char *packed;
	size_t packed_size;
};

static void contents_deinit(struct contents *contents)
{
	free(contents->plain);
	free(contents->packed);
}

static void contents_init(struct contents *contents, enum unpack_format format)
{
	uLongf zlib_size = compressBound(LARGE_BYTES);
	const size_t room = ZSTD_compressBound(LARGE_BYTES) + zlib_size;

	contents->plain = xmalloc(LARGE_BYTES);
	for (size_t i = 0; i < LARGE_BYTES; i++)
		contents->plain[i] = (unsigned char)(i >> (i / 4096 % 16));
	contents->packed = xmalloc(room);
	if (format == UNPACK_ZSTD) {
		contents->packed_size =
			ZSTD_compress(contents->packed, room, contents->plain, LARGE_BYTES, 1);
		return;
	}
	assert_int_equal(
		compress2(contents->packed, &zlib_size, contents->plain, LARGE_BYTES, 1), Z_OK);
	contents->packed_size = zlib_size;
}

static void check(enum unpack_format format, bool may_populate)
{
	CLEANUP(contents_deinit) struct contents contents = { 0 };
	struct elf_bytes bytes = { 0 };
	struct error err;

	contents_init(&contents, format);
	assert_true(unpack_sized(format, contents.packed, contents.packed_size, LARGE_BYTES,
		may_populate, &bytes, &err));
	assert_int_equal(bytes.size, LARGE_BYTES);
	assert_memory_equal(bytes.data, contents.plain, LARGE_BYTES);
	elf_bytes_free(&bytes);
	/* Half of the contents, and more than there is. */
	assert_false(unpack_sized(format, contents.packed, contents.packed_size / 2, LARGE_BYTES,
		may_populate, &bytes, &err));
	assert_false(unpack_sized(format, contents.packed, contents.packed_size, LARGE_BYTES + 1,
		may_populate, &bytes, &err));
	assert_string_equal(err.message, "the compressed contents are damaged");
}

static void large_contents_of_zlib_are_complete(void **state)
{
	(void)state;
	check(UNPACK_ZLIB, false);
	check(UNPACK_ZLIB, true);
}

static void large_contents_of_zstd_are_complete(void **state)
{
	(void)state;
	check(UNPACK_ZSTD, true);
}

static void sizes_that_cannot_be_are_refused_before_memory_is_taken(void **state)
{
	struct elf_bytes bytes = { 0 };
	struct error err;

	(void)state;
	assert_false(unpack_sized(UNPACK_ZLIB, "packed", 6, UINT64_C(1) << 40, true, &bytes, &err));
	assert_string_equal(err.message, "6 compressed bytes cannot hold 1099511627776");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(large_contents_of_zlib_are_complete),
	cmocka_unit_test(large_contents_of_zstd_are_complete),
	cmocka_unit_test(sizes_that_cannot_be_are_refused_before_memory_is_taken),
};
UNIT_MAIN(tests)
