/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/upload.h"

#include <unistd.h>

#include "base/file.h"

static void release(struct upload *upload)
{
	if (upload->fd >= 0)
		close(upload->fd);
	byte_budget_give(&blob_scratch_budget, upload->held);
	upload->fd = -1;
	upload->held = 0;
}

void upload_deinit(struct upload *upload)
{
	release(upload);
	*upload = UPLOAD_NONE;
}

static bool append(struct upload *upload, const void *data, size_t size)
{
	return (upload->fd >= 0 || blob_open_scratch(&upload->fd, &upload->err)) &&
	       blob_scratch_take(&upload->held, size, &upload->err) &&
	       file_write_fd(upload->fd, "a scratch file", data, size, &upload->err);
}

void upload_append(struct upload *upload, const void *data, size_t size)
{
	if (upload->has_failed)
		return;
	upload->has_failed = !append(upload, data, size);
	if (upload->has_failed)
		release(upload);
}

bool upload_take(struct upload *upload, struct blob **blob, struct error *err)
{
	if (upload->has_failed) {
		*err = upload->err;
		return false;
	}
	if (upload->fd < 0)
		return error_set(err, ERROR_USAGE, "the request has no profile in its body");
	const int fd = upload->fd;
	const uint64_t held = upload->held;
	*upload = UPLOAD_NONE;
	return blob_take_scratch(fd, held, blob, err);
}

static bool copy(const char *data, uint64_t size, struct blob **blob, struct error *err)
{
	CLEANUP(upload_deinit) struct upload part = UPLOAD_NONE;

	upload_append(&part, data, size);
	return upload_take(&part, blob, err);
}

bool upload_split(struct blob *whole, uint64_t size, struct blob **first, struct blob **second,
	struct error *err)
{
	CLEANUP(blob_cleanup) struct blob *begin = NULL;

	if (size == 0 || size >= whole->size)
		return error_set(err, ERROR_USAGE,
			"base_size must leave something of the body's %zu bytes", whole->size);
	if (!copy(whole->data, size, &begin, err) ||
		!copy(whole->data + size, whole->size - size, second, err))
		return false;
	*first = TAKE(begin);
	return true;
}
