/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/trigger.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "base/xalloc.h"

static const double DEFAULT_PEAK = 0.05;

static bool parse_share(const char *text, double *share, struct error *err)
{
	double value = 0;
	int used = 0;

	if (strspn(text, "0123456789.") == 0 || sscanf(text, "%lf%%%n", &value, &used) != 1 ||
		used == 0 || text[used] != '\0' || !(value > 0) || value > 1e6) {
		error_set(err, ERROR_USAGE, "'%.40s' is not a percentage", text);
		return error_hint(err, "write, for example, 85%%");
	}
	*share = value / 100;
	return true;
}

/* A share of something that there is only once. */
static bool parse_part(const char *text, double *share, struct error *err)
{
	double parsed = 0;

	if (!parse_share(text, &parsed, err))
		return false;
	if (parsed >= 1)
		return error_set(err, ERROR_USAGE, "more than 100%% is impossible");
	*share = parsed;
	return true;
}

static bool parse_amount(const char *text, struct condition *term, struct error *err)
{
	const size_t size = strlen(text);
	uint64_t bytes = 0;

	if (size > 0 && text[size - 1] == '%') {
		term->is_share = true;
		return parse_share(text, &term->threshold, err);
	}
	if (!byte_size_parse(text, &bytes, err))
		return false;
	if (bytes == 0)
		return error_set(err, ERROR_USAGE, "the threshold must be above 0");
	term->threshold = (double)bytes;
	return true;
}

static bool parse_level(const char *text, struct condition *term, struct error *err)
{
	return parse_amount(text, term, err) &&
	       (!term->is_share || parse_part(text, &term->threshold, err));
}

static bool parse_only_part(const char *text, struct condition *term, struct error *err)
{
	term->is_share = true;
	return parse_part(text, &term->threshold, err);
}

static bool parse_only_share(const char *text, struct condition *term, struct error *err)
{
	term->is_share = true;
	return parse_share(text, &term->threshold, err);
}

/* "h" is one hour. */
static bool parse_period(const char *text, int64_t *period_ms, struct error *err)
{
	char full[48];

	snprintf(full, sizeof full, "%s%.40s", *text >= '0' && *text <= '9' ? "" : "1", text);
	if (*text == '\0')
		return error_set(err, ERROR_USAGE, "a time is missing, such as 15mins");
	if (!duration_parse(full, period_ms, err))
		return false;
	return *period_ms >= 1000 ||
	       error_set(err, ERROR_USAGE, "the time '%.40s' is too short", text);
}

static bool parse_growth(const char *text, struct condition *term, struct error *err)
{
	const char *const slash = strchr(text, '/');
	char amount[48];

	if (slash == NULL)
		return parse_amount(text, term, err);
	snprintf(amount, sizeof amount, "%.*s", (int)(slash - text), text);
	return parse_amount(amount, term, err) && parse_period(slash + 1, &term->period_ms, err);
}

static bool parse_every(const char *text, struct condition *term, struct error *err)
{
	return parse_period(text, &term->period_ms, err);
}

struct word {
	const char *name;
	enum condition_kind kind;
	char sign;	   /* between name and value */
	bool may_be_alone; /* without sign and value */
	bool (*parse)(const char *value, struct condition *term, struct error *err);
};

static const struct word words[] = {
	{ "rss", CONDITION_RESIDENT, '>', false, parse_level },
	{ "cgroup", CONDITION_CGROUP, '>', false, parse_only_part },
	{ "psi", CONDITION_PRESSURE, '>', false, parse_only_part },
	{ "growth", CONDITION_GROWTH, '>', false, parse_growth },
	{ "peak", CONDITION_PEAK, '>', true, parse_only_share },
	{ "every", CONDITION_EVERY, '=', false, parse_every },
	{ "signal", CONDITION_SIGNAL, '\0', true, NULL },
};

static bool parse_term(const char *text, struct condition *term, struct error *err)
{
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		const struct word *const word = &words[i];
		const size_t size = strlen(word->name);

		if (strncmp(text, word->name, size) != 0)
			continue;
		*term = (struct condition){ .kind = word->kind };
		if (text[size] == '\0' && word->may_be_alone) {
			term->is_share = word->kind == CONDITION_PEAK;
			term->threshold = DEFAULT_PEAK;
			return true;
		}
		if (word->sign != '\0' && text[size] == word->sign)
			return word->parse(text + size + 1, term, err);
	}
	error_set(err, ERROR_USAGE, "'%.60s' is not a condition", text);
	return error_hint(err, "rss>2GiB, cgroup>85%%, psi>10%%, growth>10%%/h, peak, every=15mins "
			       "or signal");
}

