/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "store/retention.h"
#include "store/store_index.h"
#include "profile/bundle.h"
#include "remove_folder.h"
#include "unit.h"

enum { DAY_MS = 24 * 3600 * 1000 };
static const int64_t START_MS = 1700000000000;

/* The machine's clocks; snapshots come by both unless a test says otherwise. */
static int64_t since_boot_ms, since_1970_ms;
static bool is_clock_set; /* the one since 1970 jumps, the other goes on as it was */

static int64_t get_since_boot(void)
{
	return since_boot_ms;
}

static int64_t get_since_1970(void)
{
	return since_1970_ms;
}

static struct store_time_source scene_time = { get_since_boot, get_since_1970, 1 };

struct scene {
	char folder[64];
	struct store *store;
	int64_t owner;
};

static int set_up(void **state)
{
	struct scene *const scene = xcalloc(1, sizeof *scene);

	since_boot_ms = 1000;
	since_1970_ms = START_MS;
	is_clock_set = false;
	scene_time.boot = 1;
	strcpy(scene->folder, "/tmp/hc-store.XXXXXX");
	assert_non_null(mkdtemp(scene->folder));
	*state = scene;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *const scene = *state;

	store_close(scene->store);
	remove_folder(scene->folder);
	free(scene);
	return 0;
}

static void open_with(struct scene *scene, int64_t keep_ms, uint64_t bytes)
{
	struct error err = { 0 };

	store_close(scene->store);
	scene->store = NULL;
	if (!store_open(scene->folder, STORE_HISTORY,
		    &(struct store_limits){
			    .keep_ms = keep_ms, .bytes = bytes, .time = &scene_time },
		    &scene->store, &err))
		fail_msg("%s", err.message);
}

static int64_t add_of(
	struct scene *scene, const char *target, int64_t time_ms, int64_t pid, int64_t started_ms)
{
	static const char profile[] = "heap_v2/524288\n  t*: 0: 0 [0: 0]\n";
	struct snapshot snapshot = {
		.time_ms = time_ms,
		.pid = pid,
		.started_ms = started_ms,
	};
	struct error err = { 0 };

	if (!is_clock_set && time_ms > since_1970_ms)
		since_boot_ms += time_ms - since_1970_ms;
	since_1970_ms = time_ms;
	strcpy(snapshot.target, target);
	snapshot.owner = scene->owner;
	snapshot.bytes[FIGURE_RSS] = 123;
	if (!store_add(scene->store, &snapshot, profile, sizeof profile - 1, &err))
		fail_msg("%s", err.message);
	return snapshot.id;
}

static int64_t add(struct scene *scene, const char *target, int64_t time_ms)
{
	return add_of(scene, target, time_ms, 4711, START_MS);
}

static size_t count(struct scene *scene, const char *target)
{
	struct buffer text;
	struct json_writer json;
	struct error err;
	size_t found = 0;

	buffer_init(&text, &memory_or_exit);
	json_init(&json, &text);
	size_t total = 0;
	assert_true(store_list(scene->store,
		&(struct store_query){ .target = target, .to_ms = INT64_MAX }, 1000, &json, &total,
		&err));
	for (const char *at = buffer_string(&text); (at = strstr(at, "\"id\":")) != NULL; at++)
		found++;
	buffer_deinit(&text);
	return found;
}

static bool get(struct scene *scene, const char *target, int64_t time_ms, struct snapshot *snapshot,
	int *profile_fd, struct error *err)
{
	const struct store_query query = { .target = target, .to_ms = INT64_MAX };

	return store_get(scene->store, &query, time_ms, snapshot, profile_fd, err);
}

static void a_snapshot_is_found_by_name_pid_and_time(void **state)
{
	struct scene *const scene = *state;
	struct snapshot snapshot;
	struct error err = { 0 };

	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "one", START_MS);
	const int64_t second = add(scene, "one", START_MS + 1000);
	add(scene, "two", START_MS + 1500);
	CLEANUP(fd_cleanup) int profile = -1;
	assert_true(get(scene, "one", START_MS + 1999, &snapshot, &profile, &err));
	assert_int_equal(snapshot.id, second);
	assert_int_equal(snapshot.bytes[FIGURE_RSS], 123);
	assert_string_equal(snapshot.target, "one");
	assert_int_equal(count(scene, "4711"), 3);
	CLEANUP(fd_cleanup) int none = -1;
	assert_false(get(scene, "three", START_MS, &snapshot, &none, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

/* Their rows are removed in one transaction: each one writes some pages to the disk. */
static void the_rows_of_many_lost_files_are_removed_at_once(void **state)
{
	struct scene *const scene = *state;
	enum { LOST = 100 };
	int written = 0, highest = 0;

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i <= LOST; i++)
		add(scene, "one", START_MS + i);
	store_close(scene->store);
	scene->store = NULL;
	CLEANUP(free_cleanup) char *newest = xasprintf("%" PRId64 "-", START_MS + LOST);
	DIR *const folder = opendir(scene->folder);
	for (const struct dirent *entry; (entry = readdir(folder)) != NULL;)
		if (strstr(entry->d_name, ".heap.zst") != NULL &&
			strncmp(entry->d_name, newest, strlen(newest)) != 0)
			assert_int_equal(unlinkat(dirfd(folder), entry->d_name, 0), 0);
	closedir(folder);
	open_with(scene, DAY_MS, UINT64_MAX);
	assert_int_equal(count(scene, "one"), 1);
	assert_int_equal(sqlite3_db_status(scene->store->index, SQLITE_DBSTATUS_CACHE_WRITE,
				 &written, &highest, 0),
		SQLITE_OK);
	assert_in_range(written, 0, LOST);
}

/* The interval's and a watch's. */
static void two_snapshots_of_a_process_in_one_millisecond_are_both_kept(void **state)
{
	struct scene *const scene = *state;
	struct snapshot snapshot;
	struct error err = { 0 };

	open_with(scene, DAY_MS, UINT64_MAX);
	const int64_t first = add(scene, "one", START_MS);
	const int64_t second = add(scene, "one", START_MS);
	assert_int_not_equal(first, second);
	assert_int_equal(count(scene, "one"), 2);
	CLEANUP(fd_cleanup) int profile = -1;
	assert_true(get(scene, "one", START_MS + 1, &snapshot, &profile, &err));
	assert_int_equal(snapshot.id, second);
	assert_int_equal(snapshot.time_ms, START_MS + 1);
}

static void old_snapshots_expire(void **state)
{
	struct scene *const scene = *state;

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < 4; i++)
		add(scene, "one", START_MS + i * (DAY_MS / 2));
	assert_int_equal(count(scene, "one"), 3);
}

