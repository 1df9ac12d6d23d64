/* SPDX-License-Identifier: Apache-2.0 */
#include "base/rooted_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "unit.h"

static char folder[64];

typedef int open_function(const char *root, const char *path, int flags);

static const char *at(const char *name)
{
	static char path[2][160];
	static unsigned next;
	char *const room = path[next++ % 2];

	snprintf(room, sizeof path[0], "%s/%s", folder, name);
	return room;
}

static void make_file(const char *name)
{
	CLEANUP(fd_cleanup) const int fd = open(at(name), O_WRONLY | O_CREAT | O_EXCL, 0600);

	assert_int_equal(write(fd, name, strlen(name)), strlen(name));
}

/* A folder "root" with links of every kind, and a file beside it that none of them may reach. */
static int make_tree(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/heapctl-unit-XXXXXX");
	if (mkdtemp(folder) == NULL)
		return -1;
	assert_int_equal(mkdir(at("root"), 0700), 0);
	assert_int_equal(mkdir(at("root/lib"), 0700), 0);
	make_file("root/lib/inside");
	make_file("outside");
	assert_int_equal(symlink("/lib/inside", at("root/absolute")), 0);
	assert_int_equal(symlink("/lib", at("root/folder")), 0);
	assert_int_equal(symlink("inside", at("root/lib/relative")), 0);
	assert_int_equal(symlink("../../../outside", at("root/up")), 0);
	assert_int_equal(symlink(at("outside"), at("root/away")), 0);
	assert_int_equal(symlink("/again", at("root/again")), 0);
	return 0;
}

static int remove_tree(void **state)
{
	static const char *const names[] = { "root/lib/inside", "root/lib/relative",
		"root/absolute", "root/folder", "root/up", "root/away", "root/again", "outside" };

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		unlink(at(names[i]));
	rmdir(at("root/lib"));
	rmdir(at("root"));
	return rmdir(folder);
}

static void assert_opens(open_function *open_it, const char *path, const char *contents)
{
	char text[64] = "";
	CLEANUP(fd_cleanup) const int fd = open_it(at("root"), path, O_RDONLY);

	if (fd < 0)
		fail_msg("%s: %s", path, strerror(errno));
	assert_true(read(fd, text, sizeof text - 1) > 0);
	assert_string_equal(text, contents);
}

static void assert_refuses(open_function *open_it, const char *path, int flags, int failure)
{
	CLEANUP(fd_cleanup) const int fd = open_it(at("root"), path, flags);

	if (fd >= 0 || errno != failure)
		fail_msg("%s: %s", path, fd >= 0 ? "opened" : strerror(errno));
}

static void check_links(open_function *open_it)
{
	static const char *const good[] = { "/lib/inside", "lib/inside", "/absolute",
		"//folder/./inside", "/lib/relative", "/lib/../../../lib/inside",
		"/folder/../absolute" };

	for (size_t i = 0; i < sizeof good / sizeof *good; i++)
		assert_opens(open_it, good[i], "root/lib/inside");
	assert_refuses(open_it, "/up", O_RDONLY, ENOENT);
	assert_refuses(open_it, "/away", O_RDONLY, ENOENT);
	assert_refuses(open_it, "/../outside", O_RDONLY, ENOENT);
	assert_refuses(open_it, "/again", O_RDONLY, ELOOP);
	assert_refuses(open_it, "/lib/inside/more", O_RDONLY, ENOTDIR);
	assert_refuses(open_it, "/absolute", O_RDONLY | O_NOFOLLOW, ELOOP);
	assert_refuses(open_it, "/nothing", O_PATH, ENOENT);
}

static void links_stay_below_the_root(void **state)
{
	(void)state;
	check_links(rooted_file_open);
}

static void walking_by_hand_finds_the_same(void **state)
{
	(void)state;
	check_links(rooted_file_walk);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup_teardown(links_stay_below_the_root, make_tree, remove_tree),
	cmocka_unit_test_setup_teardown(walking_by_hand_finds_the_same, make_tree, remove_tree),
};
UNIT_MAIN(tests)
