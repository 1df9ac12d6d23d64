/* SPDX-License-Identifier: Apache-2.0 */
#include "store/notes.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/xalloc.h"
#include "remove_folder.h"
#include "store/note_text.h"
#include "store/store_index.h"
#include "unit.h"

static const int64_t START_MS = 1700000000000;

struct scene {
	char folder[64];
	struct store *store;
};

static void open_store(struct scene *scene, uint64_t bytes)
{
	const struct store_limits limits = { .bytes = bytes };
	struct error err = { 0 };

	store_close(scene->store);
	scene->store = NULL;
	if (!store_open(scene->folder, STORE_HISTORY, &limits, &scene->store, &err))
		fail_msg("%s", err.message);
}

static void add_snapshot(struct scene *scene, const char *target, int64_t time_ms)
{
	struct snapshot snapshot = { .time_ms = time_ms, .pid = 4711, .started_ms = START_MS };
	struct error err = { 0 };

	snprintf(snapshot.target, sizeof snapshot.target, "%s", target);
	if (!store_add(scene->store, &snapshot, "heap_v2", 7, &err))
		fail_msg("%s", err.message);
}

static int set_up(void **state)
{
	struct scene *const scene = xcalloc(1, sizeof *scene);

	strcpy(scene->folder, "/tmp/hc-notes.XXXXXX");
	assert_non_null(mkdtemp(scene->folder));
	open_store(scene, UINT64_MAX);
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

static int64_t note(struct store *store, const char *target, int64_t time_ms, const char *text)
{
	struct store_note item = { .time_ms = time_ms, .target = target, .text = text };
	struct error err = { 0 };

	if (!store_add_note(store, &item, &err))
		fail_msg("%s", err.message);
	return item.id;
}

static char *list_between(struct store *store, const char *target, int64_t from_ms, int64_t to_ms)
{
	const struct store_query query = { .target = target, .from_ms = from_ms, .to_ms = to_ms };
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct json_writer json;
	struct error err = { 0 };

	json_init(&json, &text);
	if (!store_list_notes(store, &query, &json, NULL, &err))
		fail_msg("%s", err.message);
	return xstrdup(buffer_string(&text));
}

static size_t count(struct store *store, const char *target)
{
	const struct store_query query = { .target = target, .to_ms = INT64_MAX };
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct json_writer json;
	struct error err = { 0 };
	size_t found = 0;

	json_init(&json, &text);
	if (!store_list_notes(store, &query, &json, &found, &err))
		fail_msg("%s", err.message);
	return found;
}

static void notes_are_listed_by_time_and_target(void **state)
{
	struct store *const store = ((struct scene *)*state)->store;
	const int64_t later = note(store, "one", START_MS + 5, "v7.3 rollout \"blue\"");
	const int64_t earlier = note(store, "one", START_MS + 2, "v7.2");

	note(store, "two", START_MS + 3, "other");
	CLEANUP(free_cleanup) char *all = list_between(store, "one", 0, INT64_MAX);
	CLEANUP(free_cleanup)
	char *expected = xasprintf("[{\"id\":%" PRId64 ",\"time_ms\":%" PRId64
				   ",\"target\":\"one\",\"text\":\"v7.2\"},"
				   "{\"id\":%" PRId64 ",\"time_ms\":%" PRId64
				   ",\"target\":\"one\",\"text\":\"v7.3 rollout \\\"blue\\\"\"}]",
		earlier, START_MS + 2, later, START_MS + 5);
	assert_string_equal(all, expected);
	CLEANUP(free_cleanup) char *none = list_between(store, "one", START_MS + 3, START_MS + 4);
	assert_string_equal(none, "[]");
}

static void a_note_is_removed_from_its_own_target_alone(void **state)
{
	struct store *const store = ((struct scene *)*state)->store;
	const int64_t id = note(store, "one", START_MS, "v1");
	struct error err = { 0 };

	assert_false(store_remove_note(store, "two", id, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
	assert_true(store_remove_note(store, "one", id, &err));
	assert_false(store_remove_note(store, "one", id, &err));
	assert_int_equal(count(store, "one"), 0);
	assert_true(note(store, "one", START_MS, "v1") > id);
}

static void a_text_that_is_no_note_is_refused(void **state)
{
	struct store *const store = ((struct scene *)*state)->store;
	char longest[NOTE_TEXT_MAX + 2];
	struct error err = { 0 };

	memset(longest, 'x', sizeof longest - 1);
	longest[sizeof longest - 1] = '\0';
	const char *const wrong[] = { "", "  ", longest, "two\nlines", "\x1b[2J", "\xff" };
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		struct store_note item = { .time_ms = 1, .target = "one", .text = wrong[i] };
		assert_false(store_add_note(store, &item, &err));
		assert_int_equal(err.kind, ERROR_USAGE);
	}
	longest[NOTE_TEXT_MAX] = '\0';
	note(store, "one", START_MS, longest);
	note(store, "one", START_MS, "déployé");
	assert_int_equal(count(store, "one"), 2);
}

static void a_note_of_the_future_is_refused(void **state)
{
	struct store *const store = ((struct scene *)*state)->store;
	const int64_t hour_ms = 3600 * 1000, now_ms = clock_realtime_ms();
	struct store_note item = { .time_ms = now_ms + hour_ms, .target = "one", .text = "v8" };
	struct error err = { 0 };

	assert_false(store_add_note(store, &item, &err));
	assert_int_equal(err.kind, ERROR_USAGE);
	/* The clock of another host is a minute ahead. */
	note(store, "one", now_ms + 60 * 1000, "v7");
	assert_int_equal(count(store, "one"), 1);
}

static void notes_of_a_target_are_bounded(void **state)
{
	struct store *const store = ((struct scene *)*state)->store;

	assert_true(store_execute(store, "PRAGMA synchronous = OFF", &(struct error){ 0 }));
	for (int i = 0; i < STORE_NOTES_MAX; i++)
		note(store, "one", START_MS + i, "filler");
	note(store, "one", START_MS - 1, "of before all others");
	assert_int_equal(count(store, "one"), STORE_NOTES_MAX);
	CLEANUP(free_cleanup) char *first = list_between(store, "one", 0, START_MS + 1);
	assert_contains(first, "of before all others");
	assert_null(strstr(first, "filler\"},{"));
}

static void notes_survive_a_close_and_a_kill(void **state)
{
	struct scene *const scene = *state;

	store_close(TAKE(scene->store));
	const pid_t child = fork();
	if (child == 0) {
		open_store(scene, UINT64_MAX);
		note(scene->store, "one", START_MS, "kept");
		/* A change that was never finished. */
		(void)!store_execute(scene->store,
			"BEGIN; INSERT INTO note (time_ms, target, text) VALUES (1, 'one', 'half')",
			&(struct error){ 0 });
		(void)kill(getpid(), SIGKILL);
	}
	int status = 0;
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
	open_store(scene, UINT64_MAX);
	CLEANUP(free_cleanup) char *all = list_between(scene->store, "one", 0, INT64_MAX);
	assert_contains(all, "kept");
	assert_int_equal(count(scene->store, "one"), 1);
}

static void another_process_writes_notes_beside_the_recorder(void **state)
{
	struct scene *const scene = *state;
	CLEANUP(store_cleanup) struct store *reader = NULL;
	struct error err = { 0 };

	add_snapshot(scene, "one", START_MS);
	assert_true(store_open_reader(scene->folder, STORE_HISTORY, &reader, &err));
	note(reader, "one", START_MS + 1, "from outside");
	add_snapshot(scene, "one", START_MS + 2);
	assert_int_equal(count(scene->store, "one"), 1);
	note(scene->store, "one", START_MS + 3, "from inside");
	assert_int_equal(count(reader, "one"), 2);
}

static void a_note_goes_with_the_oldest_snapshot_after_it(void **state)
{
	struct scene *const scene = *state;
	struct error err = { 0 };

	note(scene->store, "one", START_MS - 1, "before the first");
	for (int i = 0; i < 3; i++)
		add_snapshot(scene, "one", START_MS + 10 * i);
	note(scene->store, "one", START_MS + 15, "between");
	note(scene->store, "two", START_MS - 1, "of another target");
	/* One in the middle is lost: notes before it stay. */
	CLEANUP(free_cleanup)
	char *file = xasprintf("%s/%013" PRId64 "-4711-one.heap.zst", scene->folder, START_MS + 10);
	assert_int_equal(unlink(file), 0);
	assert_true(store_execute(scene->store, "DELETE FROM snapshot WHERE id = 2", &err));
	assert_int_equal(count(scene->store, "one"), 2);
	open_store(scene, 1);
	add_snapshot(scene, "one", START_MS + 40);
	assert_int_equal(count(scene->store, "one"), 0);
	assert_int_equal(count(scene->store, "two"), 1);
}

static void an_index_of_version_2_gets_the_table_of_notes(void **state)
{
	struct scene *const scene = *state;
	struct error err = { 0 };

	add_snapshot(scene, "one", START_MS);
	assert_true(store_execute(scene->store,
		"DROP TRIGGER note_expires; DROP TABLE note; PRAGMA user_version = 2", &err));
	open_store(scene, UINT64_MAX);
	note(scene->store, "one", START_MS + 1, "v7.3");
	assert_int_equal(count(scene->store, "one"), 1);
}

static void notes_follow_a_folder_that_was_replaced(void **state)
{
	struct scene *const scene = *state;
	CLEANUP(free_cleanup) char *moved = xasprintf("%s.moved", scene->folder);

	add_snapshot(scene, "one", START_MS);
	assert_int_equal(rename(scene->folder, moved), 0);
	note(scene->store, "one", START_MS + 1, "in the new folder");
	assert_int_equal(count(scene->store, "one"), 1);
	open_store(scene, UINT64_MAX);
	assert_int_equal(count(scene->store, "one"), 1);
	remove_folder(moved);
}

static void a_name_is_found_by_name_or_pid(void **state)
{
	struct scene *const scene = *state;
	struct error err = { 0 };
	char name[128];

	add_snapshot(scene, "one", START_MS);
	assert_true(store_find_name(scene->store, "4711", name, &err));
	assert_string_equal(name, "one");
	assert_true(store_find_name(scene->store, "one", name, &err));
	assert_false(store_find_name(scene->store, "three", name, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
}

#define NOTES_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	NOTES_TEST(notes_are_listed_by_time_and_target),
	NOTES_TEST(a_note_is_removed_from_its_own_target_alone),
	NOTES_TEST(a_text_that_is_no_note_is_refused),
	NOTES_TEST(a_note_of_the_future_is_refused),
	NOTES_TEST(notes_of_a_target_are_bounded),
	NOTES_TEST(notes_survive_a_close_and_a_kill),
	NOTES_TEST(another_process_writes_notes_beside_the_recorder),
	NOTES_TEST(a_note_goes_with_the_oldest_snapshot_after_it),
	NOTES_TEST(an_index_of_version_2_gets_the_table_of_notes),
	NOTES_TEST(notes_follow_a_folder_that_was_replaced),
	NOTES_TEST(a_name_is_found_by_name_or_pid),
};

UNIT_MAIN(tests)