static void a_clock_that_jumps_ahead_costs_nothing(void **state)
{
	struct scene *const scene = *state;

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < 20; i++)
		add(scene, "one", START_MS + i * 1000);
	is_clock_set = true;
	for (int i = 0; i < 20; i++)
		add(scene, "one", START_MS + INT64_C(3650) * DAY_MS + i * 1000);
	assert_int_equal(count(scene, "one"), 40);
	/* Another gateway in the same boot, and the clock is correct again. */
	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "one", START_MS + INT64_C(3650) * DAY_MS + 20 * 1000);
	add(scene, "one", START_MS + 20 * 1000);
	assert_int_equal(count(scene, "one"), 42);
	/* The time that the kernel has counted since makes them old. */
	since_boot_ms += DAY_MS + 1000;
	add(scene, "one", START_MS + 21 * 1000);
	assert_int_equal(count(scene, "one"), 42 + 1 - 8);
}

static void a_clock_that_is_wrong_after_a_boot_costs_half_at_most(void **state)
{
	struct scene *const scene = *state;

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < 8; i++)
		add(scene, "one", START_MS + i * (DAY_MS / 8));
	assert_int_equal(count(scene, "one"), 8);
	store_close(scene->store);
	scene->store = NULL;
	scene_time.boot = 2;
	since_boot_ms = 1000;
	since_1970_ms = START_MS + INT64_C(3650) * DAY_MS;
	is_clock_set = true;
	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "one", since_1970_ms);
	/* The last was kept 7/8 of a day after the first; half a day counts for the boot. */
	assert_in_range(count(scene, "one"), 5, 6);
}

static void snapshots_from_before_days_without_power_expire(void **state)
{
	struct scene *const scene = *state;

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < 4; i++)
		add(scene, "one", START_MS + i * 1000);
	store_close(scene->store);
	scene->store = NULL;
	scene_time.boot = 2;
	since_boot_ms = 1000;
	since_1970_ms = START_MS + 5 * INT64_C(24) * 3600 * 1000;
	is_clock_set = true;
	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "one", since_1970_ms);
	assert_int_equal(count(scene, "one"), 5);
	since_boot_ms += DAY_MS / 2 + 10 * 1000;
	add(scene, "one", since_1970_ms + DAY_MS / 2);
	assert_int_equal(count(scene, "one"), 2);
}

/* One with many bytes and one with few, in the order in which another user would push it out. */
static void a_user_with_many_snapshots_does_not_displace_others(void **state)
{
	struct scene *const scene = *state;

	open_with(scene, DAY_MS, 2000);
	scene->owner = 105;
	for (int i = 0; i < 10; i++)
		add(scene, "redis-server", START_MS + i * 1000);
	for (int i = 0; i < 500; i++) {
		char name[32];
		scene->owner = 1001;
		snprintf(name, sizeof name, "name%d", i % 7);
		add(scene, i % 2 == 0 ? "redis-server" : name, START_MS + 20 * 1000 + i);
	}
	scene->owner = 105;
	const size_t of_both = count(scene, "redis-server");
	assert_true(scene->store->usage.bytes <= 2000);
	const struct store_share *const shares = store_usage_sort(&scene->store->usage);
	int64_t of_redis = 0;
	for (size_t i = 0; i < scene->store->usage.count; i++)
		of_redis += shares[i].owner == 105 ? shares[i].bytes : 0;
	assert_true(of_redis > 0);
	/* None of the ten went: they are less than half. */
	sqlite3_stmt *rows = NULL;
	struct error err;
	assert_true(store_prepare(
		scene->store, "SELECT count(*) FROM snapshot WHERE owner = 105", &rows, &err));
	assert_int_equal(sqlite3_step(rows), SQLITE_ROW);
	assert_int_equal(sqlite3_column_int(rows, 0), 10);
	sqlite3_finalize(rows);
	assert_true(of_both >= 10);
}

static void a_target_with_many_snapshots_does_not_displace_others(void **state)
{
	struct scene *const scene = *state;

	open_with(scene, DAY_MS, 2000);
	for (int i = 0; i < 10; i++)
		add(scene, "small", START_MS + i * 1000);
	for (int i = 0; i < 500; i++)
		add(scene, "large", START_MS + 20 * 1000 + i);
	assert_int_equal(count(scene, "small"), 10);
}

