/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/source_file.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

enum {
	/* A function that long is not one: the indentation misleads. */
	EXTRA_LINES_MAX = 400,
	/* Larger than any source file; a damaged profile may name any file. */
	SOURCE_BYTES_MAX = 256 * 1024 * 1024,
};

static void split(struct source_file *file)
{
	size_t capacity = 0;
	size_t size_capacity = 0;
	const char *at = file->map.data;
	const char *const end = at + file->map.size;

	while (at != NULL && at < end) {
		const char *const newline = memchr(at, '\n', (size_t)(end - at));
		const char *const line_end = newline == NULL ? end : newline;
		size_t size = (size_t)(line_end - at);
		if (size > 0 && at[size - 1] == '\r')
			size--;
		file->lines = xgrow(file->lines, &capacity, file->count + 1, sizeof *file->lines);
		file->sizes =
			xgrow(file->sizes, &size_capacity, file->count + 1, sizeof *file->sizes);
		file->lines[file->count] = at;
		file->sizes[file->count++] = size;
		at = line_end + 1;
	}
}

bool source_file_open(
	const char *path, const char *sysroot, struct source_file *file, struct error *err)
{
	struct source_file opened = { 0 };
	struct error first;

	if (!file_map(path, &opened.map, &first)) {
		CLEANUP(free_cleanup)
		char *below = xasprintf("%s%s", sysroot == NULL ? "" : sysroot, path);
		if (sysroot == NULL || !file_map(below, &opened.map, err))
			return error_set(err, ERROR_NOT_FOUND, "the source is not here: %.300s",
				first.message);
	}
	if (opened.map.size > SOURCE_BYTES_MAX) {
		source_file_close(&opened);
		return error_set(err, ERROR_INPUT, "%s: too long for a source file", path);
	}
	split(&opened);
	*file = opened;
	return true;
}

void source_file_close(struct source_file *file)
{
	file_unmap(&file->map);
	free(file->lines);
	free(file->sizes);
	*file = (struct source_file){ 0 };
}

/* Columns before the first character; SIZE_MAX for an empty line. */
static size_t indentation(const struct source_file *file, size_t line)
{
	const char *const text = file->lines[line - 1];

	for (size_t i = 0; i < file->sizes[line - 1]; i++) {
		if (text[i] != ' ' && text[i] != '\t')
			return i;
	}
	return SIZE_MAX;
}

size_t source_file_end_of(const struct source_file *file, size_t first, size_t last)
{
	if (first == 0 || first > file->count)
		return last;
	const size_t depth = indentation(file, first);
	for (size_t line = last + 1; line <= file->count && line <= last + EXTRA_LINES_MAX;
		line++) {
		const size_t here = indentation(file, line);
		if (here != SIZE_MAX && here <= depth)
			/* A closing bracket belongs to the function, anything else is the next. */
			return file->lines[line - 1][here] == '}' ? line : line - 1;
	}
	return last;
}
