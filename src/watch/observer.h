/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at a target without troubling it: at its /proc and its control group when it is a process
 * of this machine. Of a target behind a gateway only the resident memory is known: the kernel's, or
 * the allocator's where the gateway does not tell.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/target.h"
#include "watch/cgroup.h"
#include "watch/pressure.h"
#include "watch/trigger.h"

struct observer {
	struct target target;
	uint64_t started; /* tells two processes with the same pid apart */
	struct cgroup group;
	double machine_bytes;
	struct pressure pressure;
	char pressure_path[CGROUP_PATH_BYTES]; /* "" when the kernel keeps no figures */
	double left_bytes; /* to the limit of its group, at the last look; INFINITY without one */
	bool is_regrouped; /* the last look found it in another control group than the one before */
};

/* ERROR_NOT_FOUND when the process is gone. Close with observer_close. */
MUST_CHECK bool observer_open(
	const struct target *target, struct observer *observer, struct error *err);
/* Fine for a zeroed one. */
void observer_close(struct observer *observer);

/*
 * Asks the kernel to tell when the pressure passes the marks of the rule: pressure_wait then
 * returns at once. False when it does not; looking at the average has to do.
 */
MUST_CHECK bool observer_await_pressure(
	struct observer *observer, const struct condition_rule *rule, struct error *err);

/*
 * Fills all but the time and the signal. ERROR_NOT_FOUND when the process is gone, even if
 * another one has its pid.
 */
MUST_CHECK bool observer_look(
	struct observer *observer, struct trigger_observation *observation, struct error *err);

/* ERROR_UNSUPPORTED when a condition of the rule can never be seen of this target. */
MUST_CHECK bool observer_check_rule(
	const struct observer *observer, const struct condition_rule *rule, struct error *err);
