/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/capture_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "unit.h"
#include "watch/capture_list.h"

struct scene {
	char path[64];
	struct capture_folder *folder;
};

static int set_up(void **state)
{
	struct scene *const scene = xcalloc(1, sizeof *scene);

	strcpy(scene->path, "/tmp/hc-captures.XXXXXX");
	assert_non_null(mkdtemp(scene->path));
	*state = scene;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *const scene = *state;
	DIR *const stream = opendir(scene->path);

	capture_folder_close(scene->folder);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
		unlinkat(dirfd(stream), entry->d_name, 0);
	closedir(stream);
	rmdir(scene->path);
	free(scene);
	return 0;
}

static void open_with(struct scene *scene, size_t count, uint64_t bytes, uint64_t free_bytes)
{
	const struct capture_limits limits = { count, bytes, free_bytes };
	struct error err;

	capture_folder_close(scene->folder);
	scene->folder = NULL;
	if (!capture_folder_open(scene->path, &limits, &scene->folder, &err))
		fail_msg("%s", err.message);
}

static void open_folder(struct scene *scene, size_t count, uint64_t free_bytes)
{
	open_with(scene, count, UINT64_MAX, free_bytes);
}

static bool begin(struct scene *scene, struct file_draft *draft, struct error *err)
{
	return capture_folder_begin(scene->folder, "tag", "stem", draft, err);
}

static void keep_one(struct scene *scene)
{
	struct file_draft draft;
	struct error err;

	if (!begin(scene, &draft, &err) ||
		!file_write_fd(draft.fd, draft.path, "profile", 7, &err) ||
		!capture_folder_commit(scene->folder, &draft, json_object(), &err))
		fail_msg("%s", err.message);
}

/* A file that jemalloc might have written beside the captures. */
static void take_one(struct scene *scene)
{
	char path[128], kept[4096];
	struct error err;

	snprintf(path, sizeof path, "%s/own", scene->path);
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (!capture_folder_take(scene->folder, path, fd, "i1", "own", json_object(), kept, &err))
		fail_msg("%s", err.message);
}

/* The numbers of what is listed, as digits. */
static const char *listed(const struct scene *scene, char digits[16])
{
	json_t *captures = NULL, *entry;
	struct error err;
	size_t i;

	if (!capture_list_read(scene->path, &captures, &err))
		fail_msg("%s", err.message);
	digits[0] = '\0';
	json_array_foreach(captures, i, entry)
	{
		const int number = (int)json_integer_value(json_object_get(entry, "number"));
		snprintf(digits + i, 2, "%d", number);
	}
	json_decref(captures);
	return digits;
}

static void the_oldest_go(void **state)
{
	struct scene *const scene = *state;
	char digits[16];

	open_folder(scene, 2, 0);
	for (int i = 0; i < 4; i++)
		keep_one(scene);
	assert_string_equal(listed(scene, digits), "34");
}

static void bytes_are_bounded_but_the_newest_stays(void **state)
{
	struct scene *const scene = *state;
	char digits[16];

	open_with(scene, 9, 2 * 7, 0);
	for (int i = 0; i < 4; i++)
		keep_one(scene);
	assert_string_equal(listed(scene, digits), "34");
	open_with(scene, 9, 1, 0);
	keep_one(scene);
	assert_string_equal(listed(scene, digits), "5");
}

static void nothing_goes_before_the_new_one_is_safe(void **state)
{
	enum { LARGE = 64 << 20 };
	struct scene *const scene = *state;
	struct file_draft draft;
	struct statvfs disk;
	char digits[16];
	struct error err;

	open_folder(scene, 9, 0);
	for (int i = 0; i < 3; i++) {
		assert_true(begin(scene, &draft, &err));
		/* Without a byte on the disk, so that it takes no time. */
		assert_int_equal(ftruncate(draft.fd, LARGE), 0);
		assert_true(capture_folder_commit(scene->folder, &draft, json_object(), &err));
	}
	/* All but one or two would have to go, but the disk has room to write the new one. */
	assert_int_equal(statvfs(scene->path, &disk), 0);
	open_folder(scene, 9, (uint64_t)disk.f_bavail * disk.f_frsize + LARGE);
	assert_true(begin(scene, &draft, &err));
	file_draft_discard(&draft);
	assert_string_equal(listed(scene, digits), "123");
}

static void nothing_goes_for_room_that_cannot_be_made(void **state)
{
	struct scene *const scene = *state;
	struct file_draft draft;
	char digits[16];
	struct error err;

	open_folder(scene, 9, 0);
	keep_one(scene);
	keep_one(scene);
	open_folder(scene, 9, UINT64_MAX / 2);
	assert_false(begin(scene, &draft, &err));
	assert_int_equal(err.kind, ERROR_STATE);
	take_one(scene);
	assert_string_equal(listed(scene, digits), "123");
}

/* As after a kill between the file's name and its line. */
static void a_capture_without_a_line_is_listed_all_the_same(void **state)
{
	struct scene *const scene = *state;
	char path[128], digits[16];

	open_folder(scene, 9, 0);
	keep_one(scene);
	snprintf(path, sizeof path, "%s/" CAPTURE_CATALOGUE, scene->path);
	assert_int_equal(unlink(path), 0);
	open_folder(scene, 9, 0);
	assert_string_equal(listed(scene, digits), "1");
	keep_one(scene);
	assert_string_equal(listed(scene, digits), "12");
}

#define FOLDER_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
static const struct CMUnitTest tests[] = {
	FOLDER_TEST(the_oldest_go),
	FOLDER_TEST(bytes_are_bounded_but_the_newest_stays),
	FOLDER_TEST(nothing_goes_before_the_new_one_is_safe),
	FOLDER_TEST(nothing_goes_for_room_that_cannot_be_made),
	FOLDER_TEST(a_capture_without_a_line_is_listed_all_the_same),
};

UNIT_MAIN(tests)
