/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/embedded.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

/*
 * What is open, for a child: it does not inherit the agent's own memory. There is one agent in a
 * process. Written by the thread that opens and closes; `is_open` last and first.
 */
static struct {
	_Atomic bool is_open;
	int epoll_fd;
	int timer_fd;
	struct descriptor marker;
} inherited;

/* Sets what is set already: fails unless this epoll has this file under this number. */
static bool contains(int epoll_fd, int fd, uint32_t events)
{
	struct epoll_event event = { .events = events, .data.fd = fd };

	return epoll_ctl(epoll_fd, EPOLL_CTL_MOD, fd, &event) == 0;
}

static bool is_our_epoll(int epoll_fd, const struct descriptor *marker)
{
	return epoll_fd >= 0 && descriptor_is_ours(marker) && contains(epoll_fd, marker->fd, 0);
}

/* The timer first: the epoll proves it. */
static void close_ours(int epoll_fd, int timer_fd, const struct descriptor *marker)
{
	if (!is_our_epoll(epoll_fd, marker))
		return;
	if (timer_fd >= 0 && contains(epoll_fd, timer_fd, EPOLLIN))
		close(timer_fd);
	close(epoll_fd);
}

static bool add(int epoll_fd, int fd, uint32_t events, struct error *err)
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
	return add(embedded->epoll_fd, embedded->marker.fd, 0, err);
}

static bool open_timer(struct embedded *embedded, struct error *err)
{
	embedded->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (embedded->timer_fd < 0)
		return error_system(err, errno, "timerfd_create");
	embedded->timer_fd = descriptor_move_up(embedded->timer_fd);
	return add(embedded->epoll_fd, embedded->timer_fd, EPOLLIN, err);
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
	close_ours(embedded->epoll_fd, embedded->timer_fd, &embedded->marker);
	descriptor_close(&embedded->marker);
	embedded->is_open = false;
}

void embedded_close_inherited(void)
{
	if (inherited.is_open)
		close_ours(inherited.epoll_fd, inherited.timer_fd, &inherited.marker);
	inherited.is_open = false;
}

bool embedded_is_open(const struct embedded *embedded)
{
	return embedded->is_open && is_our_epoll(embedded->epoll_fd, &embedded->marker) &&
	       contains(embedded->epoll_fd, embedded->timer_fd, EPOLLIN);
}

void embedded_plan(const struct embedded *embedded, int64_t timeout_ms)
{
	struct itimerspec when = { 0 };

	if (!embedded_is_open(embedded))
		return;
	/* Zero would disarm it: a deadline that has passed is one nanosecond away. */
	when.it_value.tv_sec = timeout_ms > 0 ? timeout_ms / 1000 : 0;
	when.it_value.tv_nsec = timeout_ms > 0 ? timeout_ms % 1000 * 1000000 : timeout_ms == 0;
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
