/* SPDX-License-Identifier: Apache-2.0 */
#include "client/control_group.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "unit.h"

/* A folder that looks like /sys/fs/cgroup with the group /outer/inner. */
struct tree {
	char top[64];
	struct cgroup group;
};

static const char *const folders[] = { "", "/outer", "/outer/inner" };
static const char *const names[] = { "memory.max", "memory.current", "memory.stat",
	"memory.limit_in_bytes", "memory.usage_in_bytes", "pids.max", "pids.current" };

static int make_tree(void **state)
{
	struct tree *const tree = calloc(1, sizeof *tree);

	strcpy(tree->top, "/tmp/hc-cgroup.XXXXXX");
	assert_non_null(mkdtemp(tree->top));
	for (size_t i = 1; i < 3; i++) {
		char path[128];
		snprintf(path, sizeof path, "%s%s", tree->top, folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(tree->group.folder, sizeof tree->group.folder, "%s/outer/inner", tree->top);
	tree->group.top_size = strlen(tree->top);
	*state = tree;
	return 0;
}

static int remove_tree(void **state)
{
	struct tree *const tree = *state;

	for (size_t i = 3; i-- > 0;) {
		char path[192];
		for (size_t j = 0; j < sizeof names / sizeof *names; j++) {
			snprintf(path, sizeof path, "%s%s/%s", tree->top, folders[i], names[j]);
			unlink(path);
		}
		snprintf(path, sizeof path, "%s%s", tree->top, folders[i]);
		rmdir(path);
	}
	free(tree);
	return 0;
}

static void put(const struct tree *tree, const char *folder, const char *name, const char *text)
{
	char path[192];
	struct error err;

	snprintf(path, sizeof path, "%s%s/%s", tree->top, folder, name);
	assert_true(file_write(path, text, strlen(text), 0600, &err));
}

static double share_of(const struct cgroup *group)
{
	double left_bytes;

	return cgroup_share(group, &left_bytes);
}

static void what_is_left_is_that_of_the_limit_that_is_reached_first(void **state)
{
	const struct tree *const tree = *state;
	double left_bytes = 0;

	put(tree, "/outer/inner", "memory.max", "1000\n");
	put(tree, "/outer/inner", "memory.current", "900\n");
	put(tree, "/outer", "memory.max", "100000\n");
	put(tree, "/outer", "memory.current", "99950\n");
	(void)cgroup_share(&tree->group, &left_bytes);
	assert_true(left_bytes == 50);
	put(tree, "/outer", "memory.max", "max\n");
	(void)cgroup_share(&tree->group, &left_bytes);
	assert_true(left_bytes == 100);
	put(tree, "/outer/inner", "memory.current", "1100\n");
	(void)cgroup_share(&tree->group, &left_bytes);
	assert_true(left_bytes == 0);
	put(tree, "/outer/inner", "memory.max", "max\n");
	(void)cgroup_share(&tree->group, &left_bytes);
	assert_true(isinf(left_bytes));
}

static void the_tightest_limit_on_the_way_up_counts(void **state)
{
	const struct tree *const tree = *state;

	put(tree, "/outer/inner", "memory.max", "1000\n");
	put(tree, "/outer/inner", "memory.current", "500\n");
	assert_true(share_of(&tree->group) == 0.5);
	put(tree, "/outer", "memory.max", "2000\n");
	put(tree, "/outer", "memory.current", "1800\n");
	assert_true(share_of(&tree->group) == 0.9);
	put(tree, "/outer", "memory.max", "max\n");
	assert_true(share_of(&tree->group) == 0.5);
}

static void pages_that_can_be_read_again_do_not_count(void **state)
{
	const struct tree *const tree = *state;

	put(tree, "/outer/inner", "memory.max", "1000\n");
	put(tree, "/outer/inner", "memory.current", "900\n");
	put(tree, "/outer/inner", "memory.stat", "anon 400\nfile 500\ninactive_file 300\n");
	assert_true(share_of(&tree->group) == 0.6);
}

static void the_first_version_has_other_names(void **state)
{
	struct tree *const tree = *state;

	tree->group.is_first_version = true;
	put(tree, "/outer/inner", "memory.limit_in_bytes", "9223372036854771712\n");
	put(tree, "/outer/inner", "memory.usage_in_bytes", "900\n");
	assert_true(isnan(share_of(&tree->group)));
	put(tree, "/outer/inner", "memory.limit_in_bytes", "1000\n");
	put(tree, "/outer/inner", "memory.stat", "inactive_file 1\ntotal_inactive_file 100\n");
	assert_true(share_of(&tree->group) == 0.8);
}

static void no_limit_is_no_share(void **state)
{
	const struct tree *const tree = *state;
	const struct cgroup none = { 0 };

	put(tree, "/outer/inner", "memory.max", "max\n");
	put(tree, "/outer/inner", "memory.current", "900\n");
	assert_true(isnan(share_of(&tree->group)));
	assert_true(isnan(share_of(&none)));
}

static void file_pages_make_room(void **state)
{
	struct tree *const tree = *state;

	put(tree, "/outer/inner", "memory.max", "1000\n");
	put(tree, "/outer/inner", "memory.current", "900\n");
	put(tree, "/outer/inner", "memory.stat", "anon 400\ninactive_file 300\nactive_file 150\n");
	assert_int_equal(cgroup_read_room(&tree->group).bytes, 550);
	tree->group.is_first_version = true;
	put(tree, "/outer", "memory.limit_in_bytes", "1000\n");
	put(tree, "/outer", "memory.usage_in_bytes", "1001\n");
	put(tree, "/outer", "memory.stat", "active_file 7\n");
	assert_int_equal(cgroup_read_room(&tree->group).bytes, 0);
	put(tree, "/outer", "memory.stat", "active_file 7\ntotal_active_file 50\n");
	assert_int_equal(cgroup_read_room(&tree->group).bytes, 49);
}

static void threads_are_those_of_the_tightest_group(void **state)
{
	const struct tree *const tree = *state;

	assert_true(cgroup_read_room(&tree->group).threads == UINT64_MAX);
	put(tree, "/outer/inner", "pids.max", "max\n");
	put(tree, "/outer/inner", "pids.current", "3\n");
	assert_true(cgroup_read_room(&tree->group).threads == UINT64_MAX);
	put(tree, "/outer", "pids.max", "10\n");
	put(tree, "/outer", "pids.current", "8\n");
	assert_int_equal(cgroup_read_room(&tree->group).threads, 2);
	put(tree, "/outer/inner", "pids.max", "3\n");
	assert_int_equal(cgroup_read_room(&tree->group).threads, 0);
}

static void without_a_group_there_is_no_limit(void **state)
{
	const struct cgroup none = { 0 };

	(void)state;
	assert_true(cgroup_read_room(&none).bytes == UINT64_MAX);
	assert_true(cgroup_read_room(&none).threads == UINT64_MAX);
}

#define TREE_TEST(function) cmocka_unit_test_setup_teardown(function, make_tree, remove_tree)

static const struct CMUnitTest tests[] = {
	TREE_TEST(the_tightest_limit_on_the_way_up_counts),
	TREE_TEST(what_is_left_is_that_of_the_limit_that_is_reached_first),
	TREE_TEST(pages_that_can_be_read_again_do_not_count),
	TREE_TEST(the_first_version_has_other_names),
	TREE_TEST(no_limit_is_no_share),
	TREE_TEST(file_pages_make_room),
	TREE_TEST(threads_are_those_of_the_tightest_group),
	cmocka_unit_test(without_a_group_there_is_no_limit),
};

UNIT_MAIN(tests)
