/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile_read.h"

#include <fcntl.h>
#include <lzma.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "profile_texts.h"

static const char heap_text[] = "heap_v2/4096\n  t*: 1: 5 [0: 0]\n@ 0x1\n  t*: 1: 5 [0: 0]\n";

static void gzip(const void *data, size_t size, struct buffer *out)
{
	z_stream stream = { 0 };

	assert_int_equal(deflateInit2(&stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, 0), Z_OK);
	const size_t bound = deflateBound(&stream, size);
	assert_true(buffer_reserve(out, bound));
	stream.next_in = (Bytef *)(uintptr_t)data;
	stream.avail_in = (uInt)size;
	stream.next_out = (Bytef *)out->data + out->size;
	stream.avail_out = (uInt)bound;
	assert_int_equal(deflate(&stream, Z_FINISH), Z_STREAM_END);
	out->size += stream.total_out;
	deflateEnd(&stream);
}

static void zstd(const void *data, size_t size, struct buffer *out)
{
	const size_t bound = ZSTD_compressBound(size);

	assert_true(buffer_reserve(out, bound));
	const size_t got = ZSTD_compress(out->data + out->size, bound, data, size, 1);
	assert_false(ZSTD_isError(got));
	out->size += got;
}

static void xz(const void *data, size_t size, struct buffer *out)
{
	const size_t bound = lzma_stream_buffer_bound(size);
	size_t at = out->size;

	assert_true(buffer_reserve(out, bound));
	assert_int_equal(lzma_easy_buffer_encode(0, LZMA_CHECK_CRC32, NULL, data, size,
				 (uint8_t *)out->data, &at, at + bound),
		LZMA_OK);
	out->size = at;
}

static void xz_is_undone(void **state)
{
	(void)state;
	struct buffer packed;

	buffer_init(&packed, &memory_heap);
	xz(heap_text, sizeof heap_text - 1, &packed);
	profile_free(must_read(packed.data, packed.size));
	assert_refused(packed.data, packed.size - 3, "the xz data end too early");
	packed.data[24] ^= 0x55;
	assert_refused(packed.data, packed.size, "bad xz data");
	buffer_clear(&packed);
	xz(heap_text, 20, &packed);
	xz(heap_text + 20, sizeof heap_text - 21, &packed);
	profile_free(must_read(packed.data, packed.size));
	buffer_deinit(&packed);
}

/* xz's form before 2009, whose files end in .lzma. */
static void lzma_is_undone(void **state)
{
	(void)state;
	lzma_options_lzma options;
	lzma_stream stream = LZMA_STREAM_INIT;
	uint8_t packed[4096];

	assert_false(lzma_lzma_preset(&options, 6));
	assert_int_equal(lzma_alone_encoder(&stream, &options), LZMA_OK);
	stream.next_in = (const uint8_t *)heap_text;
	stream.avail_in = sizeof heap_text - 1;
	stream.next_out = packed;
	stream.avail_out = sizeof packed;
	assert_int_equal(lzma_code(&stream, LZMA_FINISH), LZMA_STREAM_END);
	lzma_end(&stream);
	const size_t size = sizeof packed - stream.avail_out;
	profile_free(must_read(packed, size));
	assert_refused(packed, size - 8, "the lzma data end too early");
	packed[24] ^= 0x55;
	assert_refused(packed, size, "bad lzma data");
}

static void other_compressions_are_named(void **state)
{
	(void)state;
	static const char bzip2[] = "BZh91AY&SY\x12\x34";
	struct profile *profile = NULL;
	struct error err = { 0 };

	assert_false(profile_read("old.heap.bz2", bzip2, sizeof bzip2, NULL, &profile, &err));
	assert_string_equal(err.message, "old.heap.bz2: compressed with bzip2, which is not read");
	assert_contains(err.hint, "bunzip2");
}

/* Profiles do not shrink to a hundredth. */
static void expansion_is_bounded_by_the_compressed_size(void **state)
{
	(void)state;
	const size_t size = 80 * 1024 * 1024;
	char *const text = malloc(size);
	struct buffer packed;

	assert_non_null(text);
	memset(text, ' ', size);
	memcpy(text, heap_text, sizeof heap_text - 1);
	buffer_init(&packed, &memory_heap);
	zstd(text, size, &packed);
	assert_in_range(packed.size, 1, 640 * 1024);
	assert_refused(packed.data, packed.size, "expands to more than 67108864 bytes");
	buffer_deinit(&packed);
	free(text);
}

#define FRAMES " 0x55d41fef4427 0x55d41fef4428 0x55d41fef4429 0x55d41fef442a 0x55d41fef442b"

