/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/embedded.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>

static bool own(int fd, const char *what, struct descriptor *descriptor, struct error *err)
{
	if (fd < 0)
		return error_system(err, errno, "%s", what);
	return descriptor_own(fd, descriptor, err);
}

static bool watch_timer(const struct embedded *embedded, struct error *err)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = embedded->timer.fd };

	if (epoll_ctl(embedded->epoll.fd, EPOLL_CTL_ADD, embedded->timer.fd, &event) != 0)
		return error_system(err, errno, "epoll_ctl");
	return true;
}

bool embedded_open(struct embedded *embedded, struct error *err)
{
	*embedded = (struct embedded){
		.is_open = true, .epoll = DESCRIPTOR_NONE, .timer = DESCRIPTOR_NONE
	};
	if (own(epoll_create1(EPOLL_CLOEXEC), "epoll_create1", &embedded->epoll, err) &&
		own(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), "timerfd_create",
			&embedded->timer, err) &&
		watch_timer(embedded, err))
		return true;
	embedded_close(embedded);
	return false;
}

void embedded_close(struct embedded *embedded)
{
	if (!embedded->is_open)
		return;
	descriptor_close(&embedded->epoll);
	descriptor_close(&embedded->timer);
	embedded->is_open = false;
}

bool embedded_is_open(const struct embedded *embedded)
{
	return embedded->is_open;
}

void embedded_plan(const struct embedded *embedded, int64_t timeout_ms)
{
	struct itimerspec when = { 0 };

	if (!embedded->is_open)
		return;
	/* Zero would disarm it: a moment that has come is one nanosecond away. */
	when.it_value.tv_sec = timeout_ms > 0 ? timeout_ms / 1000 : 0;
	when.it_value.tv_nsec = timeout_ms > 0 ? timeout_ms % 1000 * 1000000 : timeout_ms == 0;
	timerfd_settime(embedded->timer.fd, 0, &when, NULL);
}

void embedded_watch(struct embedded *embedded, const struct pollfd *fds, size_t count)
{
	if (!embedded->is_open || count > EMBEDDED_WATCHED_MAX)
		return;
	/* Closed ones have left by themselves; for them this is an error that means nothing. */
	for (size_t i = 0; i < embedded->watched_count; i++)
		epoll_ctl(embedded->epoll.fd, EPOLL_CTL_DEL, embedded->watched[i].fd, NULL);
	for (size_t i = 0; i < count; i++) {
		struct epoll_event event = { .events = (fds[i].events & POLLIN) != 0 ? EPOLLIN
										     : EPOLLOUT,
			.data.fd = fds[i].fd };
		epoll_ctl(embedded->epoll.fd, EPOLL_CTL_ADD, fds[i].fd, &event);
	}
	memcpy(embedded->watched, fds, count * sizeof *fds);
	embedded->watched_count = count;
}
