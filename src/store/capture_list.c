/* SPDX-License-Identifier: Apache-2.0 */
#include "store/capture_list.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

/* A line has about 300 bytes; another one is not ours. */
enum { LINE_MAX_BYTES = 64 * 1024 };

static json_t *read_line(const char *line, size_t size, int folder_fd)
{
	json_t *const entry = size > LINE_MAX_BYTES ? NULL : json_loadb(line, size, 0, NULL);
	const char *const name = json_string_value(json_object_get(entry, "file"));
	struct stat status;

	if (name != NULL && strchr(name, '/') == NULL && name[0] >= '0' && name[0] <= '9' &&
		fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
		S_ISREG(status.st_mode))
		return entry;
	json_decref(entry);
	return NULL;
}

bool capture_list_read(const char *folder, json_t **captures, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	CLEANUP(free_cleanup) char *path = xasprintf("%s/" CAPTURE_LIST, folder);
	struct stat status;

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
	const char *const end = text.data + text.size;
	for (const char *line = text.data; line < end;) {
		const char *const stop = memchr(line, '\n', (size_t)(end - line));
		const size_t size = (size_t)((stop == NULL ? end : stop) - line);
		json_t *const entry = read_line(line, size, fd);
		if (entry != NULL)
			json_array_append_new(list, entry);
		line += size + 1;
	}
	*captures = list;
	return true;
}
