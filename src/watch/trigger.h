/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when to capture: what was observed goes in, a decision comes out. No clock, no file, no
 * target: the caller looks, captures and tells how that went.
 *
 * A rule about a level (rss, cgroup, psi) fires once when the level is passed, and is armed again
 * when it has fallen clearly below it (*hysteresis*), so that a level that hovers around its mark
 * is not captured at every turn. Growth and peaks start over from what was captured. Captures are
 * apart by the *cool-down* at least, except those that were asked for: every=, signal. What is
 * still true after the cool-down is captured then. A capture that failed is tried again, after
 * a delay, while its rule still holds.
 *
 * Times must come from a clock that cannot be set: one that jumps would fire or mute rules.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "watch/condition.h"

enum { TRIGGER_RULES_MAX = 16 };

struct trigger_observation {
	int64_t now_ms;
	uint64_t generation;   /* another value: the target was started anew */
	double resident_bytes; /* NAN for each that is not known */
	double machine_bytes;
	double cgroup_share;
	double pressure_share;
	bool signalled;
};

struct trigger_settings {
	int64_t cool_down_ms;
	int64_t retry_ms; /* after a capture that failed */
};

struct trigger;

/* Copies the rules. Free with trigger_free. */
struct trigger *trigger_new(const struct trigger_settings *settings,
	const struct condition_rule *rules, size_t rule_count);
void trigger_free(struct trigger *trigger);

/*
 * One with other settings and rules. Rules of the same text go on from what they have seen, and so
 * does the cool-down; the others begin now. `trigger` stays the caller's.
 */
struct trigger *trigger_renew(const struct trigger *trigger,
	const struct trigger_settings *settings, const struct condition_rule *rules,
	size_t rule_count);

/*
 * The rule that asks for a capture now; NULL when there is none. After a rule, call
 * trigger_captured before the next step.
 */
const struct condition_rule *trigger_step(
	struct trigger *trigger, const struct trigger_observation *observation);

/* How the capture went that the last step asked for, and when it was over. */
void trigger_captured(struct trigger *trigger, bool ok, int64_t now_ms);

/* Whether that rule may fire; not while its level has yet to fall. */
bool trigger_is_armed(const struct trigger *trigger, size_t rule);
