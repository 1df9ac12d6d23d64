/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/process_text.h"

#include <stdio.h>

#include "base/file.h"

enum { TEXT_BYTES = 16 * 1024 * 1024 };

static bool read_proc(
	const struct backend *backend, const char *file, struct buffer *out, struct error *err)
{
	char path[64];

	if (backend->pid == 0)
		return error_set(
			err, ERROR_UNSUPPORTED, "%s is not on this machine", backend->target.label);
	snprintf(path, sizeof path, "/proc/%d/%s", (int)backend->pid, file);
	out->limit = TEXT_BYTES;
	return file_read(path, out, err);
}

bool process_text_command(
	const struct backend *backend, char separator, struct buffer *out, struct error *err)
{
	if (!read_proc(backend, "cmdline", out, err))
		return false;
	/* Servers that set their title leave blanks and NULs behind it. */
	while (out->size > 0 &&
		(out->data[out->size - 1] == '\0' || out->data[out->size - 1] == ' '))
		out->size--;
	for (size_t i = 0; i < out->size; i++) {
		if (out->data[i] == '\0')
			out->data[i] = separator;
	}
	return true;
}

bool process_text_maps(const struct backend *backend, struct buffer *out, struct error *err)
{
	return read_proc(backend, "maps", out, err);
}
