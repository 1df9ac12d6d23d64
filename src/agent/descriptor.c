/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/descriptor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/close_range.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

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

/*
 * The embedded descriptors that are open, for a child: it does not inherit the agent's own memory.
 * There is one agent in a process. Written by the thread that opens and closes; `is_open` last and
 * first.
 */
static struct {
	_Atomic bool is_open;
	int epoll_fd;
	int timer_fd;
	struct descriptor marker;
} inherited;

/* Sets what is set already: fails unless this epoll has this file under this number. */
static bool epoll_contains(int epoll_fd, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0;
}

static bool is_our_epoll(int epoll_fd, const struct descriptor *marker)
{
	return epoll_fd >= 0 && descriptor_is_ours(marker) &&
	       epoll_contains(epoll_fd, marker->fd, 0);
}

/* The timer first: the epoll proves it. */
static void embedded_close_ours(int epoll_fd, int timer_fd, const struct descriptor *marker)
{
	if (!is_our_epoll(epoll_fd, marker))
		return;
	if (timer_fd >= 0 && epoll_contains(epoll_fd, timer_fd, EPOLLIN))
		close(timer_fd);
	close(epoll_fd);
}

static bool epoll_add(int epoll_fd, int fd, uint32_t events, struct error *err)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	if (epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
		return error_system(err, errno, "epoll_ctl");
	return true;
}

static bool open_marker(struct descriptor *marker, struct error *err)
{
	/* An unconnected one never becomes readable. */
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return error_system(err, errno, "socket");
	return descriptor_own(fd, marker, err);
}

static bool open_epoll(struct embedded *embedded, struct error *err)
{
	embedded->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (embedded->epoll_fd < 0)
		return error_system(err, errno, "epoll_create1");
	embedded->epoll_fd = descriptor_move_up(embedded->epoll_fd);
	return epoll_add(embedded->epoll_fd, embedded->marker.fd, 0, err);
}

static bool open_timer(struct embedded *embedded, struct error *err)
{
	embedded->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (embedded->timer_fd < 0)
		return error_system(err, errno, "timerfd_create");
	embedded->timer_fd = descriptor_move_up(embedded->timer_fd);
	return epoll_add(embedded->epoll_fd, embedded->timer_fd, EPOLLIN, err);
}

bool embedded_open(struct embedded *embedded, struct error *err)
{
	*embedded = (struct embedded){ .epoll_fd = -1, .timer_fd = -1, .marker = DESCRIPTOR_NONE };
	embedded->is_open = open_marker(&embedded->marker, err) && open_epoll(embedded, err) &&
			    open_timer(embedded, err);
	if (embedded->is_open) {
		inherited.epoll_fd = embedded->epoll_fd;
		inherited.timer_fd = embedded->timer_fd;
		inherited.marker = embedded->marker;
		inherited.is_open = true;
		return true;
	}
	/* These numbers are new: they are ours. */
	if (embedded->timer_fd >= 0)
		close(embedded->timer_fd);
	if (embedded->epoll_fd >= 0)
		close(embedded->epoll_fd);
	descriptor_close(&embedded->marker);
	return false;
}

void embedded_close(struct embedded *embedded)
{
	if (!embedded->is_open)
		return;
	inherited.is_open = false;
	embedded_close_ours(embedded->epoll_fd, embedded->timer_fd, &embedded->marker);
	descriptor_close(&embedded->marker);
	embedded->is_open = false;
}

void embedded_close_inherited(void)
{
	if (inherited.is_open)
		embedded_close_ours(inherited.epoll_fd, inherited.timer_fd, &inherited.marker);
	inherited.is_open = false;
}

bool embedded_is_open(const struct embedded *embedded)
{
	return embedded->is_open && is_our_epoll(embedded->epoll_fd, &embedded->marker) &&
	       epoll_contains(embedded->epoll_fd, embedded->timer_fd, EPOLLIN);
}

void embedded_plan(const struct embedded *embedded, int64_t timeout_ms)
{
	struct itimerspec when = { 0 };

	if (!embedded_is_open(embedded))
		return;
	/* Zero would disarm it: a deadline that has passed is one nanosecond away. */
	if (timeout_ms >= 0)
		when.it_value = timeout_ms > 0 ? clock_timespec(timeout_ms)
					       : (struct timespec){ .tv_nsec = 1 };
	timerfd_settime(embedded->timer_fd, 0, &when, NULL);
}

void embedded_watch(struct embedded *embedded, const struct pollfd *fds, size_t count)
{
	if (count > EMBEDDED_WATCHED_MAX || !embedded_is_open(embedded))
		return;
	/* Closed ones are removed already; then this fails, which does not matter. */
	for (size_t i = 0; i < embedded->watched_count; i++)
		epoll_ctl(embedded->epoll_fd, EPOLL_CTL_DEL, embedded->watched[i].fd, NULL);
	for (size_t i = 0; i < count; i++) {
		/* poll's names of the events have the same values. */
		struct epoll_event event = { .events = (uint32_t)fds[i].events,
			.data.fd = fds[i].fd };
		epoll_ctl(embedded->epoll_fd, EPOLL_CTL_ADD, fds[i].fd, &event);
	}
	memcpy(embedded->watched, fds, count * sizeof *fds);
	embedded->watched_count = count;
}