static void check_plan(struct scene *scene, const char *target, const char *columns,
	const char *more, const char *tail, bool may_sort)
{
	const struct store_query query = { .target = target, .to_ms = INT64_MAX };
	CLEANUP(statement_cleanup) sqlite3_stmt *statement = NULL;
	CLEANUP(statement_cleanup) sqlite3_stmt *plan = NULL;
	struct error err;

	assert_true(
		store_prepare_query(scene->store, &query, columns, more, tail, &statement, &err));
	CLEANUP(free_cleanup)
	char *text = xasprintf("EXPLAIN QUERY PLAN %s", sqlite3_sql(statement));
	assert_true(store_prepare(scene->store, text, &plan, &err));
	while (sqlite3_step(plan) == SQLITE_ROW) {
		const char *const step = (const char *)sqlite3_column_text(plan, 3);
		if (strncmp(step, "SCAN", 4) == 0 ||
			(!may_sort && strstr(step, "TEMP B-TREE") != NULL))
			fail_msg("%s %s: %s", target, tail, step);
	}
}

static void a_target_is_looked_up_by_an_index(void **state)
{
	struct scene *const scene = *state;

	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "one", START_MS);
	check_plan(scene, "one", "*", "", "ORDER BY time_ms, id", false);
	check_plan(scene, "one", "count(*)", "", "", false);
	check_plan(scene, "one", "*", STORE_BEFORE, STORE_LAST, false);
	check_plan(scene, "one", "*", "", STORE_FIRST, false);
	check_plan(scene, "one", "*", "AND id = ?6", "", false);
	check_plan(scene, "4711", "*", "", "ORDER BY time_ms, id", true);
	check_plan(scene, "4711", "*", STORE_BEFORE, STORE_LAST, true);
}

static void expect_denied(struct scene *scene, const char *why)
{
	struct store *store = NULL;
	struct error err = { 0 };

	assert_false(store_open(scene->folder, STORE_HISTORY,
		&(struct store_limits){
			.keep_ms = DAY_MS, .bytes = UINT64_MAX, .time = &scene_time },
		&store, &err));
	assert_int_equal(err.kind, ERROR_DENIED);
	assert_contains(err.message, why);
}

static void a_folder_that_others_can_change_is_refused(void **state)
{
	struct scene *const scene = *state;
	char path[400], other[400];

	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "one", START_MS);
	store_close(scene->store);
	scene->store = NULL;
	assert_int_equal(chmod(scene->folder, 0777), 0);
	expect_denied(scene, "may be written to by others");
	assert_int_equal(chmod(scene->folder, 01777), 0);
	expect_denied(scene, "may be written to by others");
	assert_int_equal(chmod(scene->folder, 0700), 0);
	snprintf(path, sizeof path, "%s/index.sqlite", scene->folder);
	snprintf(other, sizeof other, "%s/elsewhere", scene->folder);
	assert_int_equal(rename(path, other), 0);
	assert_int_equal(symlink(other, path), 0);
	expect_denied(scene, "index.sqlite is a link");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(link(other, path), 0);
	expect_denied(scene, "index.sqlite is a link");
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rename(other, path), 0);
	assert_int_equal(chmod(path, 0666), 0);
	expect_denied(scene, "index.sqlite may be written");
	assert_int_equal(chmod(path, 0600), 0);
	if (geteuid() == 0) {
		assert_int_equal(chown(path, 65001, 65001), 0);
		expect_denied(scene, "index.sqlite belongs to another user");
		assert_int_equal(chown(path, 0, 0), 0);
		assert_int_equal(chown(scene->folder, 65001, 65001), 0);
		expect_denied(scene, "belongs to another user");
		assert_int_equal(chown(scene->folder, 0, 0), 0);
	}
	open_with(scene, DAY_MS, UINT64_MAX);
	assert_int_equal(count(scene, "one"), 1);
}

static void a_clock_that_was_set_back_costs_the_oldest_not_the_newest(void **state)
{
	struct scene *const scene = *state;
	struct snapshot snapshot;
	CLEANUP(fd_cleanup) int profile = -1;
	struct error err;
	int64_t last = 0;

	/* Room for about ten. */
	open_with(scene, DAY_MS, 600);
	for (int i = 0; i < 20; i++)
		add(scene, "one", START_MS + i * 1000);
	const size_t kept = count(scene, "one");
	assert_in_range(kept, 4, 19);
	for (size_t i = 0; i < kept; i++)
		last = add(scene, "one", START_MS - INT64_C(365) * DAY_MS + (int64_t)i * 1000);
	assert_int_equal(count(scene, "one"), kept);
	assert_true(get(scene, "one", INT64_MAX, &snapshot, &profile, &err));
	assert_int_equal(snapshot.id, last);
	CLEANUP(fd_cleanup) int first = -1;
	assert_true(get(scene, "one", 0, &snapshot, &first, &err));
	assert_int_equal(snapshot.id, last - (int64_t)kept + 1);
}

static void the_last_snapshot_of_each_target_outlives_a_limit_of_bytes(void **state)
{
	struct scene *const scene = *state;

	open_with(scene, DAY_MS, 600);
	add(scene, "rare", START_MS);
	for (int i = 1; i < 30; i++)
		add(scene, "busy", START_MS + i * 1000);
	assert_int_equal(count(scene, "rare"), 1);
	assert_in_range(count(scene, "busy"), 3, 18);
}

