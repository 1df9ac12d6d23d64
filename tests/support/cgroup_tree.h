/* SPDX-License-Identifier: Apache-2.0 */
/* A folder that looks like /sys/fs/cgroup with the group /outer/inner. */
#pragma once

#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "client/control_group.h"
#include "remove_folder.h"
#include "unit.h"

struct cgroup_tree {
	char top[64];
	struct cgroup group;
};

static const char *const cgroup_tree_folders[] = { "", "/outer", "/outer/inner" };

static inline int cgroup_tree_make(void **state)
{
	struct cgroup_tree *const tree = calloc(1, sizeof *tree);

	strcpy(tree->top, "/tmp/hc-cgroup.XXXXXX");
	assert_non_null(mkdtemp(tree->top));
	for (size_t i = 1; i < 3; i++) {
		char path[128];
		snprintf(path, sizeof path, "%s%s", tree->top, cgroup_tree_folders[i]);
		assert_int_equal(mkdir(path, 0700), 0);
	}
	snprintf(tree->group.folder, sizeof tree->group.folder, "%s/outer/inner", tree->top);
	tree->group.top_size = strlen(tree->top);
	*state = tree;
	return 0;
}

static inline int cgroup_tree_remove(void **state)
{
	struct cgroup_tree *const tree = *state;

	for (size_t i = 3; i-- > 0;) {
		char path[128];
		snprintf(path, sizeof path, "%s%s", tree->top, cgroup_tree_folders[i]);
		remove_folder(path);
	}
	free(tree);
	return 0;
}

static inline void cgroup_tree_put(
	const struct cgroup_tree *tree, const char *folder, const char *name, const char *text)
{
	char path[192];
	struct error err;

	snprintf(path, sizeof path, "%s%s/%s", tree->top, folder, name);
	assert_true(file_write(path, text, strlen(text), 0600, &err));
}

#define CGROUP_TREE_TEST(function) \
	cmocka_unit_test_setup_teardown(function, cgroup_tree_make, cgroup_tree_remove)
