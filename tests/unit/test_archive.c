/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/archive.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "unit.h"

enum { DAY_MS = 24 * 3600 * 1000 };
static const int64_t START_MS = 1700000000000;

struct scene {
	char folder[64];
	struct archive *archive;
};

static int set_up(void **state)
{
	struct scene *const scene = xcalloc(1, sizeof *scene);

	strcpy(scene->folder, "/tmp/hc-archive.XXXXXX");
	assert_non_null(mkdtemp(scene->folder));
	*state = scene;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *const scene = *state;
	DIR *const stream = opendir(scene->folder);

	archive_close(scene->archive);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		char path[400];
		snprintf(path, sizeof path, "%s/%s", scene->folder, entry->d_name);
		unlink(path);
	}
	closedir(stream);
	rmdir(scene->folder);
	free(scene);
	return 0;
}

static void open_with(struct scene *scene, int64_t keep_ms, uint64_t bytes)
{
	struct error err = { 0 };

	archive_close(scene->archive);
	scene->archive = NULL;
	if (!archive_open(scene->folder, &(struct archive_limits){ keep_ms, bytes },
		    &scene->archive, &err))
		fail_msg("%s", err.message);
}

static int64_t add(struct scene *scene, const char *target, int64_t time_ms)
{
	static const char profile[] = "heap_v2/524288\n  t*: 0: 0 [0: 0]\n";
	struct archive_moment moment = { .time_ms = time_ms, .pid = 4711 };
	struct error err = { 0 };

	strcpy(moment.target, target);
	moment.bytes[ARCHIVE_RSS] = 123;
	if (!archive_add(scene->archive, &moment, profile, sizeof profile - 1, &err))
		fail_msg("%s", err.message);
	return moment.id;
}

static size_t count(struct scene *scene, const char *target)
{
	struct buffer text;
	struct json_writer json;
	struct error err;
	size_t found = 0;

	buffer_init(&text, &memory_or_exit);
	json_init(&json, &text);
	assert_true(archive_list(scene->archive, target, 0, INT64_MAX, &json, &err));
	for (const char *at = buffer_string(&text); (at = strstr(at, "\"id\":")) != NULL; at++)
		found++;
	buffer_deinit(&text);
	return found;
}

static void a_moment_is_found_by_name_pid_and_time(void **state)
{
	struct scene *const scene = *state;
	struct archive_moment moment;
	struct error err = { 0 };

	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "one", START_MS);
	const int64_t second = add(scene, "one", START_MS + 1000);
	add(scene, "two", START_MS + 1500);
	CLEANUP(blob_cleanup) struct blob *profile = NULL;
	assert_true(archive_get(scene->archive, "one", START_MS + 1999, &moment, &profile, &err));
	assert_int_equal(moment.id, second);
	assert_int_equal(moment.bytes[ARCHIVE_RSS], 123);
	assert_string_equal(moment.target, "one");
	assert_int_equal(count(scene, "4711"), 3);
	CLEANUP(blob_cleanup) struct blob *none = NULL;
	assert_false(archive_get(scene->archive, "three", START_MS, &moment, &none, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

static void the_old_go(void **state)
{
	struct scene *const scene = *state;

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < 4; i++)
		add(scene, "one", START_MS + i * (DAY_MS / 2));
	assert_int_equal(count(scene, "one"), 3);
}

static void a_clock_that_jumps_ahead_does_not_cost_all(void **state)
{
	struct scene *const scene = *state;

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < 20; i++)
		add(scene, "one", START_MS + i * 1000);
	add(scene, "one", START_MS + INT64_C(3650) * DAY_MS);
	assert_int_equal(count(scene, "one"), 20 + 1 - 8);
	/* Set right again. */
	add(scene, "one", START_MS + 20 * 1000);
	assert_int_equal(count(scene, "one"), 20 + 2 - 8);
}

static void bytes_are_bounded_but_the_newest_stays(void **state)
{
	struct scene *const scene = *state;

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < 30; i++)
		add(scene, "one", START_MS + i * 1000);
	open_with(scene, DAY_MS, 1);
	const int64_t last = add(scene, "one", START_MS + 30 * 1000);
	struct archive_moment moment;
	CLEANUP(blob_cleanup) struct blob *profile = NULL;
	struct error err;
	assert_int_equal(count(scene, "one"), 1);
	assert_true(archive_get(scene->archive, "one", 0, &moment, &profile, &err));
	assert_int_equal(moment.id, last);
}

static void the_same_moment_is_not_kept_twice(void **state)
{
	struct scene *const scene = *state;
	struct archive_moment moment = { .time_ms = START_MS, .target = "one", .pid = 4711 };
	struct error err = { 0 };

	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "one", START_MS);
	assert_false(archive_add(scene->archive, &moment, "x", 1, &err));
	assert_int_equal(err.kind, ERROR_STATE);
	assert_int_equal(count(scene, "one"), 1);
}

static void names_cannot_leave_the_folder(void **state)
{
	struct scene *const scene = *state;
	struct archive_moment moment;
	CLEANUP(blob_cleanup) struct blob *profile = NULL;
	struct error err;

	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "../../etc/passwd'; DROP TABLE moment", START_MS);
	assert_true(archive_get(scene->archive, "../../etc/passwd'; DROP TABLE moment", START_MS,
		&moment, &profile, &err));
}

#define ARCHIVE_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	ARCHIVE_TEST(a_moment_is_found_by_name_pid_and_time),
	ARCHIVE_TEST(the_old_go),
	ARCHIVE_TEST(a_clock_that_jumps_ahead_does_not_cost_all),
	ARCHIVE_TEST(bytes_are_bounded_but_the_newest_stays),
	ARCHIVE_TEST(the_same_moment_is_not_kept_twice),
	ARCHIVE_TEST(names_cannot_leave_the_folder),
};

UNIT_MAIN(tests)