static void the_last_snapshot_of_another_target_is_removed_when_no_other_can_be(void **state)
{
	struct scene *const scene = *state;

	open_with(scene, DAY_MS, 1);
	add(scene, "one", START_MS);
	add(scene, "two", START_MS + 1000);
	assert_int_equal(count(scene, "one"), 0);
	assert_int_equal(count(scene, "two"), 1);
}

static void bytes_are_bounded_but_the_newest_stays(void **state)
{
	struct scene *const scene = *state;

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < 30; i++)
		add(scene, "one", START_MS + i * 1000);
	open_with(scene, DAY_MS, 1);
	const int64_t last = add(scene, "one", START_MS + 30 * 1000);
	struct snapshot snapshot;
	CLEANUP(fd_cleanup) int profile = -1;
	struct error err;
	assert_int_equal(count(scene, "one"), 1);
	assert_true(get(scene, "one", 0, &snapshot, &profile, &err));
	assert_int_equal(snapshot.id, last);
}

static void names_cannot_leave_the_folder(void **state)
{
	struct scene *const scene = *state;
	struct snapshot snapshot;
	CLEANUP(fd_cleanup) int profile = -1;
	struct error err;

	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "../../etc/passwd'; DROP TABLE moment", START_MS);
	assert_true(get(scene, "../../etc/passwd'; DROP TABLE moment", START_MS, &snapshot,
		&profile, &err));
}

static char *list(struct scene *scene, const struct store_query *query, size_t most)
{
	struct buffer text;
	struct json_writer json;
	struct error err;

	buffer_init(&text, &memory_or_exit);
	json_init(&json, &text);
	assert_true(store_list(scene->store, query, most, &json, &(size_t){ 0 }, &err));
	return buffer_take(&text);
}

static size_t occurrences(const char *text, const char *part)
{
	size_t found = 0;

	for (; (text = strstr(text, part)) != NULL; text++)
		found++;
	return found;
}

static void figures_that_are_not_known_are_null(void **state)
{
	struct scene *const scene = *state;
	const struct store_query query = { .target = "redis-server", .to_ms = INT64_MAX };

	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "redis-server", START_MS);
	char *const text = list(scene, &query, 10);
	assert_int_equal(occurrences(text, "\"rss\":123"), 1);
	assert_int_equal(occurrences(text, ":null"), FIGURES - 1);
	assert_int_equal(occurrences(text, "\"allocated\":null"), 1);
	free(text);
}

static void processes_of_one_name_are_distinguished(void **state)
{
	struct scene *const scene = *state;
	struct store_query query = { .target = "one", .to_ms = INT64_MAX };
	struct store_series series;
	struct json_writer json;
	struct buffer text;
	struct error err;

	open_with(scene, DAY_MS, UINT64_MAX);
	/* 7, then 8 after a restart, then a 7 again. */
	for (int i = 0; i < 9; i++)
		add_of(scene, "one", START_MS + i, i < 3 || i >= 6 ? 7 : 8, 100 + i / 3);
	buffer_init(&text, &memory_or_exit);
	json_init(&json, &text);
	assert_true(store_list_processes(scene->store, &query, &json, &err));
	assert_int_equal(occurrences(buffer_string(&text), "\"snapshots\":3"), 3);
	buffer_deinit(&text);
	assert_true(store_series_look(scene->store, &query, &series, &err));
	assert_int_equal(series.processes, 3);
	assert_int_equal(series.count, 9);
	query.pid = 7;
	query.started_ms = 102;
	CLEANUP(free_cleanup) char *listed = list(scene, &query, 100);
	assert_int_equal(occurrences(listed, "\"started_ms\":102"), 3);
	assert_int_equal(occurrences(listed, "\"id\":"), 3);
}

