/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/cache_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/xalloc.h"

enum { ABANDONED_SECONDS = 3600 };

static const char suffix[] = ".sym";

bool cache_directory_prepare(const char *path)
{
	CLEANUP(free_cleanup) char *partial = xstrdup(path);
	struct stat status;

	if (stat(path, &status) != 0) {
		for (char *slash = partial + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
			*slash = '\0';
			(void)mkdir(partial, 0700);
			*slash = '/';
		}
		if (mkdir(path, 0700) != 0 && errno != EEXIST)
			return false;
		if (stat(path, &status) != 0)
			return false;
	}
	return S_ISDIR(status.st_mode) && status.st_uid == geteuid() &&
	       (status.st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

struct kept_file {
	char *name;
	uint64_t size;
	time_t modified;
};

struct file_list {
	struct kept_file *files;
	size_t count, capacity;
	uint64_t bytes;
};

static int compare_age(const void *a, const void *b)
{
	const struct kept_file *const left = a;
	const struct kept_file *const right = b;

	return left->modified < right->modified ? -1 : left->modified > right->modified;
}

/* Our files end in ".sym"; while being written a random part follows. */
static bool is_ours(const char *name, bool *is_temporary)
{
	const char *const at = strstr(name, suffix);

	if (at == NULL)
		return false;
	*is_temporary = at[sizeof suffix - 1] != '\0';
	return true;
}

static void list_files(DIR *directory, struct file_list *list)
{
	const time_t now = time(NULL);
	const int fd = dirfd(directory);

	for (const struct dirent *entry; (entry = readdir(directory)) != NULL;) {
		struct stat status;
		bool is_temporary = false;
		if (!is_ours(entry->d_name, &is_temporary) ||
			fstatat(fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
			!S_ISREG(status.st_mode))
			continue;
		if (is_temporary) {
			if (status.st_mtime + ABANDONED_SECONDS < now)
				(void)unlinkat(fd, entry->d_name, 0);
			continue;
		}
		list->files =
			xgrow(list->files, &list->capacity, list->count + 1, sizeof *list->files);
		list->files[list->count++] = (struct kept_file){
			.name = xstrdup(entry->d_name),
			.size = (uint64_t)status.st_size,
			.modified = status.st_mtime,
		};
		list->bytes += (uint64_t)status.st_size;
	}
}

void cache_directory_trim(const char *path, size_t limit)
{
	DIR *const directory = opendir(path);
	struct file_list list = { 0 };

	if (directory == NULL)
		return;
	list_files(directory, &list);
	if (list.bytes > limit)
		qsort(list.files, list.count, sizeof *list.files, compare_age);
	for (size_t i = 0; i < list.count; i++) {
		if (list.bytes > limit && unlinkat(dirfd(directory), list.files[i].name, 0) == 0)
			list.bytes -= list.files[i].size;
		free(list.files[i].name);
	}
	free(list.files);
	closedir(directory);
}
