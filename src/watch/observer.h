/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Looks at a target without troubling it: at its /proc and its control group when it is a process
 * of this machine. Of a target behind a gateway only the allocator's resident memory is known.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "client/target.h"
#include "watch/cgroup.h"
#include "watch/trigger.h"

struct observer {
	struct target target;
	uint64_t started; /* tells two processes with the same pid apart */
	struct cgroup group;
	double machine_bytes;
};

/* ERROR_NOT_FOUND when the process is gone. */
MUST_CHECK bool observer_open(
	const struct target *target, struct observer *observer, struct error *err);

/*
 * Fills all but the time and the signal. ERROR_NOT_FOUND when the process is gone, even if
 * another one has its pid.
 */
MUST_CHECK bool observer_look(const struct observer *observer,
	struct trigger_observation *observation, struct error *err);

/* ERROR_UNSUPPORTED when a condition of the rule can never be seen of this target. */
MUST_CHECK bool observer_check_rule(
	const struct observer *observer, const struct condition_rule *rule, struct error *err);
