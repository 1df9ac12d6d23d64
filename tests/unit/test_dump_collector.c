/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/dump_collector.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "remove_folder.h"
#include "unit.h"

enum { QUIET_MS = 2000 };
static const char PROFILE[] = "heap_v2/524288\n";

struct scene {
	char path[64];
	struct dump_collector *dump_collector;
};

static int set_up(void **state)
{
	struct scene *const scene = xcalloc(1, sizeof *scene);
	char prefix[80];
	struct error err;

	strcpy(scene->path, "/tmp/hc-dump_collector.XXXXXX");
	assert_non_null(mkdtemp(scene->path));
	snprintf(prefix, sizeof prefix, "%s/own", scene->path);
	assert_true(dump_collector_new(prefix, &scene->dump_collector, &err));
	*state = scene;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *const scene = *state;

	dump_collector_free(scene->dump_collector);
	remove_folder(scene->path);
	free(scene);
	return 0;
}

static void put(const struct scene *scene, const char *name, const char *text)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", scene->path, name);
	CLEANUP(fd_cleanup)
	const int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
}

static bool is_there(const struct scene *scene, const char *name)
{
	char path[128];

	snprintf(path, sizeof path, "%s/%s", scene->path, name);
	return access(path, F_OK) == 0;
}

/* The number of ready files that are left out. */
static size_t look(const struct scene *scene, int64_t now_ms, size_t most)
{
	size_t dropped = 99;
	struct error err;

	if (!dump_collector_scan(scene->dump_collector, now_ms, most, &dropped, &err))
		fail_msg("%s", err.message);
	return dropped;
}

/* Whether a file was taken whose tag is that; "" for none. */
static void expect(const struct scene *scene, int64_t now_ms, const char *tag)
{
	struct dump dump;
	struct error err;

	if (!dump_collector_next(scene->dump_collector, now_ms, &dump, &err))
		fail_msg("%s", err.message);
	assert_string_equal(dump.tag, tag);
	assert_int_equal(dump.fd >= 0, tag[0] != '\0');
	if (dump.fd < 0)
		return;
	assert_string_equal(dump.stem, "own.7");
	close(dump.fd);
	assert_int_equal(unlink(dump.path), 0);
}

static void what_is_being_written_is_not_taken(void **state)
{
	const struct scene *const scene = *state;

	put(scene, "own.7.0.i0.heap", PROFILE);
	assert_int_equal(look(scene, 0, 9), 0);
	expect(scene, 0, "");
	/* jemalloc writes in place. */
	put(scene, "own.7.0.i0.heap", "  t*: 0: 0 [0: 0]\n");
	assert_int_equal(look(scene, QUIET_MS, 9), 0);
	expect(scene, QUIET_MS, "");
	assert_int_equal(look(scene, 2 * QUIET_MS - 1, 9), 0);
	expect(scene, 2 * QUIET_MS - 1, "");
	assert_int_equal(look(scene, 2 * QUIET_MS, 9), 0);
	expect(scene, 2 * QUIET_MS, "i0");
	expect(scene, 2 * QUIET_MS, "");
	assert_false(is_there(scene, "own.7.0.i0.heap"));
}

static void of_too_many_the_newest_are_taken(void **state)
{
	const struct scene *const scene = *state;

	/* A file that is no profile stays, and so does one with another name. */
	put(scene, "own.6.0.u0.heap", "no profile");
	for (int i = 0; i < 12; i++) {
		char name[40];
		snprintf(name, sizeof name, "own.7.%d.u%d.heap", i, i);
		put(scene, name, PROFILE);
	}
	put(scene, "own.notes.heap", "mine");
	assert_int_equal(look(scene, 0, 3), 0);
	assert_int_equal(look(scene, QUIET_MS, 3), 9);
	/* It is the oldest of the remaining files, and reported in its turn. */
	struct error err;
	struct dump dump;
	assert_false(dump_collector_next(scene->dump_collector, QUIET_MS, &dump, &err));
	for (const char *const *tag = (const char *const[]){ "u9", "u10", "u11", "", NULL };
		*tag != NULL; tag++)
		expect(scene, QUIET_MS, *tag);
	assert_true(is_there(scene, "own.6.0.u0.heap"));
	assert_true(is_there(scene, "own.notes.heap"));
}

static void what_is_no_profile_is_reported_once(void **state)
{
	const struct scene *const scene = *state;
	struct dump dump;
	struct error err = { 0 };

	put(scene, "own.7.0.f.heap", "no profile");
	assert_int_equal(look(scene, 0, 9), 0);
	assert_int_equal(look(scene, QUIET_MS, 9), 0);
	assert_false(dump_collector_next(scene->dump_collector, QUIET_MS, &dump, &err));
	assert_non_null(strstr(err.message, "is not a profile of jemalloc; it is left as it is"));
	assert_int_equal(look(scene, 100 * QUIET_MS, 9), 0);
	expect(scene, 100 * QUIET_MS, "");
	assert_true(is_there(scene, "own.7.0.f.heap"));
}

static void a_profile_of_traffic_servers_plugin_is_taken_too(void **state)
{
	const struct scene *const scene = *state;

	put(scene, "own.7.2.h2.heap", PROFILE);
	assert_int_equal(look(scene, 0, 9), 0);
	assert_int_equal(look(scene, QUIET_MS, 9), 0);
	expect(scene, QUIET_MS, "h2");
}

#define COLLECTOR_TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	COLLECTOR_TEST(what_is_being_written_is_not_taken),
	COLLECTOR_TEST(of_too_many_the_newest_are_taken),
	COLLECTOR_TEST(what_is_no_profile_is_reported_once),
	COLLECTOR_TEST(a_profile_of_traffic_servers_plugin_is_taken_too),
};

UNIT_MAIN(tests)