bool condition_parse(const char *text, struct condition_rule *rule, struct error *err)
{
	static const char joint[] = " and ";
	struct condition_rule parsed = { 0 };
	char rest[CONDITION_TEXT_BYTES];

	if (strlen(text) >= sizeof parsed.text)
		return error_set(err, ERROR_USAGE, "the condition '%.40s...' is too long", text);
	strcpy(parsed.text, text);
	strcpy(rest, text);
	for (char *at = rest; at != NULL;) {
		char *const end = strstr(at, joint);
		if (end != NULL)
			*end = '\0';
		if (parsed.term_count == CONDITION_TERMS_MAX)
			return error_set(err, ERROR_USAGE, "'%s': more than %d terms", text,
				CONDITION_TERMS_MAX);
		if (!parse_term(at, &parsed.terms[parsed.term_count++], err))
			return false;
		at = end == NULL ? NULL : end + sizeof joint - 1;
	}
	*rule = parsed;
	return true;
}

bool condition_has(const struct condition_rule *rule, enum condition_kind kind)
{
	for (size_t i = 0; i < rule->term_count; i++) {
		if (rule->terms[i].kind == kind)
			return true;
	}
	return false;
}

enum {
	GROWTH_BUCKETS = 60, /* parts of the period whose minimum is kept */
	PEAK_RESET_MS = 60 * 60 * 1000,
};

/* A level that fired is armed again below this part of its mark. */
static const double REARM_BELOW = 0.95;

struct bucket {
	int64_t number; /* the time divided by the bucket's length */
	double min_bytes;
};

struct term_state {
	struct bucket buckets[GROWTH_BUCKETS + 1];
	/* Highest for a peak, lowest since the last capture for growth; NAN: not seen yet. */
	double reference_bytes;
	int64_t reference_ms;
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
static double min_of_period(const struct condition *term, struct term_state *state,
	const struct trigger_observation *now)
{
	const int64_t length_ms = term->period_ms / GROWTH_BUCKETS + 1;
	const int64_t number = now->now_ms / length_ms;
	struct bucket *const bucket = &state->buckets[number % (GROWTH_BUCKETS + 1)];
	double lowest = now->resident_bytes;

	if (bucket->number != number)
		*bucket = (struct bucket){ number, now->resident_bytes };
	/* fmin passes over what is not known. */
	bucket->min_bytes = fmin(bucket->min_bytes, now->resident_bytes);
	for (size_t i = 0; i <= GROWTH_BUCKETS; i++) {
		const struct bucket *const other = &state->buckets[i];
		if (other->number >= 0 && other->number >= number - GROWTH_BUCKETS)
			lowest = fmin(lowest, other->min_bytes);
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
		(void)min_of_period(term, state, now);
	state->reference_bytes = now->resident_bytes;
	state->reference_ms = now_ms;
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
	if (isnan(state->reference_bytes))
		state->reference_bytes = now->resident_bytes;
	state->reference_bytes = fmin(state->reference_bytes, now->resident_bytes);
	const double from =
		term->period_ms == 0 ? state->reference_bytes : min_of_period(term, state, now);
	return now->resident_bytes >
	       from + (term->is_share ? from * term->threshold : term->threshold);
}

static bool is_peak(const struct condition *term, struct term_state *state,
	const struct trigger_observation *now)
{
	if (isnan(now->resident_bytes))
		return false;
	if (isnan(state->reference_bytes)) {
		state->reference_bytes = now->resident_bytes;
		state->reference_ms = now->now_ms;
	}
	const bool is_above = now->resident_bytes > state->reference_bytes * (1 + term->threshold);
	if (!is_above && now->now_ms - state->reference_ms >= PEAK_RESET_MS) {
		state->reference_bytes = now->resident_bytes;
		state->reference_ms = now->now_ms;
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
		return level_of(term, now) > term->threshold;
	case CONDITION_GROWTH:
		return has_grown(term, state, now);
	case CONDITION_PEAK:
		return is_peak(term, state, now);
	case CONDITION_EVERY:
		return now->now_ms - state->reference_ms >= term->period_ms;
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
		if (is_level(term) && level_of(term, now) < term->threshold * REARM_BELOW)
			state->is_armed = true;
	}
	return holds;
}

/* After a capture that failed. */
static bool is_backing_off(const struct trigger *trigger, int64_t now_ms)
{
	return trigger->failed_ms >= 0 && now_ms - trigger->failed_ms < trigger->settings.retry_ms;
}

static bool may_capture(
	const struct trigger *trigger, const struct rule_state *state, int64_t now_ms)
{
	if (is_backing_off(trigger, now_ms))
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
	if (trigger->fired == NULL && !is_backing_off(trigger, observation->now_ms))
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
 * One capture counts for every rule that compares with the last capture; but one of `every=` only
 * moves its own clock.
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
