/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/file_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <sys/file.h>
#include <sys/mman.h>

#include "base/cleanup.h"

enum { PAGE_BYTES = 4096 };

bool file_lock_open(int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

bool file_lock_keep(int fd, struct file_lock *lock)
{
	void *const page = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return false;
	if (madvise(page, PAGE_BYTES, MADV_DONTFORK) != 0) {
		munmap(page, PAGE_BYTES);
		return false;
	}
	file_lock_release(lock);
	lock->page = page;
	return true;
}

void file_lock_release(struct file_lock *lock)
{
	if (lock->page != NULL)
		munmap(lock->page, PAGE_BYTES);
	lock->page = NULL;
}

bool file_lock_is_held(int folder_fd, const char *name)
{
	CLEANUP(fd_cleanup)
	const int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return errno != ENOENT;
	/* Shared: two agents that look at the same time do not take each other for its owner. */
	return flock(fd, LOCK_SH | LOCK_NB) != 0;
}
