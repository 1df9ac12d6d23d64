/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/trigger.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

enum {
	GROWTH_BUCKETS = 60, /* parts of the period whose minimum is kept */
	PEAK_RESET_MS = 60 * 60 * 1000,
};

/* A level that fired is armed again below this part of its mark. */
static const double REARM_BELOW = 0.95;

struct bucket {
	int64_t number; /* the time divided by the bucket's length */
	double lowest_bytes;
};

struct term_state {
	struct bucket buckets[GROWTH_BUCKETS + 1];
	/* Highest for a peak, lowest since the last capture for growth; NAN: not seen yet. */
	double mark_bytes;
	int64_t mark_ms;
};

struct rule_state {
	struct condition_rule rule;
	bool is_armed;
	bool is_asked_for; /* every= and signal alone: no cool-down */
	struct term_state terms[CONDITION_TERMS_MAX];
};

struct trigger {
	struct trigger_settings settings;
	struct rule_state rules[TRIGGER_RULES_MAX];
	size_t rule_count;
	bool is_begun;
	struct trigger_observation last;
	struct rule_state *fired;	/* by the last step */
	int64_t captured_ms, failed_ms; /* -1: never */
	bool signal_pending;
};

static bool is_level(const struct condition *term)
{
	return term->kind == CONDITION_RESIDENT || term->kind == CONDITION_CGROUP ||
	       term->kind == CONDITION_PRESSURE;
}

struct trigger *trigger_new(const struct trigger_settings *settings,
	const struct condition_rule *rules, size_t rule_count)
{
	struct trigger *const trigger = xcalloc(1, sizeof *trigger);

	trigger->settings = *settings;
	trigger->captured_ms = trigger->failed_ms = -1;
	trigger->rule_count = rule_count;
	for (size_t i = 0; i < rule_count; i++) {
		struct rule_state *const state = &trigger->rules[i];
		state->rule = rules[i];
		state->is_armed = true;
		state->is_asked_for = true;
		for (size_t j = 0; j < rules[i].term_count; j++)
			state->is_asked_for &= rules[i].terms[j].kind == CONDITION_EVERY ||
					       rules[i].terms[j].kind == CONDITION_SIGNAL;
	}
	return trigger;
}

void trigger_free(struct trigger *trigger)
{
	free(trigger);
}

/* Notes the moment's value and returns the lowest one of the period. */
static double lowest_of_period(const struct condition *term, struct term_state *state,
	const struct trigger_observation *now)
{
	const int64_t length_ms = term->period_ms / GROWTH_BUCKETS + 1;
	const int64_t number = now->now_ms / length_ms;
	struct bucket *const bucket = &state->buckets[number % (GROWTH_BUCKETS + 1)];
	double lowest = now->resident_bytes;

	if (bucket->number != number)
		*bucket = (struct bucket){ number, now->resident_bytes };
	/* fmin passes over what is not known. */
	bucket->lowest_bytes = fmin(bucket->lowest_bytes, now->resident_bytes);
	for (size_t i = 0; i <= GROWTH_BUCKETS; i++) {
		const struct bucket *const other = &state->buckets[i];
		if (other->number >= 0 && other->number >= number - GROWTH_BUCKETS)
			lowest = fmin(lowest, other->lowest_bytes);
	}
	return lowest;
}

/* What the term compares starts over. */
static void restart_term(const struct condition *term, struct term_state *state,
	const struct trigger_observation *now, int64_t now_ms)
{
	for (size_t i = 0; i <= GROWTH_BUCKETS; i++)
		state->buckets[i] = (struct bucket){ .number = -1 };
	if (term->kind == CONDITION_GROWTH && term->period_ms > 0)
		(void)lowest_of_period(term, state, now);
	state->mark_bytes = now->resident_bytes;
	state->mark_ms = now_ms;
}

static void restart_all(struct trigger *trigger, const struct trigger_observation *now, bool begin)
{
	for (size_t i = 0; i < trigger->rule_count; i++) {
		struct rule_state *const state = &trigger->rules[i];
		state->is_armed = true;
		for (size_t j = 0; j < state->rule.term_count; j++) {
			if (begin || state->rule.terms[j].kind != CONDITION_EVERY)
				restart_term(
					&state->rule.terms[j], &state->terms[j], now, now->now_ms);
		}
	}
}

static const struct rule_state *find_rule(const struct trigger *trigger, const char *text)
{
	for (size_t i = 0; i < trigger->rule_count; i++) {
		if (strcmp(trigger->rules[i].rule.text, text) == 0)
			return &trigger->rules[i];
	}
	return NULL;
}

struct trigger *trigger_renew(const struct trigger *trigger,
	const struct trigger_settings *settings, const struct condition_rule *rules,
	size_t rule_count)
{
	struct trigger *const renewed = trigger_new(settings, rules, rule_count);

	renewed->is_begun = trigger->is_begun;
	renewed->last = trigger->last;
	renewed->captured_ms = trigger->captured_ms;
	renewed->failed_ms = trigger->failed_ms;
	renewed->signal_pending = trigger->signal_pending;
	for (size_t i = 0; i < rule_count; i++) {
		struct rule_state *const state = &renewed->rules[i];
		const struct rule_state *const before = find_rule(trigger, rules[i].text);
		if (before != NULL) {
			*state = *before;
			continue;
		}
		for (size_t j = 0; trigger->is_begun && j < rules[i].term_count; j++)
			restart_term(&rules[i].terms[j], &state->terms[j], &trigger->last,
				trigger->last.now_ms);
	}
	return renewed;
}

bool trigger_is_armed(const struct trigger *trigger, size_t rule)
{
	return rule < trigger->rule_count && trigger->rules[rule].is_armed;
}

