/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_cache.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "unit.h"

static char directory[] = "/tmp/hc-cache-XXXXXX";

static int make_directory(void **state)
{
	(void)state;
	strcpy(directory + strlen(directory) - 6, "XXXXXX");
	return mkdtemp(directory) == NULL;
}

/* Calls `visit` for the path of every file in the directory; returns how many there are. */
static size_t each_file(void (*visit)(const char *path))
{
	DIR *const listing = opendir(directory);
	size_t count = 0;

	for (const struct dirent *entry; (entry = readdir(listing)) != NULL;) {
		if (entry->d_name[0] == '.')
			continue;
		CLEANUP(free_cleanup) char *path = xasprintf("%s/%s", directory, entry->d_name);
		visit(path);
		count++;
	}
	closedir(listing);
	return count;
}

static void remove_file(const char *path)
{
	assert_int_equal(unlink(path), 0);
}

static void ignore_file(const char *path)
{
	(void)path;
}

static int remove_directory(void **state)
{
	(void)state;
	each_file(remove_file);
	return rmdir(directory);
}

static void write_entry(const char *subject)
{
	static const struct symbol_frame frames[] = {
		{ "inner()", "_Z5innerv", "/src/a.cc", 3, 1 },
		{ "outer()", "_Z5outerv", "/src/a.cc", 9, 7 },
		{ "alone", "", "", 0, 0 },
	};
	struct symbol_cache_answer answers[] = {
		{ 0x1000, frames, 2, UINT32_MAX },
		{ 0x1010, NULL, 0, 0x10 },
		{ 0x2000, frames + 2, 1, UINT32_MAX },
	};
	char path[] = "/usr/lib/debug/x";
	struct file_probe probes[] = { { path, { 1, 2, 3, 4, 5 } } };
	struct elf_segment segments[] = { { 0x1000, 0x2000, 0x401000, 0x2000, true } };
	const struct symbol_cache_entry entry = {
		.subject = subject,
		.options_hash = 77,
		.report = { .path = "/usr/bin/x",
			.file = "/usr/bin/x",
			.debug_file = "",
			.build_id = "abcd",
			.source = SYMBOL_SOURCE_DWARF,
			.problem = "",
			.hint = "" },
		.probes = probes,
		.probe_count = 1,
		.segments = segments,
		.segment_count = 1,
		.answers = answers,
		.answer_count = 3,
	};

	assert_true(symbol_cache_write(directory, &entry));
}

static void gives_back_what_was_written(void **state)
{
	(void)state;
	struct symbol_cache cache;

	assert_true(symbol_cache_prepare(directory));
	write_entry("build-id abcd");
	assert_true(symbol_cache_read(directory, "build-id abcd", &cache));
	assert_int_equal(cache.entry.options_hash, 77);
	assert_int_equal(cache.entry.report.source, SYMBOL_SOURCE_DWARF);
	assert_string_equal(cache.entry.report.build_id, "abcd");
	assert_string_equal(cache.entry.probes[0].path, "/usr/lib/debug/x");
	assert_int_equal(cache.entry.probes[0].identity.modified_ns, 4);
	assert_int_equal(cache.entry.probes[0].identity.changed_ns, 5);
	assert_int_equal(cache.entry.segments[0].vaddr, 0x401000);

	const struct symbol_cache_answer *const answer = symbol_cache_find(&cache, 0x1000);
	assert_non_null(answer);
	assert_int_equal(answer->frame_count, 2);
	assert_string_equal(answer->frames[1].function, "outer()");
	assert_string_equal(answer->frames[0].linkage_name, "_Z5innerv");
	assert_int_equal(answer->frames[0].line, 3);
	assert_int_equal(answer->into_function, UINT32_MAX);
	assert_int_equal(symbol_cache_find(&cache, 0x1010)->frame_count, 0);
	assert_int_equal(symbol_cache_find(&cache, 0x1010)->into_function, 0x10);
	assert_null(symbol_cache_find(&cache, 0x1011));
	assert_null(symbol_cache_find(&cache, 0x3000));
	symbol_cache_deinit(&cache);
}

static void knows_nothing_of_other_subjects(void **state)
{
	(void)state;
	struct symbol_cache cache;

	write_entry("build-id abcd");
	assert_false(symbol_cache_read(directory, "build-id abce", &cache));
}

static void flip_each_byte(const char *path)
{
	struct buffer whole;
	struct error err;

	buffer_init(&whole, &memory_or_exit);
	assert_true(file_read(path, &whole, &err));
	for (size_t i = 0; i < whole.size; i++) {
		struct symbol_cache cache;
		whole.data[i] ^= 0x20;
		assert_true(file_write(path, whole.data, whole.size, 0600, &err));
		if (symbol_cache_read(directory, "build-id abcd", &cache))
			fail_msg("byte %zu may be anything", i);
		whole.data[i] ^= 0x20;
	}
	for (size_t size = 0; size < whole.size; size += 7) {
		struct symbol_cache cache;
		assert_true(file_write(path, whole.data, size, 0600, &err));
		assert_false(symbol_cache_read(directory, "build-id abcd", &cache));
	}
	buffer_deinit(&whole);
}

static void refuses_damaged_files(void **state)
{
	(void)state;
	write_entry("build-id abcd");
	assert_int_equal(each_file(flip_each_byte), 1);
}

static void set_old(const char *path)
{
	const struct timespec times[2] = { { 1000, 0 }, { 1000, 0 } };

	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void removes_the_oldest_files_and_abandoned_ones(void **state)
{
	(void)state;
	struct symbol_cache cache;
	struct error err;
	CLEANUP(free_cleanup) char *abandoned = xasprintf("%s/0.sym.12ab", directory);
	CLEANUP(free_cleanup) char *foreign = xasprintf("%s/notes.txt", directory);

	write_entry("old");
	assert_true(file_write(abandoned, "x", 1, 0600, &err));
	each_file(set_old);
	write_entry("new");
	assert_int_equal(access(abandoned, F_OK), -1);
	assert_true(file_write(foreign, "x", 1, 0600, &err));
	assert_int_equal(each_file(ignore_file), 3);
	symbol_cache_trim(directory, 700);
	assert_false(symbol_cache_read(directory, "old", &cache));
	assert_true(symbol_cache_read(directory, "new", &cache));
	symbol_cache_deinit(&cache);
	assert_int_equal(access(foreign, F_OK), 0);
}

static void uses_no_directory_that_others_can_write_to(void **state)
{
	(void)state;
	assert_int_equal(chmod(directory, 0777), 0);
	assert_false(symbol_cache_prepare(directory));
	assert_int_equal(chmod(directory, 0700), 0);
	assert_true(symbol_cache_prepare(directory));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(
		gives_back_what_was_written, make_directory, remove_directory),
	cmocka_unit_test_setup_teardown(
		knows_nothing_of_other_subjects, make_directory, remove_directory),
	cmocka_unit_test_setup_teardown(refuses_damaged_files, make_directory, remove_directory),
	cmocka_unit_test_setup_teardown(
		removes_the_oldest_files_and_abandoned_ones, make_directory, remove_directory),
	cmocka_unit_test_setup_teardown(
		uses_no_directory_that_others_can_write_to, make_directory, remove_directory),
};
UNIT_MAIN(tests)
