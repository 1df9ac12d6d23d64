/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/capture_list.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "watch/capture_folder.h"

/* The file of an entry; NULL when it is none, or no name in this folder. */
static const char *file_of(const json_t *entry)
{
	const char *const name = json_string_value(json_object_get(entry, "file"));

	return name == NULL || strchr(name, '/') != NULL || name[0] < '0' || name[0] > '9' ? NULL
											   : name;
}

/* A damaged line is none, and neither is one whose file was removed. */
static json_t *take_line(const char *line, size_t size, int folder_fd)
{
	json_t *const entry = json_loadb(line, size, 0, NULL);
	const char *const name = file_of(entry);
	struct stat status;

	if (name == NULL || fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0) {
		json_decref(entry);
		return NULL;
	}
	json_object_set_new(entry, "number", json_integer((json_int_t)strtoull(name, NULL, 10)));
	return entry;
}

bool capture_list_read(const char *folder, json_t **captures, struct error *err)
{
	CLEANUP(buffer_cleanup) struct buffer text = { 0 };
	CLEANUP(free_cleanup) char *path = xasprintf("%s/" CAPTURE_CATALOGUE, folder);
	struct stat status;

	buffer_init(&text, &memory_or_exit);
	/* Nothing was captured yet. */
	if (stat(path, &status) != 0 && errno == ENOENT) {
		*captures = json_array();
		return true;
	}
	CLEANUP(fd_cleanup) const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_system(err, errno, "%s", folder);
	if (!file_read(path, &text, err))
		return false;
	json_t *const list = json_array();
	for (const char *line = buffer_string(&text); *line != '\0';) {
		const size_t size = strcspn(line, "\n");
		json_t *const entry = take_line(line, size, fd);
		if (entry != NULL)
			json_array_append_new(list, entry);
		line += size + (line[size] == '\n');
	}
	*captures = list;
	return true;
}

bool capture_list_open(
	const char *folder, uint64_t number, int *fd, int64_t *time_ms, struct error *err)
{
	json_t *captures = NULL, *entry;
	size_t i;
	int64_t taken_ms = 0;
	int found = -1;

	if (!capture_list_read(folder, &captures, err))
		return false;
	json_array_foreach(captures, i, entry)
	{
		if ((uint64_t)json_integer_value(json_object_get(entry, "number")) != number)
			continue;
		CLEANUP(free_cleanup) char *path = xasprintf("%s/%s", folder, file_of(entry));
		found = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		taken_ms = json_integer_value(json_object_get(entry, "time_ms"));
		break;
	}
	json_decref(captures);
	if (found < 0) {
		error_set(err, ERROR_NOT_FOUND, "there is no capture %" PRIu64 " in %s", number,
			folder);
		return error_hint(err, "it may have been removed for newer ones");
	}
	*time_ms = taken_ms;
	*fd = found;
	return true;
}
