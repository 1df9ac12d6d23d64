/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides when to capture: observations go in, a decision comes out. No clock, no file, no target:
 * the caller observes, captures and reports the outcome.
 *
 * Conditions, as users write them:
 *
 *	rss>2GiB rss>40%	resident memory, in bytes or of the machine's memory
 *	cgroup>85%		memory that counts against the control group's limit
 *	psi>10%			time lost waiting for memory, over the last ten seconds
 *	growth>10%/h		resident memory above its minimum of the last hour
 *	growth>500MiB		above its minimum since the last capture
 *	peak peak>5%		resident memory above its maximum, which is reset hourly
 *	every=15mins
 *	signal			SIGUSR1, sent to heapctl watch
 *
 * A *rule* is such *terms* joined by " and ": all must be true at once. Of several rules one is
 * enough.
 *
 * A rule about a level (rss, cgroup, psi) fires once when the level passes its threshold, and is
 * armed again when it has fallen clearly below (*hysteresis*), so that a level that hovers around
 * the threshold is captured once. Growth and peaks start over from what was captured. Captures are
 * apart by the *cool-down* at least, except those of every= and signal. A rule that is still true
 * after the cool-down is captured then. A failed capture is repeated after a delay while its rule
 * is true.
 *
 * Times must come from a clock that cannot be set: one that jumps would fire or mute rules.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum condition_kind {
	CONDITION_RESIDENT,
	CONDITION_CGROUP,
	CONDITION_PRESSURE,
	CONDITION_GROWTH,
	CONDITION_PEAK,
	CONDITION_EVERY,
	CONDITION_SIGNAL,
};

enum { CONDITION_TERMS_MAX = 4, CONDITION_TEXT_BYTES = 128 };

struct condition {
	enum condition_kind kind;
	bool is_share;	   /* the mark is a share (0.85), not bytes */
	double threshold;  /* bytes or share */
	int64_t period_ms; /* of growth (0: since the last capture) and every */
};

struct condition_rule {
	char text[CONDITION_TEXT_BYTES]; /* as it was written */
	struct condition terms[CONDITION_TERMS_MAX];
	size_t term_count;
};

/* ERROR_USAGE with what is wrong and an example. */
MUST_CHECK bool condition_parse(const char *text, struct condition_rule *rule, struct error *err);

/* Whether any term of the rule is of that kind. */
bool condition_has(const struct condition_rule *rule, enum condition_kind kind);

enum { TRIGGER_RULES_MAX = 16 };

struct trigger_observation {
	int64_t now_ms;
	uint64_t generation;   /* another value: the target was restarted */
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
 * A new one with other settings and rules. Rules of the same text keep what they have observed, and
 * the cool-down continues; other rules begin now. `trigger` stays the caller's.
 */
struct trigger *trigger_renew(const struct trigger *trigger,
	const struct trigger_settings *settings, const struct condition_rule *rules,
	size_t rule_count);

/*
 * The rule that requires a capture now; NULL when there is none. After a rule, call
 * trigger_captured before the next step.
 */
const struct condition_rule *trigger_step(
	struct trigger *trigger, const struct trigger_observation *observation);

/* The outcome of the capture that the last step requested, and when it ended. */
void trigger_captured(struct trigger *trigger, bool ok, int64_t now_ms);

/* Whether that rule may fire; not while its level has yet to fall. */
bool trigger_is_armed(const struct trigger *trigger, size_t rule);