static void processes_at_the_same_time_are_no_series(void **state)
{
	struct scene *const scene = *state;
	struct store_query query = { .target = "one", .to_ms = INT64_MAX };
	struct store_series series;
	struct error err = { 0 };

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < 4; i++)
		add_of(scene, "one", START_MS + i, i % 2 == 0 ? 7 : 8, 100);
	assert_false(store_series_look(scene->store, &query, &series, &err));
	assert_int_equal(err.kind, ERROR_STATE);
	query.pid = 8;
	assert_true(store_series_look(scene->store, &query, &series, &err));
	assert_int_equal(series.count, 2);
	query.to_ms = START_MS + 2;
	assert_false(store_series_look(scene->store, &query, &series, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

static void a_long_list_is_thinned_and_keeps_its_ends(void **state)
{
	struct scene *const scene = *state;
	const struct store_query query = { .target = "one", .to_ms = INT64_MAX };
	int64_t first = 0, last = 0;
	char key[32];

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < 20; i++) {
		last = add(scene, "one", START_MS + i);
		first = i == 0 ? last : first;
	}
	for (size_t most = 2; most < 30; most++) {
		CLEANUP(free_cleanup) char *listed = list(scene, &query, most);
		assert_int_equal(occurrences(listed, "\"id\":"), most < 20 ? most : 20);
		snprintf(key, sizeof key, "\"id\":%d,", (int)first);
		assert_int_equal(occurrences(listed, key), 1);
		snprintf(key, sizeof key, "\"id\":%d,", (int)last);
		assert_int_equal(occurrences(listed, key), 1);
	}
}

static void a_series_is_a_tar_of_what_was_kept(void **state)
{
	struct scene *const scene = *state;
	const struct store_query query = { .target = "one", .to_ms = INT64_MAX };
	CLEANUP(file_unmap) struct file_map tar = { 0 };
	CLEANUP(fd_cleanup)
	const int out = open(scene->folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	struct tar_member member;
	struct error err;
	size_t count = 0;

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < 10; i++)
		add(scene, "one", START_MS + i * 10);
	assert_true(store_series_gather(scene->store, &query, 4, UINT64_MAX, out, &err));
	assert_true(file_map_fd(out, "tar", &tar, &err));
	struct cursor in = cursor_over(tar.data, tar.size);
	for (; tar_next(&in, &member); count++) {
		char name[64];
		snprintf(name, sizeof name, "%" PRId64 "-4711.heap.zst",
			START_MS + (int64_t)count * 30);
		assert_string_equal(member.name, name);
	}
	assert_true(cursor_ok(&in));
	assert_int_equal(count, 4);
	/* So few bytes leave none: never more than was asked for. */
	assert_int_equal(ftruncate(out, 0), 0);
	assert_int_equal(lseek(out, 0, SEEK_SET), 0);
	assert_true(store_series_gather(scene->store, &query, 4, 10, out, &err));
	assert_int_equal(lseek(out, 0, SEEK_END), 2 * TAR_BLOCK);
}

/* Random bytes, which take as much in the file. */
static void add_large(struct scene *scene, int64_t time_ms, size_t size)
{
	CLEANUP(free_cleanup) char *profile = xmalloc(size);
	struct snapshot snapshot = { .time_ms = time_ms, .pid = 4711, .started_ms = START_MS };
	struct error err = { 0 };
	uint64_t state = 1;

	for (size_t i = 0; i < size; i++) {
		state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
		profile[i] = (char)(state >> 56);
	}
	strcpy(snapshot.target, "one");
	snapshot.owner = scene->owner;
	assert_true(store_add(scene->store, &snapshot, profile, size, &err));
}

static void a_series_of_uneven_profiles_stays_within_its_bytes(void **state)
{
	enum { COUNT = 41, LARGE = 20000, LIMIT = 50000 };
	struct scene *const scene = *state;
	const struct store_query query = { .target = "one", .to_ms = INT64_MAX };
	CLEANUP(fd_cleanup)
	const int out = open(scene->folder, O_RDWR | O_TMPFILE | O_CLOEXEC, 0600);
	struct error err;

	/* Nine of them, evenly chosen, are the large ones. */
	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < COUNT; i++) {
		if (i % 5 == 0)
			add_large(scene, START_MS + i, LARGE);
		else
			add(scene, "one", START_MS + i);
	}
	assert_true(store_series_gather(scene->store, &query, COUNT, LIMIT, out, &err));
	const off_t size = lseek(out, 0, SEEK_END);
	assert_in_range(size, LARGE, LIMIT + COUNT * 2 * TAR_BLOCK);
}

static void a_snapshot_is_found_by_its_id(void **state)
{
	struct scene *const scene = *state;
	CLEANUP(fd_cleanup) int profile = -1;
	CLEANUP(fd_cleanup) int none = -1;
	struct snapshot snapshot;
	struct error err = { 0 };

	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "one", START_MS);
	const int64_t id = add(scene, "one", START_MS + 1);
	assert_true(store_get_id(scene->store, "one", id, &snapshot, &profile, &err));
	assert_int_equal(snapshot.time_ms, START_MS + 1);
	assert_int_equal(snapshot.started_ms, START_MS);
	assert_false(store_get_id(scene->store, "two", id, &snapshot, &none, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

static void an_index_of_a_newer_version_is_left_alone(void **state)
{
	struct scene *const scene = *state;
	const struct store_limits limits = { .bytes = UINT64_MAX, .time = &scene_time };
	struct error err = { 0 };

	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "one", START_MS);
	assert_true(store_execute(scene->store, "PRAGMA user_version = 4", &err));
	store_close(scene->store);
	scene->store = NULL;
	assert_false(store_open(scene->folder, STORE_HISTORY, &limits, &scene->store, &err));
	assert_int_equal(err.kind, ERROR_UNSUPPORTED);
	assert_contains(err.message, "was written by a newer heapctl");
}

static void an_index_of_version_1_gets_its_labels(void **state)
{
	struct scene *const scene = *state;
	struct snapshot snapshot;
	struct error err = { 0 };

	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "one", START_MS);
	assert_true(store_execute(scene->store,
		"ALTER TABLE snapshot DROP COLUMN labels; PRAGMA user_version = 1", &err));
	open_with(scene, DAY_MS, UINT64_MAX);
	snapshot =
		(struct snapshot){ .time_ms = START_MS + 1, .target = "one", .labels = "zone=b" };
	assert_true(store_add(scene->store, &snapshot, "heap_v2", 7, &err));
	for (int64_t id = 1; id <= 2; id++) {
		CLEANUP(fd_cleanup) int fd = -1;
		assert_true(store_get_id(scene->store, "one", id, &snapshot, &fd, &err));
		assert_string_equal(snapshot.labels, id == 1 ? "" : "zone=b");
	}
}

static void open_captures(struct scene *scene, const struct store_limits *limits)
{
	struct error err = { 0 };

	store_close(scene->store);
	scene->store = NULL;
	if (!store_open(scene->folder, STORE_CAPTURES, limits, &scene->store, &err))
		fail_msg("%s", err.message);
}

static const struct store_limits unlimited = { .bytes = UINT64_MAX };

