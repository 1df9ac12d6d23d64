/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/source_root.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/xalloc.h"

/* Ends of a path that are tried. */
enum { ENDS_MAX = 64 };

static bool is_below(const char *folder, const char *path)
{
	const size_t size = strlen(folder);

	return strncmp(path, folder, size) == 0 && (path[size] == '/' || size == 1);
}

/* What is opened is checked as well: a link may change after it was resolved. */
static bool map_checked(const char *folder, const char *path, struct file_map *map)
{
	CLEANUP(fd_cleanup) int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	char link[32], opened[PATH_MAX];
	struct stat status;
	struct error ignored;

	if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode))
		return false;
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	const ssize_t size = readlink(link, opened, sizeof opened - 1);
	if (size < 0)
		return false;
	opened[size] = '\0';
	return is_below(folder, opened) && file_map_fd(fd, path, map, &ignored);
}

static bool try_path(const char *folder, const char *path, struct file_map *map)
{
	char real[PATH_MAX];

	/* Nothing outside of the folder is opened, not even to look at it. */
	return realpath(path, real) != NULL && is_below(folder, real) &&
	       map_checked(folder, real, map);
}

static bool map_below(const char *root, const char *path, struct file_map *map, struct error *err)
{
	char folder[PATH_MAX];
	const char *end = path;

	if (realpath(root, folder) == NULL)
		return error_set(err, ERROR_NOT_FOUND, "there is no folder %.200s", root);
	if (path[0] == '/' && try_path(folder, path, map))
		return true;
	for (int i = 0; i < ENDS_MAX && end != NULL; i++) {
		end += strspn(end, "/");
		CLEANUP(free_cleanup) char *below = xasprintf("%s/%s", folder, end);
		if (try_path(folder, below, map))
			return true;
		end = strchr(end, '/');
	}
	error_set(err, ERROR_NOT_FOUND, "the source %.300s is not below %.200s", path, root);
	return error_hint(err, "point --source-root at a folder with the sources");
}

bool source_root_map(const char *roots, const char *path, struct file_map *map, struct error *err)
{
	size_t count = 0;

	for (const char *root = roots;; root++) {
		const size_t size = strcspn(root, ":");
		CLEANUP(free_cleanup) char *folder = xstrndup(root, size);
		if (size != 0 && map_below(folder, path, map, err))
			return true;
		count += size != 0;
		root += size;
		if (*root == '\0')
			break;
	}
	if (count < 2)
		return count == 0 ? error_set(err, ERROR_NOT_FOUND, "--source-root names no folder")
				  : false;
	error_set(err, ERROR_NOT_FOUND, "the source %.300s is below none of %.200s", path, roots);
	return error_hint(err, "point --source-root at a folder with the sources");
}
