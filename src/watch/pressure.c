/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/pressure.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

static bool open_trigger(const char *path, double share, int *fd_ret, struct error *err)
{
	CLEANUP(fd_cleanup) int fd = open(path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	char order[64];

	if (fd < 0)
		return error_system(err, errno, "%s", path);
	snprintf(order, sizeof order, "some %.0f %d", ceil(share * PRESSURE_WINDOW_MS * 1000),
		PRESSURE_WINDOW_MS * 1000);
	/* The kernel wants the NUL. */
	if (write(fd, order, strlen(order) + 1) < 0)
		return error_system(err, errno, "%s", path);
	*fd_ret = TAKE_FD(fd);
	return true;
}

bool pressure_add(struct pressure *pressure, const char *path, double share, struct error *err)
{
	int fd = -1;

	for (size_t i = 0; i < pressure->count; i++) {
		if (pressure->marks[i].share == share)
			return true;
	}
	if (pressure->count == PRESSURE_MARKS_MAX)
		return error_set(err, ERROR_USAGE, "more than %d marks of memory pressure",
			PRESSURE_MARKS_MAX);
	if (!open_trigger(path, share, &fd, err))
		return false;
	pressure->marks[pressure->count++] =
		(struct pressure_mark){ .fd = fd, .share = share, .reported_ms = INT64_MIN };
	return true;
}

void pressure_deinit(struct pressure *pressure)
{
	for (size_t i = 0; i < pressure->count; i++) {
		if (pressure->marks[i].fd >= 0)
			close(pressure->marks[i].fd);
	}
	*pressure = (struct pressure){ 0 };
}

static void note(struct pressure_mark *mark, short events, int64_t now_ms)
{
	if ((events & (POLLERR | POLLHUP | POLLNVAL)) != 0) {
		/* The control group is gone. */
		close(mark->fd);
		mark->fd = -1;
	} else if ((events & POLLPRI) != 0) {
		mark->reported_ms = now_ms;
	}
}

void pressure_wait(struct pressure *pressure, int other, int64_t timeout_ms)
{
	struct pollfd pollers[PRESSURE_MARKS_MAX + 1];

	for (size_t i = 0; i < pressure->count; i++)
		pollers[i] = (struct pollfd){ .fd = pressure->marks[i].fd, .events = POLLPRI };
	pollers[pressure->count] = (struct pollfd){ .fd = other, .events = POLLIN };
	if (poll(pollers, pressure->count + 1,
		    timeout_ms > INT32_MAX ? INT32_MAX : (int)timeout_ms) <= 0)
		return;
	const int64_t now_ms = clock_boottime_ms();
	for (size_t i = 0; i < pressure->count; i++) {
		/* A descriptor of -1 has no events. */
		note(&pressure->marks[i], pollers[i].revents, now_ms);
	}
}

double pressure_reported(const struct pressure *pressure, int64_t now_ms)
{
	double share = 0;

	for (size_t i = 0; i < pressure->count; i++) {
		const struct pressure_mark *const mark = &pressure->marks[i];
		if (mark->reported_ms != INT64_MIN &&
			now_ms - mark->reported_ms < PRESSURE_LASTING_MS)
			share = fmax(share, mark->share);
	}
	return share;
}