static int64_t capture(struct scene *scene)
{
	struct snapshot snapshot = {
		.time_ms = START_MS,
		.target = "one",
		.owner = STORE_NO_OWNER,
		.reason = "signal",
		.tag = "tag",
		.stem = "one.7",
		.details = "{\"reason\":\"signal\",\"time_ms\":1700000000000}",
	};
	struct error err = { 0 };

	if (!store_add(scene->store, &snapshot, "profile", 7, &err))
		fail_msg("%s", err.message);
	return snapshot.id;
}

static void add_digit(void *context, const struct snapshot *snapshot)
{
	char *const digits = context;
	const size_t used = strlen(digits);

	snprintf(digits + used, 16 - used, "%d", (int)snapshot->id);
}

/* The ids of what is kept. */
static const char *kept(struct scene *scene, char digits[16])
{
	const struct store_query query = { .to_ms = INT64_MAX, .captured = true };
	struct error err = { 0 };
	size_t total;

	digits[0] = '\0';
	assert_true(store_each(scene->store, &query, SIZE_MAX, add_digit, digits, &total, &err));
	return digits;
}

static void the_oldest_captures_are_removed_by_number(void **state)
{
	struct scene *const scene = *state;
	const struct store_limits two = { .count = 2, .bytes = UINT64_MAX };
	const struct store_limits bytes = { .bytes = 2 * 7 }, none = { .bytes = 1 };
	char digits[16];

	open_captures(scene, &two);
	for (int i = 0; i < 4; i++)
		capture(scene);
	assert_string_equal(kept(scene, digits), "34");
	open_captures(scene, &bytes);
	capture(scene);
	assert_string_equal(kept(scene, digits), "45");
	open_captures(scene, &none);
	capture(scene);
	assert_string_equal(kept(scene, digits), "6");
}

static bool begin(struct scene *scene, struct file_draft *draft, struct error *err)
{
	struct snapshot snapshot = { .tag = "tag", .stem = "one.7", .target = "one" };

	return store_begin(scene->store, &snapshot, draft, err);
}

static void nothing_is_removed_for_room_that_cannot_be_made(void **state)
{
	struct scene *const scene = *state;
	const struct store_limits large = { .bytes = UINT64_MAX, .free_bytes = UINT64_MAX / 2 };
	struct snapshot taken = {
		.time_ms = START_MS, .tag = "i1", .stem = "own.7", .target = "one", .reason = "x"
	};
	struct file_draft draft;
	char path[128], digits[16];
	struct error err = { 0 };

	open_captures(scene, &unlimited);
	capture(scene);
	capture(scene);
	open_captures(scene, &large);
	assert_false(store_check_room(scene->store, &err));
	assert_false(begin(scene, &draft, &err));
	assert_int_equal(err.kind, ERROR_STATE);
	snprintf(path, sizeof path, "%s/own", scene->folder);
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (!store_take(scene->store, path, fd, &taken, &err))
		fail_msg("%s", err.message);
	assert_string_equal(kept(scene, digits), "123");
}

static void nothing_is_removed_before_the_new_one_is_safe(void **state)
{
	enum { LARGE = 64 << 20 };
	struct scene *const scene = *state;
	struct file_draft draft;
	struct statvfs disk;
	char digits[16];
	struct error err = { 0 };

	open_captures(scene, &unlimited);
	for (int i = 0; i < 3; i++) {
		struct snapshot snapshot = {
			.tag = "tag", .stem = "one.7", .target = "one", .reason = "x"
		};
		assert_true(store_begin(scene->store, &snapshot, &draft, &err));
		/* Without a byte on the disk, so that it takes no time. */
		assert_int_equal(ftruncate(draft.fd, LARGE), 0);
		assert_true(store_commit(scene->store, &snapshot, &draft, &err));
	}
	/* All but one or two would have to go, but the disk has room to write the new one. */
	assert_int_equal(statvfs(scene->folder, &disk), 0);
	const struct store_limits floor = { .bytes = UINT64_MAX,
		.free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize + LARGE };
	open_captures(scene, &floor);
	assert_true(begin(scene, &draft, &err));
	file_draft_discard(&draft);
	assert_string_equal(kept(scene, digits), "123");
}

static void a_lost_or_damaged_index_of_captures_loses_nothing(void **state)
{
	struct scene *const scene = *state;
	char path[128], list[128], digits[16];

	open_captures(scene, &unlimited);
	capture(scene);
	capture(scene);
	snprintf(path, sizeof path, "%s/index.sqlite", scene->folder);
	snprintf(list, sizeof list, "%s/captures.jsonl", scene->folder);
	/* While the store is in use. */
	assert_int_equal(unlink(path), 0);
	assert_int_equal(capture(scene), 3);
	assert_string_equal(kept(scene, digits), "123");
	store_close(scene->store);
	scene->store = NULL;
	assert_int_equal(truncate(path, 5000), 0);
	open_captures(scene, &unlimited);
	assert_string_equal(kept(scene, digits), "123");
	/* The list has the reasons, and is written again. */
	assert_null(store_take_list_damage(scene->store));
	assert_int_equal(unlink(list), 0);
	open_captures(scene, &unlimited);
	struct buffer text;
	struct error err = { 0 };
	buffer_init(&text, &memory_or_exit);
	assert_true(file_read(list, &text, &err));
	assert_int_equal(occurrences(buffer_string(&text), "\"reason\":\"signal\""), 3);
	buffer_deinit(&text);
}

static unsigned sync_count;

/* SQLite's calls come here. */
__attribute__((visibility("default"))) int fdatasync(int fd)
{
	sync_count++;
	return (int)syscall(SYS_fdatasync, fd);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
	sync_count++;
	return (int)syscall(SYS_fsync, fd);
}

