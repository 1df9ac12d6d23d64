/* SPDX-License-Identifier: Apache-2.0 */
#include "client/control_group.h"

#include <math.h>

#include "cgroup_tree.h"
#include "unit.h"

static double share_of(const struct cgroup *group)
{
	double left_bytes;

	return cgroup_share(group, &left_bytes);
}

static void what_is_left_is_that_of_the_limit_that_is_reached_first(void **state)
{
	const struct cgroup_tree *const tree = *state;
	double left_bytes = 0;

	cgroup_tree_put(tree, "/outer/inner", "memory.max", "1000\n");
	cgroup_tree_put(tree, "/outer/inner", "memory.current", "900\n");
	cgroup_tree_put(tree, "/outer", "memory.max", "100000\n");
	cgroup_tree_put(tree, "/outer", "memory.current", "99950\n");
	(void)cgroup_share(&tree->group, &left_bytes);
	assert_true(left_bytes == 50);
	cgroup_tree_put(tree, "/outer", "memory.max", "max\n");
	(void)cgroup_share(&tree->group, &left_bytes);
	assert_true(left_bytes == 100);
	cgroup_tree_put(tree, "/outer/inner", "memory.current", "1100\n");
	(void)cgroup_share(&tree->group, &left_bytes);
	assert_true(left_bytes == 0);
	cgroup_tree_put(tree, "/outer/inner", "memory.max", "max\n");
	(void)cgroup_share(&tree->group, &left_bytes);
	assert_true(isinf(left_bytes));
}

static void the_tightest_limit_on_the_way_up_counts(void **state)
{
	const struct cgroup_tree *const tree = *state;

	cgroup_tree_put(tree, "/outer/inner", "memory.max", "1000\n");
	cgroup_tree_put(tree, "/outer/inner", "memory.current", "500\n");
	assert_true(share_of(&tree->group) == 0.5);
	cgroup_tree_put(tree, "/outer", "memory.max", "2000\n");
	cgroup_tree_put(tree, "/outer", "memory.current", "1800\n");
	assert_true(share_of(&tree->group) == 0.9);
	cgroup_tree_put(tree, "/outer", "memory.max", "max\n");
	assert_true(share_of(&tree->group) == 0.5);
}

static void pages_that_can_be_read_again_do_not_count(void **state)
{
	const struct cgroup_tree *const tree = *state;

	cgroup_tree_put(tree, "/outer/inner", "memory.max", "1000\n");
	cgroup_tree_put(tree, "/outer/inner", "memory.current", "900\n");
	cgroup_tree_put(
		tree, "/outer/inner", "memory.stat", "anon 400\nfile 500\ninactive_file 300\n");
	assert_true(share_of(&tree->group) == 0.6);
}

static void the_first_version_has_other_names(void **state)
{
	struct cgroup_tree *const tree = *state;

	tree->group.is_first_version = true;
	cgroup_tree_put(tree, "/outer/inner", "memory.limit_in_bytes", "9223372036854771712\n");
	cgroup_tree_put(tree, "/outer/inner", "memory.usage_in_bytes", "900\n");
	assert_true(isnan(share_of(&tree->group)));
	cgroup_tree_put(tree, "/outer/inner", "memory.limit_in_bytes", "1000\n");
	cgroup_tree_put(
		tree, "/outer/inner", "memory.stat", "inactive_file 1\ntotal_inactive_file 100\n");
	assert_true(share_of(&tree->group) == 0.8);
}

static void no_limit_is_no_share(void **state)
{
	const struct cgroup_tree *const tree = *state;
	const struct cgroup none = { 0 };

	cgroup_tree_put(tree, "/outer/inner", "memory.max", "max\n");
	cgroup_tree_put(tree, "/outer/inner", "memory.current", "900\n");
	assert_true(isnan(share_of(&tree->group)));
	assert_true(isnan(share_of(&none)));
}

static void file_pages_make_room(void **state)
{
	struct cgroup_tree *const tree = *state;

	cgroup_tree_put(tree, "/outer/inner", "memory.max", "1000\n");
	cgroup_tree_put(tree, "/outer/inner", "memory.current", "900\n");
	cgroup_tree_put(tree, "/outer/inner", "memory.stat",
		"anon 400\ninactive_file 300\nactive_file 150\n");
	assert_int_equal(cgroup_read_room(&tree->group).bytes, 550);
	tree->group.is_first_version = true;
	cgroup_tree_put(tree, "/outer", "memory.limit_in_bytes", "1000\n");
	cgroup_tree_put(tree, "/outer", "memory.usage_in_bytes", "1001\n");
	cgroup_tree_put(tree, "/outer", "memory.stat", "active_file 7\n");
	assert_int_equal(cgroup_read_room(&tree->group).bytes, 0);
	cgroup_tree_put(tree, "/outer", "memory.stat", "active_file 7\ntotal_active_file 50\n");
	assert_int_equal(cgroup_read_room(&tree->group).bytes, 49);
}

static void threads_are_those_of_the_tightest_group(void **state)
{
	const struct cgroup_tree *const tree = *state;

	assert_true(cgroup_read_room(&tree->group).threads == UINT64_MAX);
	cgroup_tree_put(tree, "/outer/inner", "pids.max", "max\n");
	cgroup_tree_put(tree, "/outer/inner", "pids.current", "3\n");
	assert_true(cgroup_read_room(&tree->group).threads == UINT64_MAX);
	cgroup_tree_put(tree, "/outer", "pids.max", "10\n");
	cgroup_tree_put(tree, "/outer", "pids.current", "8\n");
	assert_int_equal(cgroup_read_room(&tree->group).threads, 2);
	cgroup_tree_put(tree, "/outer/inner", "pids.max", "3\n");
	assert_int_equal(cgroup_read_room(&tree->group).threads, 0);
}

static void without_a_group_there_is_no_limit(void **state)
{
	const struct cgroup none = { 0 };

	(void)state;
	assert_true(cgroup_read_room(&none).bytes == UINT64_MAX);
	assert_true(cgroup_read_room(&none).threads == UINT64_MAX);
}

static const struct CMUnitTest tests[] = {
	CGROUP_TREE_TEST(the_tightest_limit_on_the_way_up_counts),
	CGROUP_TREE_TEST(what_is_left_is_that_of_the_limit_that_is_reached_first),
	CGROUP_TREE_TEST(pages_that_can_be_read_again_do_not_count),
	CGROUP_TREE_TEST(the_first_version_has_other_names),
	CGROUP_TREE_TEST(no_limit_is_no_share),
	CGROUP_TREE_TEST(file_pages_make_room),
	CGROUP_TREE_TEST(threads_are_those_of_the_tightest_group),
	cmocka_unit_test(without_a_group_there_is_no_limit),
};

UNIT_MAIN(tests)
