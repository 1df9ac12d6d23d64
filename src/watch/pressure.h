/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pressure (PSI) as the kernel reports it by itself: a *trigger* on a file such as
 * /proc/pressure/memory says at once that some task waited for memory longer than a mark's share
 * of two seconds. The average that the file shows takes ten seconds to get there, and by then the
 * OOM killer may have come.
 *
 * One thread at a time.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	PRESSURE_MARKS_MAX = 8,
	/* Without privileges the kernel takes multiples of two seconds only. */
	PRESSURE_WINDOW_MS = 2000,
	/* What the kernel reported counts for so long, as the average does. */
	PRESSURE_LASTING_MS = 10 * 1000,
};

struct pressure_mark {
	int fd; /* -1: the kernel gives no trigger for it */
	double share;
	int64_t reported_ms;
};

struct pressure {
	struct pressure_mark marks[PRESSURE_MARKS_MAX];
	size_t count;
};

/*
 * Asks for a trigger of this share (0.1) of the time. False when the kernel gives none (no rights,
 * an old kernel, too many marks); the average is all there is then. A share that is there already
 * needs no second one.
 */
MUST_CHECK bool pressure_add(
	struct pressure *pressure, const char *path, double share, struct error *err);
void pressure_deinit(struct pressure *pressure);

/*
 * Waits for a report, for input on `other` (-1 for none), a signal or the time. Remembers what was
 * reported.
 */
void pressure_wait(struct pressure *pressure, int other, int64_t timeout_ms);

/* The highest share reported within the last ten seconds; 0 when there was none. */
double pressure_reported(const struct pressure *pressure, int64_t now_ms);