static void removing_many_does_not_wait_for_the_disk_each_time(void **state)
{
	struct scene *const scene = *state;
	const struct store_limits few = { .bytes = UINT64_MAX, .count = 2 };
	unsigned kept_one;

	open_captures(scene, &unlimited);
	for (int i = 0; i < 40; i++)
		capture(scene);
	sync_count = 0;
	capture(scene);
	kept_one = sync_count;
	assert_true(kept_one > 0);
	store_set_limits(scene->store, &few);
	sync_count = 0;
	capture(scene);
	assert_true(sync_count <= kept_one + 10);
	assert_int_equal(scene->store->usage.snapshots, 2);
}

static void refuses_the_database_of_another_program_and_leaves_it_alone(void **state)
{
	struct scene *const scene = *state;
	static const char *const tables[] = { "CREATE TABLE other (x)", "CREATE TABLE snapshot (x)",
		"CREATE TABLE other (x); PRAGMA user_version = 7" };
	struct error err = { 0 };
	struct stat before, after;
	char path[128];

	snprintf(path, sizeof path, "%s/index.sqlite", scene->folder);
	for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
		sqlite3 *other = NULL;
		store_close(scene->store);
		scene->store = NULL;
		(void)unlink(path);
		assert_int_equal(sqlite3_open(path, &other), SQLITE_OK);
		assert_int_equal(sqlite3_exec(other, tables[i], NULL, NULL, NULL), SQLITE_OK);
		sqlite3_close(other);
		assert_int_equal(chmod(path, 0600), 0);
		assert_int_equal(stat(path, &before), 0);
		assert_false(
			store_open(scene->folder, STORE_CAPTURES, &unlimited, &scene->store, &err));
		assert_non_null(strstr(err.message, "index.sqlite is the database of another"));
		assert_string_equal(err.hint, "use another folder");
		assert_int_equal(stat(path, &after), 0);
		assert_int_equal(after.st_size, before.st_size);
		assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
	}
	assert_false(store_open("/proc", STORE_CAPTURES, &unlimited, &scene->store, &err));
	assert_non_null(strstr(err.message, "/proc"));
	assert_non_null(strstr(err.hint, "use a folder on a disk"));
}

static void cut_list(const char *list)
{
	struct stat status;

	assert_int_equal(stat(list, &status), 0);
	assert_int_equal(truncate(list, status.st_size - 20), 0);
}

static void reports_damaged_lines_of_the_list_once(void **state)
{
	struct scene *const scene = *state;
	char path[128], list[128], digits[16];

	snprintf(path, sizeof path, "%s/index.sqlite", scene->folder);
	snprintf(list, sizeof list, "%s/captures.jsonl", scene->folder);
	open_captures(scene, &unlimited);
	for (int i = 0; i < 3; i++)
		capture(scene);
	open_captures(scene, &unlimited);
	/* With an index the list is not read, and written again. */
	cut_list(list);
	open_captures(scene, &unlimited);
	assert_null(store_take_list_damage(scene->store));
	cut_list(list);
	assert_int_equal(unlink(path), 0);
	open_captures(scene, &unlimited);
	char *const damage = store_take_list_damage(scene->store);
	assert_non_null(damage);
	assert_non_null(strstr(damage, "/captures.jsonl: line 3 is damaged"));
	free(damage);
	assert_null(store_take_list_damage(scene->store));
	assert_string_equal(kept(scene, digits), "123");
}

static void names_that_are_odd_are_listed_or_left_alone(void **state)
{
	static const char *const names[] = {
		"00000007-20261121T101500Z-tag-a.heap.12.heap", /* ours */
		"00000007-20261121T101500Z-tag-b.12.heap",	/* the number twice */
		"00000009-x.heap", "9-x.heap", "99999999999999999999-x.heap",
		"00000003-20261121T101500Z-tag-c.12.heap.0123456789abcdef", /* unfinished */
	};
	struct scene *const scene = *state;
	char path[200], digits[16];

	for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
		snprintf(path, sizeof path, "%s/%s", scene->folder, names[i]);
		close(open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600));
	}
	open_captures(scene, &unlimited);
	assert_int_equal(store_relisted_count(scene->store), 3);
	kept(scene, digits);
	assert_int_equal(capture(scene), 11);
	assert_int_not_equal(access(path, F_OK), 0);
	snprintf(path, sizeof path, "%s/%s", scene->folder, names[3]);
	assert_int_equal(access(path, F_OK), 0);
}