/* What is more than a few pieces long gives the same profile, plain or compressed. */
static void pieces_make_the_same_profile(void **state)
{
	(void)state;
	/* The beginning, a line around two numbers, the end.
	 * NOLINTBEGIN(bugprone-suspicious-missing-comma) */
	static const char *const cases[][5] = {
		{ "heap_v2/4096\n  t*: 1: 5 [0: 0]\n", "@ 0x", FRAMES " 0x40",
			"\n  t*: 1: 5 [0: 0]\n",
			"\nMAPPED_LIBRARIES:\n400000-500000 r-xp 0 0:0 0 /bin/x\n" },
		{ "heap profile: 1: 1 [1: 1] @ heap_v2/4096\n", "1: 1 [1: 1] @ 0x", FRAMES " 0x40",
			"\n", "MAPPED_LIBRARIES:\n400000-500000 r-xp 0 0:0 0 /bin/x\n" },
		{ "--- contention:\ncycles/second = 1000\n", "7 1 @ 0x", FRAMES " 0x40", "\n", "" },
		{ "main;f 1\n", "main;f", ";several;callers;that;are;always;the;same;g", " 1\n",
			"" },
		{ "--- symbol\nbinary=/bin/x\n", "0x", " name", "\n",
			"---\n--- heap\nheap profile: 1: 1 [1: 1] @ heap_v2/1\n"
			"1: 1 [1: 1] @ 0x11 0x101\n" },
	};
	/* NOLINTEND(bugprone-suspicious-missing-comma) */
	static void (*const pack[])(const void *, size_t, struct buffer *) = { zstd, gzip, xz };

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct buffer text;
		buffer_init(&text, &memory_heap);
		buffer_append_string(&text, cases[i][0]);
		for (unsigned j = 16; text.size < 5 * 1024 * 1024; j++)
			buffer_printf(&text, "%s%x%s%x%s", cases[i][1], j, cases[i][2], j % 997,
				cases[i][3]);
		buffer_append_string(&text, cases[i][4]);
		struct profile *const plain = must_read(text.data, text.size);
		/* All ways of compressing with the first text. */
		for (size_t k = 0; k < (i == 0 ? sizeof pack / sizeof *pack : 1); k++) {
			struct buffer packed;
			buffer_init(&packed, &memory_heap);
			pack[k](text.data, text.size, &packed);
			struct profile *const read = must_read(packed.data, packed.size);
			assert_int_equal(read->sample_count, plain->sample_count);
			assert_int_equal(read->stack_count, plain->stack_count);
			assert_int_equal(read->location_count, plain->location_count);
			assert_int_equal(read->mapping_count, plain->mapping_count);
			assert_int_equal(read->frame_count, plain->frame_count);
			for (size_t f = 0; f < plain->frame_count; f++)
				assert_string_equal(
					read->frames[f].function, plain->frames[f].function);
			profile_free(read);
			buffer_deinit(&packed);
		}
		profile_free(plain);
		buffer_deinit(&text);
	}
}

/* One that was read in pieces can be read again, and expanded as a whole. */
static void an_input_is_read_again(void **state)
{
	(void)state;
	struct buffer text, packed;
	struct input input = { 0 };
	struct error err = { 0 };

	buffer_init(&text, &memory_heap);
	buffer_init(&packed, &memory_heap);
	buffer_append_string(&text, "main;f 1\n");
	for (unsigned i = 0; text.size < 5 * 1024 * 1024; i++)
		buffer_printf(&text, "main;f%u 1\n", i % 997);
	gzip(text.data, text.size, &packed);
	assert_true(input_over("a", packed.data, packed.size, NULL, &input, &err));
	for (int i = 0; i < 2; i++) {
		struct profile *profile = NULL;
		assert_true(profile_read_input("a", &input, NULL, &profile, &err));
		profile_free(profile);
	}
	assert_true(input_expand(&input, &err));
	assert_int_equal(input.size, text.size);
	assert_memory_equal(input.data, text.data, text.size);
	input_close(&input);
	buffer_deinit(&packed);
	buffer_deinit(&text);
}

static void compression_is_undone(void **state)
{
	(void)state;
	struct buffer packed;
	struct buffer twice;

	buffer_init(&packed, &memory_heap);
	buffer_init(&twice, &memory_heap);
	gzip(heap_text, sizeof heap_text - 1, &packed);
	profile_free(must_read(packed.data, packed.size));
	zstd(packed.data, packed.size, &twice);
	profile_free(must_read(twice.data, twice.size));
	buffer_deinit(&packed);
	buffer_deinit(&twice);
}

