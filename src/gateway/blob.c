/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/blob.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

struct blob *blob_take(struct buffer *contents)
{
	struct blob *const blob = xmalloc(sizeof *blob);
	const size_t size = contents->size;
	char *const data = buffer_take(contents);

	*blob = (struct blob){
		.references = 1,
		.fd = -1,
		.size = data == NULL ? 0 : size,
		.data = data == NULL ? xstrdup("") : data,
	};
	return blob;
}

bool blob_take_fd(int fd, struct blob **blob_ret, struct error *err)
{
	struct file_map map;

	if (!file_map_fd(fd, "a scratch file", &map, err)) {
		close(fd);
		return false;
	}
	struct blob *const blob = xmalloc(sizeof *blob);
	*blob = (struct blob){
		.references = 1,
		.fd = fd,
		.size = map.size,
		.data = map.data,
	};
	*blob_ret = blob;
	return true;
}

static const char *scratch_folder(void)
{
	const char *const folder = getenv("TMPDIR");

	return folder != NULL && *folder != '\0' ? folder : "/var/tmp";
}

bool blob_open_scratch(int *fd_ret, struct error *err)
{
	int fd = open(scratch_folder(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		fd = memfd_create("heapctl", MFD_CLOEXEC);
	if (fd < 0)
		return error_system(err, errno, "making a scratch file");
	*fd_ret = fd;
	return true;
}

const char *blob_scratch_place(void)
{
	return access(scratch_folder(), W_OK) == 0 ? scratch_folder() : "in memory";
}

struct blob *blob_share(struct blob *blob)
{
	__atomic_add_fetch(&blob->references, 1, __ATOMIC_RELAXED);
	return blob;
}

static void release_data(struct blob *blob)
{
	struct file_map map = { .data = blob->data, .size = blob->size };

	if (blob->fd < 0) {
		/* The text came from a buffer and is ours. */
		free((void *)(uintptr_t)blob->data);
		return;
	}
	file_unmap(&map);
	close(blob->fd);
}

void blob_drop(struct blob *blob)
{
	if (blob == NULL || __atomic_sub_fetch(&blob->references, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	release_data(blob);
	if (blob->budget != NULL)
		byte_budget_give(blob->budget, blob->budget_bytes);
	free(blob);
}