static void a_snapshot_is_sent_once(void **state)
{
	struct scene *const scene = *state;
	struct snapshot snapshot;
	struct error err = { 0 };
	int64_t last = 0;

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < 3; i++)
		add(scene, "one", START_MS + i);
	for (int64_t id = 1; id <= 3; id++) {
		CLEANUP(fd_cleanup) int fd = -1;
		assert_true(store_next_unsent(scene->store, last, &snapshot, &fd, &err));
		assert_int_equal(snapshot.id, id);
		last = id;
		if (id != 2)
			assert_true(store_mark_sent(scene->store, id, START_MS, &err));
	}
	open_with(scene, DAY_MS, UINT64_MAX);
	CLEANUP(fd_cleanup) int left = -1;
	CLEANUP(fd_cleanup) int none = -1;
	assert_true(store_next_unsent(scene->store, 0, &snapshot, &left, &err));
	assert_int_equal(snapshot.id, 2);
	assert_false(store_next_unsent(scene->store, 2, &snapshot, &none, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

static void snapshots_are_sent_while_they_are_kept(void **state)
{
	struct scene *const scene = *state;
	CLEANUP(store_cleanup) struct store *reader = NULL;
	struct snapshot snapshot;
	struct error err = { 0 };
	uint64_t count = 0;
	int64_t oldest_ms = 0;
	char path[4096];

	open_with(scene, DAY_MS, UINT64_MAX);
	for (int i = 0; i < 3; i++)
		add(scene, "one", START_MS + i);
	assert_true(store_open_reader(scene->folder, STORE_HISTORY, &reader, &err));
	CLEANUP(fd_cleanup) int first = -1;
	assert_true(store_next_unsent(reader, 0, &snapshot, &first, &err));
	assert_true(store_mark_sent(reader, snapshot.id, START_MS, &err));
	/* Its file is being removed. */
	CLEANUP(fd_cleanup) int second = -1;
	assert_true(store_next_unsent(reader, snapshot.id, &snapshot, &second, &err));
	assert_int_equal(snapshot.id, 2);
	snprintf(path, sizeof path, "%s/%s", scene->folder, snapshot.file);
	assert_int_equal(unlink(path), 0);
	CLEANUP(fd_cleanup) int third = -1;
	assert_true(store_next_unsent(reader, 1, &snapshot, &third, &err));
	assert_int_equal(snapshot.id, 3);
	add(scene, "one", START_MS + 3);
	assert_true(store_count_unsent(scene->store, &count, &oldest_ms, &err));
	assert_int_equal(count, 3);
	assert_int_equal(oldest_ms, START_MS + 1);
	for (int64_t id = 2; id <= 4; id++)
		assert_true(store_mark_sent(reader, id, START_MS, &err));
	assert_true(store_count_unsent(scene->store, &count, &oldest_ms, &err));
	assert_int_equal(count, 0);
	assert_int_equal(oldest_ms, 0);
}

static void what_is_kept_is_for_its_owner_alone(void **state)
{
	struct scene *const scene = *state;
	const mode_t mask = umask(022);
	unsigned files = 0;

	assert_int_equal(chmod(scene->folder, 0755), 0);
	open_with(scene, DAY_MS, UINT64_MAX);
	add(scene, "one", START_MS);
	umask(mask);
	DIR *const stream = opendir(scene->folder);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		struct stat status;
		assert_int_equal(fstatat(dirfd(stream), entry->d_name, &status, 0), 0);
		if (!S_ISREG(status.st_mode))
			continue;
		assert_int_equal(status.st_mode & 077, 0);
		files++;
	}
	closedir(stream);
	/* The profile, the index and its log. */
	assert_true(files >= 3);
}

#define STORE_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	STORE_TEST(a_snapshot_is_found_by_name_pid_and_time),
	STORE_TEST(old_snapshots_expire),
	STORE_TEST(two_snapshots_of_a_process_in_one_millisecond_are_both_kept),
	STORE_TEST(the_rows_of_many_lost_files_are_removed_at_once),
	STORE_TEST(a_clock_that_jumps_ahead_costs_nothing),
	STORE_TEST(a_clock_that_is_wrong_after_a_boot_costs_half_at_most),
	STORE_TEST(snapshots_from_before_days_without_power_expire),
	STORE_TEST(a_user_with_many_snapshots_does_not_displace_others),
	STORE_TEST(a_target_with_many_snapshots_does_not_displace_others),
	STORE_TEST(a_target_is_looked_up_by_an_index),
	STORE_TEST(a_folder_that_others_can_change_is_refused),
	STORE_TEST(bytes_are_bounded_but_the_newest_stays),
	STORE_TEST(a_clock_that_was_set_back_costs_the_oldest_not_the_newest),
	STORE_TEST(the_last_snapshot_of_each_target_outlives_a_limit_of_bytes),
	STORE_TEST(the_last_snapshot_of_another_target_is_removed_when_no_other_can_be),
	STORE_TEST(what_is_kept_is_for_its_owner_alone),
	STORE_TEST(names_cannot_leave_the_folder),
	STORE_TEST(figures_that_are_not_known_are_null),
	STORE_TEST(processes_of_one_name_are_distinguished),
	STORE_TEST(processes_at_the_same_time_are_no_series),
	STORE_TEST(a_long_list_is_thinned_and_keeps_its_ends),
	STORE_TEST(a_series_is_a_tar_of_what_was_kept),
	STORE_TEST(a_series_of_uneven_profiles_stays_within_its_bytes),
	STORE_TEST(a_snapshot_is_found_by_its_id),
	STORE_TEST(an_index_of_a_newer_version_is_left_alone),
	STORE_TEST(an_index_of_version_1_gets_its_labels),
	STORE_TEST(the_oldest_captures_are_removed_by_number),
	STORE_TEST(nothing_is_removed_for_room_that_cannot_be_made),
	STORE_TEST(nothing_is_removed_before_the_new_one_is_safe),
	STORE_TEST(a_lost_or_damaged_index_of_captures_loses_nothing),
	STORE_TEST(removing_many_does_not_wait_for_the_disk_each_time),
	STORE_TEST(refuses_the_database_of_another_program_and_leaves_it_alone),
	STORE_TEST(reports_damaged_lines_of_the_list_once),
	STORE_TEST(names_that_are_odd_are_listed_or_left_alone),
	STORE_TEST(a_snapshot_is_sent_once),
	STORE_TEST(snapshots_are_sent_while_they_are_kept),
};

UNIT_MAIN(tests)