static void several_members_are_one_text(void **state)
{
	(void)state;
	struct buffer packed;

	for (int use_zstd = 0; use_zstd < 2; use_zstd++) {
		buffer_init(&packed, &memory_heap);
		(use_zstd ? zstd : gzip)(heap_text, 20, &packed);
		(use_zstd ? zstd : gzip)(heap_text + 20, sizeof heap_text - 21, &packed);
		profile_free(must_read(packed.data, packed.size));
		buffer_deinit(&packed);
	}
	buffer_init(&packed, &memory_heap);
	gzip(heap_text, sizeof heap_text - 1, &packed);
	for (int i = 0; i < 512; i++)
		buffer_append_char(&packed, '\0');
	profile_free(must_read(packed.data, packed.size));
	buffer_deinit(&packed);
}

static void damage_is_reported_with_its_place(void **state)
{
	(void)state;
	struct buffer packed;

	buffer_init(&packed, &memory_heap);
	gzip(heap_text, sizeof heap_text - 1, &packed);
	assert_refused(packed.data, packed.size - 3, "the gzip data end too early");
	assert_refused(packed.data, 10, "byte 10: the gzip data end too early");
	packed.data[12] ^= 0x55;
	assert_refused(packed.data, packed.size, "bad gzip data");
	buffer_append_string(&packed, "more");
	buffer_clear(&packed);
	zstd(heap_text, sizeof heap_text - 1, &packed);
	assert_refused(packed.data, packed.size - 3, "the zstd data end too early");
	packed.data[4] ^= 0x55;
	assert_refused(packed.data, packed.size, "bad zstd data");
	buffer_deinit(&packed);
}

static void expansion_is_bounded(void **state)
{
	(void)state;
	const struct profile_read_options options = { .max_bytes = 1024 * 1024 };
	const size_t size = 4 * 1024 * 1024;
	char *const text = calloc(1, size);
	struct buffer packed;

	assert_non_null(text);
	for (int use_zstd = 0; use_zstd < 2; use_zstd++) {
		struct profile *profile = NULL;
		struct error err = { 0 };
		buffer_init(&packed, &memory_heap);
		(use_zstd ? zstd : gzip)(text, size, &packed);
		assert_false(
			profile_read("bomb", packed.data, packed.size, &options, &profile, &err));
		assert_contains(err.message, "bomb: expands to more than 1048576 bytes");
		assert_contains(err.hint, "plain file");
		buffer_deinit(&packed);
	}
	free(text);
}

/* What is no profile is not read to its end, which there may not be. */
static void no_more_is_read_than_shows_that_it_is_no_profile(void **state)
{
	(void)state;
	const size_t size = 64 * 1024 * 1024;
	char *const text = malloc(size);
	int ends[2];
	struct profile *profile = NULL;
	struct error err = { 0 };
	char path[64];

	assert_non_null(text);
	for (size_t i = 0; i < size; i += 2)
		memcpy(text + i, "y\n", 2);
	for (int use_zstd = 0; use_zstd < 2; use_zstd++) {
		struct buffer packed;
		buffer_init(&packed, &memory_heap);
		(use_zstd ? zstd : gzip)(text, size, &packed);
		struct input input = { 0 };
		assert_true(input_over("y", packed.data, packed.size, NULL, &input, &err));
		assert_in_range(input.size, 1, size / 16);
		input_close(&input);
		assert_refused(packed.data, packed.size, "not a profile of any known format");
		buffer_deinit(&packed);
	}
	assert_int_equal(pipe(ends), 0);
	const pid_t writer = fork();
	if (writer == 0) {
		close(ends[0]);
		while (write(ends[1], text, size) > 0)
			continue;
		_exit(0);
	}
	close(ends[1]);
	snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
	assert_false(profile_open(path, NULL, &profile, &err));
	assert_contains(err.message, "not a profile of any known format");
	close(ends[0]);
	assert_int_equal(waitpid(writer, NULL, 0), writer);
	free(text);
}

static void nested_compression_ends_somewhere(void **state)
{
	(void)state;
	struct buffer packed;
	struct buffer inner;

	buffer_init(&inner, &memory_heap);
	gzip(heap_text, sizeof heap_text - 1, &inner);
	for (int i = 0; i < 3; i++) {
		buffer_init(&packed, &memory_heap);
		gzip(inner.data, inner.size, &packed);
		buffer_deinit(&inner);
		inner = packed;
	}
	assert_refused(inner.data, inner.size, "compressed more than 3 times over");
	buffer_deinit(&inner);
}

