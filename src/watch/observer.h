/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the memory figures of a target without disturbing it: from /proc and its control group when
 * it is a process of this machine. Of a target behind a gateway only the resident memory is known:
 * the kernel's, or the allocator's where the gateway does not report it.
 *
 * Memory pressure (PSI) also comes from the kernel unasked: a *trigger* on a file such as
 * /proc/pressure/memory reports at once that some task waited for memory longer than a share of two
 * seconds. The average in the file takes ten seconds to get there, and the OOM killer is faster.
 */
#pragma once

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "client/control_group.h"
#include "client/target.h"
#include "watch/trigger.h"

enum { CGROUP_PATH_BYTES = 4200 };

/*
 * The file of the kernel's figures of memory pressure: the group's, or the whole machine's where
 * the group has none; "" when the kernel keeps none.
 */
void cgroup_pressure_path(const struct cgroup *group, char path[CGROUP_PATH_BYTES]);

/*
 * Share of the last ten seconds in which some task waited for memory, from that file. NAN when it
 * cannot be read.
 */
double cgroup_pressure(const char *path);

enum {
	PRESSURE_TRIGGERS_MAX = 8,
	/* Without privileges the kernel takes multiples of two seconds only. */
	PRESSURE_WINDOW_MS = 2000,
	/* What the kernel reported counts for so long, as the average does. */
	PRESSURE_LASTING_MS = 10 * 1000,
};

struct pressure_trigger {
	int fd; /* -1: the kernel gives no trigger for it */
	double share;
	int64_t reported_ms;
};

struct pressure {
	struct pressure_trigger triggers[PRESSURE_TRIGGERS_MAX];
	size_t count;
};

/*
 * Requests a trigger for this share (0.1) of the time, unless there is one already. False when the
 * kernel gives none (no rights, an old kernel, too many of them): then only the average is left.
 */
MUST_CHECK bool pressure_add(
	struct pressure *pressure, const char *path, double share, struct error *err);
void pressure_deinit(struct pressure *pressure);

/* Waits for a report, which it keeps, for input on `other` (-1: none), a signal or the timeout. */
void pressure_wait(struct pressure *pressure, int other, int64_t timeout_ms);

/* The highest share reported within the last ten seconds; 0 when there was none. */
double pressure_reported(const struct pressure *pressure, int64_t now_ms);

struct observer {
	struct target target;
	uint64_t started; /* distinguishes two processes with the same pid */
	struct cgroup group;
	double machine_bytes;
	struct pressure pressure;
	char pressure_path[CGROUP_PATH_BYTES]; /* "" when the kernel keeps no figures */
	double left_bytes;		       /* to the limit of its group; INFINITY without one */
	bool has_new_group; /* the last reading found it in another control group */
};

/* ERROR_NOT_FOUND when the process has ended. Close with observer_close. */
MUST_CHECK bool observer_open(
	const struct target *target, struct observer *observer, struct error *err);
/* Fine for a zeroed one. */
void observer_close(struct observer *observer);

/*
 * Requests the kernel's triggers for the thresholds of the rule: pressure_wait then returns at
 * once. False when there is none; the average is then all there is.
 */
MUST_CHECK bool observer_request_pressure(
	struct observer *observer, const struct condition_rule *rule, struct error *err);

/*
 * Fills all but the time and the signal. ERROR_NOT_FOUND when the process has ended, even if
 * another one has its pid.
 */
MUST_CHECK bool observer_read(
	struct observer *observer, struct trigger_observation *observation, struct error *err);

/* ERROR_UNSUPPORTED when a condition of the rule can never be observed for this target. */
MUST_CHECK bool observer_check_rule(
	const struct observer *observer, const struct condition_rule *rule, struct error *err);