static double level_of(const struct condition *term, const struct trigger_observation *now)
{
	switch (term->kind) {
	case CONDITION_RESIDENT:
		return term->is_share ? now->resident_bytes / now->machine_bytes
				      : now->resident_bytes;
	case CONDITION_CGROUP:
		return now->cgroup_share;
	case CONDITION_PRESSURE:
		return now->pressure_share;
	case CONDITION_GROWTH:
	case CONDITION_PEAK:
	case CONDITION_EVERY:
	case CONDITION_SIGNAL:
		break;
	}
	return NAN;
}

static bool has_grown(const struct condition *term, struct term_state *state,
	const struct trigger_observation *now)
{
	if (isnan(now->resident_bytes))
		return false;
	if (isnan(state->mark_bytes))
		state->mark_bytes = now->resident_bytes;
	state->mark_bytes = fmin(state->mark_bytes, now->resident_bytes);
	const double from =
		term->period_ms == 0 ? state->mark_bytes : lowest_of_period(term, state, now);
	return now->resident_bytes > from + (term->is_share ? from * term->mark : term->mark);
}

static bool is_peak(const struct condition *term, struct term_state *state,
	const struct trigger_observation *now)
{
	if (isnan(now->resident_bytes))
		return false;
	if (isnan(state->mark_bytes)) {
		state->mark_bytes = now->resident_bytes;
		state->mark_ms = now->now_ms;
	}
	const bool is_above = now->resident_bytes > state->mark_bytes * (1 + term->mark);
	if (!is_above && now->now_ms - state->mark_ms >= PEAK_RESET_MS) {
		state->mark_bytes = now->resident_bytes;
		state->mark_ms = now->now_ms;
	}
	return is_above;
}

/* Called for every term at every step: some remember what they saw. */
static bool term_holds(const struct trigger *trigger, const struct condition *term,
	struct term_state *state, const struct trigger_observation *now)
{
	switch (term->kind) {
	case CONDITION_RESIDENT:
	case CONDITION_CGROUP:
	case CONDITION_PRESSURE:
		return level_of(term, now) > term->mark;
	case CONDITION_GROWTH:
		return has_grown(term, state, now);
	case CONDITION_PEAK:
		return is_peak(term, state, now);
	case CONDITION_EVERY:
		return now->now_ms - state->mark_ms >= term->period_ms;
	case CONDITION_SIGNAL:
		return trigger->signal_pending;
	}
	return false;
}

static bool rule_holds(
	struct trigger *trigger, struct rule_state *state, const struct trigger_observation *now)
{
	bool holds = true;

	for (size_t i = 0; i < state->rule.term_count; i++) {
		const struct condition *const term = &state->rule.terms[i];
		holds &= term_holds(trigger, term, &state->terms[i], now);
		if (is_level(term) && level_of(term, now) < term->mark * REARM_BELOW)
			state->is_armed = true;
	}
	return holds;
}

/* After a capture that failed. */
static bool is_resting(const struct trigger *trigger, int64_t now_ms)
{
	return trigger->failed_ms >= 0 && now_ms - trigger->failed_ms < trigger->settings.retry_ms;
}

static bool may_capture(
	const struct trigger *trigger, const struct rule_state *state, int64_t now_ms)
{
	if (is_resting(trigger, now_ms))
		return false;
	return state->is_asked_for || trigger->captured_ms < 0 ||
	       now_ms - trigger->captured_ms >= trigger->settings.cool_down_ms;
}

const struct condition_rule *trigger_step(
	struct trigger *trigger, const struct trigger_observation *observation)
{
	if (!trigger->is_begun || observation->generation != trigger->last.generation)
		restart_all(trigger, observation, !trigger->is_begun);
	trigger->is_begun = true;
	trigger->last = *observation;
	trigger->signal_pending |= observation->signalled;
	trigger->fired = NULL;
	for (size_t i = 0; i < trigger->rule_count; i++) {
		struct rule_state *const state = &trigger->rules[i];
		const bool holds = rule_holds(trigger, state, observation);
		if (holds && state->is_armed && trigger->fired == NULL &&
			may_capture(trigger, state, observation->now_ms))
			trigger->fired = state;
	}
	/* A signal is for this moment; only one that could not be served yet is kept. */
	if (trigger->fired == NULL && !is_resting(trigger, observation->now_ms))
		trigger->signal_pending = false;
	return trigger->fired == NULL ? NULL : &trigger->fired->rule;
}

/* Rules of levels alone wait until the level has fallen; the others start over by themselves. */
static bool stays_armed(const struct condition_rule *rule)
{
	for (size_t i = 0; i < rule->term_count; i++) {
		if (!is_level(&rule->terms[i]))
			return true;
	}
	return false;
}

/*
 * One capture serves every rule that compares with what was captured; but one that was asked for
 * by the clock only moves its own clock.
 */
void trigger_captured(struct trigger *trigger, bool ok, int64_t now_ms)
{
	struct rule_state *const fired = trigger->fired;

	trigger->fired = NULL;
	if (!ok) {
		trigger->failed_ms = now_ms;
		return;
	}
	trigger->failed_ms = -1;
	trigger->captured_ms = now_ms;
	trigger->signal_pending = false;
	fired->is_armed = stays_armed(&fired->rule);
	for (size_t i = 0; i < trigger->rule_count; i++) {
		struct rule_state *const state = &trigger->rules[i];
		for (size_t j = 0; j < state->rule.term_count; j++) {
			if (state == fired || state->rule.terms[j].kind != CONDITION_EVERY)
				restart_term(&state->rule.terms[j], &state->terms[j],
					&trigger->last, now_ms);
		}
	}
}