/* A file in memory of this size, if it is not 0, that begins with the text. */
static void make_file(const char *text, off_t size, int *fd_ret, char path[64])
{
	const int fd = memfd_create("profile", MFD_CLOEXEC);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	if (size != 0)
		assert_int_equal(ftruncate(fd, size), 0);
	snprintf(path, 64, "/proc/self/fd/%d", fd);
	*fd_ret = fd;
}

static void files_are_opened(void **state)
{
	(void)state;
	struct profile *profile = NULL;
	struct error err = { 0 };
	char path[64];
	CLEANUP(fd_cleanup) int fd = -1;

	make_file(heap_text, 0, &fd, path);
	assert_true(profile_open(path, NULL, &profile, &err));
	assert_string_equal(profile->name, path);
	assert_int_equal(profile->sample_count, 1);
	profile_free(profile);
	assert_false(profile_open("/nonexistent/x.heap", NULL, &profile, &err));
	assert_contains(err.message, "/nonexistent/x.heap: No such file or directory");
	assert_false(profile_open("/", NULL, &profile, &err));
	assert_string_equal(err.message, "/ is a folder");
	assert_contains(err.hint, "heapctl trend");
}

/* Ten gigabytes that take no space on the disk: refused at once, without reading all. */
static void a_huge_sparse_file_is_refused(void **state)
{
	(void)state;
	static const char *const beginnings[] = { "", "heap_v2/1\n", "a;b 1\n",
		"heap_v2/1\n t*: 1: 1 [1: 1]\nMAPPED_LIBRARIES:\n", "--- symbol\n", "\x0a" };

	for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++) {
		struct profile *profile = NULL;
		struct error err = { 0 };
		char path[64];
		CLEANUP(fd_cleanup) int fd = -1;
		make_file(beginnings[i], (off_t)10 * 1024 * 1024 * 1024, &fd, path);
		assert_false(profile_open(path, NULL, &profile, &err));
		assert_contains(err.message, ": byte ");
	}
}

/* Each sample takes a few bytes here and many in memory. */
static void a_profile_is_kept_within_bounds(void **state)
{
	(void)state;
	static const char *const cases[][2] = {
		{ "heap_v2/1\nt*:0:0[0:0]\n@\n", "t*:0:0[0:0]\n" },
		{ "heap_v2/1\nt*:0:0[0:0]\n@\n", "t1:0:0[0:0]\n" },
		{ "heap profile: 1: 1 [1: 1]\n", "1: 1 [1: 1] @ 1\n" },
		{ "--- contention\n", "1 @ 1\n" },
		{ "a 1\n", "a 1\n" },
	};
	const struct profile_read_options options = { .max_memory_bytes = 1024 * 1024 };

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct profile *profile = NULL;
		struct error err = { 0 };
		struct buffer text;
		buffer_init(&text, &memory_heap);
		buffer_append_string(&text, cases[i][0]);
		for (int j = 0; j < 100000; j++)
			buffer_append_string(&text, cases[i][1]);
		assert_false(profile_read("many", text.data, text.size, &options, &profile, &err));
		assert_contains(err.message, "it is larger than can be kept in memory");
		buffer_deinit(&text);
	}
}

static void a_pipe_is_read_to_its_limit(void **state)
{
	(void)state;
	const struct profile_read_options options = { .max_bytes = 1024 * 1024 };
	struct profile *profile = NULL;
	struct error err = { 0 };

	assert_false(profile_open("/dev/zero", &options, &profile, &err));
	assert_contains(err.message, "/dev/zero: more than 1048576 bytes");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(compression_is_undone),
	cmocka_unit_test(pieces_make_the_same_profile),
	cmocka_unit_test(an_input_is_read_again),
	cmocka_unit_test(xz_is_undone),
	cmocka_unit_test(lzma_is_undone),
	cmocka_unit_test(other_compressions_are_named),
	cmocka_unit_test(expansion_is_bounded_by_the_compressed_size),
	cmocka_unit_test(several_members_are_one_text),
	cmocka_unit_test(damage_is_reported_with_its_place),
	cmocka_unit_test(expansion_is_bounded),
	cmocka_unit_test(no_more_is_read_than_shows_that_it_is_no_profile),
	cmocka_unit_test(nested_compression_ends_somewhere),
	cmocka_unit_test(files_are_opened),
	cmocka_unit_test(a_huge_sparse_file_is_refused),
	cmocka_unit_test(a_profile_is_kept_within_bounds),
	cmocka_unit_test(a_pipe_is_read_to_its_limit),
};
UNIT_MAIN(tests)
