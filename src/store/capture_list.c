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

/* NULL for a damaged line. */
static json_t *read_line(const char *line, size_t size)
{
	json_t *const entry = size > LINE_MAX_BYTES ? NULL : json_loadb(line, size, 0, NULL);
	const char *const name = json_string_value(json_object_get(entry, "file"));

	if (name != NULL && strchr(name, '/') == NULL && name[0] >= '0' && name[0] <= '9')
		return entry;
	json_decref(entry);
	return NULL;
}

static bool has_file(const json_t *entry, int folder_fd)
{
	const char *const name = json_string_value(json_object_get(entry, "file"));
	struct stat status;

	return fstatat(folder_fd, name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(status.st_mode);
}

static bool is_blank(const char *line, size_t size)
{
	return size == 0 || (size == 1 && line[0] == '\r');
}

bool capture_list_read(const char *folder, json_t **captures, struct capture_list_damage *damage,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	CLEANUP(free_cleanup) char *path = xasprintf("%s/" CAPTURE_LIST, folder);
	struct capture_list_damage found = { 0 };
	struct stat status;
	size_t number = 0;

	if (stat(path, &status) != 0 && errno == ENOENT) {
		*captures = json_array();
		*damage = found;
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
		json_t *const entry = read_line(line, size);
		number++;
		if (entry == NULL && !is_blank(line, size) && found.count++ == 0)
			found.first_line = number;
		if (entry != NULL && has_file(entry, fd))
			json_array_append(list, entry);
		json_decref(entry);
		line += size + 1;
	}
	*captures = list;
	*damage = found;
	return true;
}

char *capture_list_describe_damage(const char *folder, const struct capture_list_damage *damage)
{
	if (damage->count == 1)
		return xasprintf(
			"%s/" CAPTURE_LIST ": line %zu is damaged", folder, damage->first_line);
	return xasprintf("%s/" CAPTURE_LIST ": %zu lines are damaged, the first is line %zu",
		folder, damage->count, damage->first_line);
}
