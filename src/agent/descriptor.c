/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
	SLOTS = 96,
	/* A table of descriptors is as long as its highest number, and fork copies it. */
	HIGHEST_START = 1024 - SLOTS,
	LOWEST_START = 32,
	CLAIMED = -1,
};

/*
 * The list of what is open. It is not in the agent's own memory, because a child needs it and
 * does not inherit that. A slot is free while its fd is 0, and being filled while it is CLAIMED.
 */
static struct {
	_Atomic int fd;
	uint64_t device;
	uint64_t inode;
} slots[SLOTS];

static bool identify(int fd, uint64_t *device, uint64_t *inode)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return false;
	*device = status.st_dev;
	*inode = status.st_ino;
	return true;
}

bool descriptor_unshare(void)
{
	int fd = -1;

	if (syscall(SYS_close_range, 0, ~0U, CLOSE_RANGE_UNSHARE) != 0)
		return false;
	/* A library that writes to stderr must not write into a file of the agent's. */
	do
		fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	while (fd >= 0 && fd < STDERR_FILENO);
	if (fd > STDERR_FILENO)
		close(fd);
	return true;
}

/* Out of the way of programs that expect small numbers for their own files. */
int descriptor_move_up(int fd)
{
	struct rlimit limit = { 0 };

	if (getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return fd;
	const rlim_t max = limit.rlim_cur < 1024 ? limit.rlim_cur : 1024;
	int start = max > SLOTS ? (int)(max - SLOTS) : LOWEST_START;
	if (start < LOWEST_START)
		start = LOWEST_START;
	const int moved = fcntl(fd, F_DUPFD_CLOEXEC, start);
	if (moved < 0)
		return fd;
	close(fd);
	return moved;
}

static int take_slot(int fd, uint64_t device, uint64_t inode)
{
	for (int i = 0; i < SLOTS; i++) {
		int free_slot = 0;
		if (!atomic_compare_exchange_strong(&slots[i].fd, &free_slot, CLAIMED))
			continue;
		slots[i].device = device;
		slots[i].inode = inode;
		atomic_store_explicit(&slots[i].fd, fd, memory_order_release);
		return i;
	}
	return -1;
}

bool descriptor_own(int fd, struct descriptor *descriptor, struct error *err)
{
	struct descriptor own = { .fd = fd < HIGHEST_START ? descriptor_move_up(fd) : fd };

	fcntl(own.fd, F_SETFD, FD_CLOEXEC);
	if (!identify(own.fd, &own.device, &own.inode)) {
		const int errnum = errno;
		close(own.fd);
		return error_system(err, errnum, "reading the status of the agent's descriptor");
	}
	own.slot = take_slot(own.fd, own.device, own.inode);
	if (own.slot < 0) {
		close(own.fd);
		return error_set(err, ERROR_STATE, "the agent has too many files open");
	}
	*descriptor = own;
	return true;
}

bool descriptor_is_ours(const struct descriptor *descriptor)
{
	uint64_t device = 0, inode = 0;

	return descriptor->fd >= 0 && identify(descriptor->fd, &device, &inode) &&
	       device == descriptor->device && inode == descriptor->inode;
}

void descriptor_close(struct descriptor *descriptor)
{
	if (descriptor->fd >= 0) {
		if (descriptor_is_ours(descriptor))
			close(descriptor->fd);
		atomic_store_explicit(&slots[descriptor->slot].fd, 0, memory_order_release);
	}
	*descriptor = DESCRIPTOR_NONE;
}

void descriptor_close_inherited(void)
{
	for (int i = 0; i < SLOTS; i++) {
		const int fd = atomic_exchange_explicit(&slots[i].fd, 0, memory_order_acq_rel);
		const struct descriptor inherited = {
			.fd = fd, .device = slots[i].device, .inode = slots[i].inode
		};
		if (fd > 0 && descriptor_is_ours(&inherited))
			close(fd);
	}
}

void descriptor_forget_inherited(void)
{
	for (int i = 0; i < SLOTS; i++)
		atomic_store_explicit(&slots[i].fd, 0, memory_order_release);
}
