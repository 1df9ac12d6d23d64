/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/code_file.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/xalloc.h"
#include "cli/source_root.h"

/* Larger than any source file; a damaged profile may name any file. */
enum { SOURCE_BYTES_MAX = 256 * 1024 * 1024 };

struct source_place source_place_of(const struct report_session *session, const char *build_id)
{
	return (struct source_place){
		.sysroot = session->options->sysroot,
		.root = session->options->source_root,
		.symbolizer = session->options->debuginfod == NULL ? NULL : session->symbolizer,
		.build_id = build_id,
	};
}

static void split(struct code_file *file)
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

static bool map_as_built(
	const char *path, const char *sysroot, struct file_map *map, struct error *err)
{
	struct error first;

	if (file_map(path, map, &first))
		return true;
	CLEANUP(free_cleanup) char *below = xasprintf("%s%s", sysroot == NULL ? "" : sysroot, path);
	if (sysroot != NULL && file_map(below, map, err))
		return true;
	error_set(err, ERROR_NOT_FOUND, "source file not found: %.300s", first.message);
	return error_hint(err, "%s",
		path[0] == '/' ? "point --sysroot at a folder with the sources"
			       : "run heapctl in the folder that it was built in");
}

/* A local file first. Servers know sources by absolute paths. */
static bool map_source(
	const char *path, const struct source_place *place, struct file_map *map, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer downloaded = BUFFER_OR_EXIT;

	if (place->root != NULL ? source_root_map(place->root, path, map, err)
				: map_as_built(path, place->sysroot, map, err))
		return true;
	if (place->symbolizer == NULL || place->build_id[0] == '\0' || path[0] != '/')
		return false;
	if (symbolizer_fetch_source(place->symbolizer, place->build_id, path, &downloaded, err))
		return file_map(buffer_string(&downloaded), map, err);
	return error_prefix(err, "%s", path);
}

bool code_file_open(const char *path, const struct source_place *place, struct code_file *file,
	struct error *err)
{
	struct code_file opened = { 0 };

	if (!map_source(path, place, &opened.map, err))
		return false;
	if (opened.map.size > SOURCE_BYTES_MAX) {
		code_file_close(&opened);
		return error_set(err, ERROR_INPUT, "%s: too long for a source file", path);
	}
	split(&opened);
	*file = opened;
	return true;
}

void code_file_close(struct code_file *file)
{
	file_unmap(&file->map);
	free(file->lines);
	free(file->sizes);
	*file = (struct code_file){ 0 };
}
