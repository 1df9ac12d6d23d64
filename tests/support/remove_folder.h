/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a test's own folder. */
#pragma once

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

/* Removes the files in it, and the folder. */
static inline void remove_folder(const char *path)
{
	DIR *const stream = opendir(path);

	for (struct dirent *entry; (entry = readdir(stream)) != NULL;)
		unlinkat(dirfd(stream), entry->d_name, 0);
	closedir(stream);
	rmdir(path);
}
