/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static char folder[64];

static int make_folder(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/heapctl-unit-XXXXXX");
	return mkdtemp(folder) == NULL;
}

static unsigned count_files(void)
{
	DIR *const listing = opendir(folder);
	unsigned count = 0;

	for (struct dirent *entry; (entry = readdir(listing)) != NULL;)
		count += entry->d_name[0] != '.';
	closedir(listing);
	return count;
}

static int remove_folder(void **state)
{
	char path[96];

	(void)state;
	snprintf(path, sizeof path, "%s/file", folder);
	unlink(path);
	return rmdir(folder);
}

static void expect_contents(const char *path, const char *contents)
{
	struct buffer text;
	struct error err;

	buffer_init(&text, &memory_heap);
	assert_true(file_read(path, &text, &err));
	assert_string_equal(buffer_string(&text), contents);
	buffer_deinit(&text);
}

static void replaces_a_file_only_when_committed(void **state)
{
	(void)state;
	struct file_draft draft;
	struct stat status;
	struct error err;
	char path[96];

	snprintf(path, sizeof path, "%s/file", folder);
	assert_true(file_write(path, "old", 3, 0644, &err));
	assert_true(file_draft_open(path, 0600, &draft, &err));
	assert_true(file_write_fd(draft.fd, path, "new", 3, &err));
	expect_contents(path, "old");
	assert_true(file_draft_commit(&draft, &err));
	expect_contents(path, "new");
	file_draft_discard(&draft);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
	assert_int_equal(count_files(), 1);
	/* What was private stays so. */
	assert_true(file_write(path, "new", 3, 0666, &err));
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 0777, 0600);
}

static void leaves_nothing_behind_when_discarded(void **state)
{
	(void)state;
	struct file_draft draft, never = { 0 };
	struct error err;
	char path[96];

	snprintf(path, sizeof path, "%s/file", folder);
	assert_true(file_draft_open(path, 0600, &draft, &err));
	file_draft_discard(&draft);
	file_draft_discard(&never);
	assert_int_equal(count_files(), 0);
}

/* Then nothing is left of a process that is killed while it writes. */
static void has_no_name_before_it_is_committed(void **state)
{
	(void)state;
	CLEANUP(fd_cleanup) int nameless = open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	struct file_draft draft;
	struct error err;
	char path[96];

	snprintf(path, sizeof path, "%s/file", folder);
	assert_true(file_draft_open(path, 0600, &draft, &err));
	assert_true(file_write_fd(draft.fd, path, "new", 3, &err));
	assert_int_equal(count_files(), nameless < 0);
	assert_true(file_draft_commit(&draft, &err));
	assert_int_equal(count_files(), 1);
	expect_contents(path, "new");
}

static void names_the_path_that_cannot_be_written(void **state)
{
	(void)state;
	struct file_draft draft = { 0 };
	struct error err = { 0 };

	assert_false(file_draft_open("/nonexistent/x", 0600, &draft, &err));
	assert_contains(err.message, "/nonexistent/x: No such file");
}

static void writes_devices_in_place(void **state)
{
	(void)state;
	struct error err = { 0 };

	assert_true(file_write("/dev/null", "x", 1, 0600, &err));
	assert_false(file_write("/dev/full", "x", 1, 0600, &err));
	assert_contains(err.message, "No space left");
}

static void writes_to_a_named_descriptor_in_place(void **state)
{
	struct error err = { 0 };
	char path[96], name[32];

	(void)state;
	snprintf(path, sizeof path, "%s/file", folder);
	assert_true(file_write(path, "old", 3, 0600, &err));
	CLEANUP(fd_cleanup) const int fd = open(path, O_WRONLY | O_APPEND | O_CLOEXEC);
	snprintf(name, sizeof name, "/dev/fd/%d", fd);
	assert_true(file_write(name, ",new", 4, 0600, &err));
	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	assert_true(file_write(name, ",newer", 6, 0600, &err));
	expect_contents(path, "old,new,newer");
	assert_int_equal(count_files(), 1);
	assert_false(file_write("/dev/fd/999999999", "x", 1, 0600, &err));
	assert_contains(err.message, "Bad file descriptor");
}

/* The kernel would refuse it as well: a fault does no harm here. */
static void replaces_no_link_of_the_system(void **state)
{
	struct error err = { 0 };

	(void)state;
	assert_false(file_write("/proc/self/exe", "x", 1, 0600, &err));
	assert_contains(err.message, "a link of the system is not replaced");
}

static void maps_nothing_but_regular_files(void **state)
{
	struct file_map map = { 0 };
	struct error err = { 0 };
	char path[96];

	(void)state;
	snprintf(path, sizeof path, "%s/file", folder);
	assert_int_equal(mkfifo(path, 0600), 0);
	assert_false(file_map(path, &map, &err));
	assert_contains(err.message, "not a regular file");
	unlink(path);
	assert_false(file_map("/dev/zero", &map, &err));
}

static void reads_no_more_than_the_limit(void **state)
{
	CLEANUP(buffer_deinit) struct buffer text = { .limit = SIZE_MAX, .memory = &memory_heap };
	char path[128];
	struct error err;

	(void)state;
	snprintf(path, sizeof path, "%s/zeros", folder);
	const int fd = open(path, O_WRONLY | O_CREAT, 0600);
	assert_int_equal(ftruncate(fd, 100000), 0);
	close(fd);
	text.limit = 90000;
	assert_false(file_read(path, &text, &err));
	assert_non_null(strstr(err.message, "more than 90000 bytes"));
	assert_true(text.size <= text.limit);

	CLEANUP(buffer_deinit) struct buffer whole = { .limit = SIZE_MAX, .memory = &memory_heap };
	whole.limit = 120000;
	assert_true(file_read(path, &whole, &err));
	assert_int_equal(whole.size, 100000);
	unlink(path);
}

static void finds_the_end_of_a_small_file_without_more_memory(void **state)
{
	CLEANUP(buffer_deinit) struct buffer text = { .limit = SIZE_MAX, .memory = &memory_heap };
	struct error err;

	(void)state;
	assert_true(file_read("/proc/self/stat", &text, &err));
	assert_true(text.size > 0 && text.size < 4096);
	assert_int_equal(text.capacity, 16384);
}

static void says_why_a_folder_cannot_be_made(void **state)
{
	struct error err;

	(void)state;
	/* The kernel makes the folders there. */
	assert_false(file_make_folder("/sys/heapctl-unit/below", 0700, &err));
	assert_contains(err.message, "making the folder /sys/heapctl-unit: ");
	assert_int_not_equal(err.errnum, ENOENT);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(says_why_a_folder_cannot_be_made),
	cmocka_unit_test_setup_teardown(reads_no_more_than_the_limit, make_folder, remove_folder),
	cmocka_unit_test(finds_the_end_of_a_small_file_without_more_memory),
	cmocka_unit_test_setup_teardown(
		replaces_a_file_only_when_committed, make_folder, remove_folder),
	cmocka_unit_test_setup_teardown(
		leaves_nothing_behind_when_discarded, make_folder, remove_folder),
	cmocka_unit_test_setup_teardown(
		has_no_name_before_it_is_committed, make_folder, remove_folder),
	cmocka_unit_test(names_the_path_that_cannot_be_written),
	cmocka_unit_test(writes_devices_in_place),
	cmocka_unit_test_setup_teardown(
		writes_to_a_named_descriptor_in_place, make_folder, remove_folder),
	cmocka_unit_test(replaces_no_link_of_the_system),
	cmocka_unit_test_setup_teardown(maps_nothing_but_regular_files, make_folder, remove_folder),
};
UNIT_MAIN(tests)
