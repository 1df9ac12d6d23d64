/* SPDX-License-Identifier: Apache-2.0 */
#include "render/render_trend.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "render/quantity.h"

static enum quantity_style style_of(const struct trend *trend)
{
	return quantity_style_of(trend->view->kind, trend->view->counter, false);
}

void trend_format_span(const struct trend *trend, double hours, char text[32])
{
	if (!trend->has_times)
		snprintf(text, 32, hours == 1 ? "%.4g profile" : "%.4g profiles", hours);
	else if (hours < 2.0 / 60)
		snprintf(text, 32, "%.3g s", hours * 3600);
	else if (hours < 2)
		snprintf(text, 32, "%.3g min", hours * 60);
	else if (hours < 48)
		snprintf(text, 32, "%.3g h", hours);
	else
		snprintf(text, 32, "%.3g d", hours / 24);
}

/* "+1.7 ± 0.8 MiB/h", "+1.7 [+0.9 to +3.4] MiB/h" */
static struct quantity_interval_text format_rate(
	const struct trend *trend, const struct growth *growth)
{
	struct quantity_interval_text text =
		quantity_format_interval(style_of(trend), growth->rate, growth->low, growth->high);

	strncat(text.text, trend->has_times ? "/h" : " per profile",
		sizeof text.text - strlen(text.text) - 1);
	return text;
}

/* "+64 MiB", or "+64 MiB (restart)". */
static void format_step(const struct trend *trend, const struct growth_step *step, char text[64])
{
	snprintf(text, 64, "%s%s", quantity_format(style_of(trend), step->size, true).text,
		step->is_restart ? " (restart)" : "");
}

static void describe_one_step(
	const struct trend *trend, const struct growth_step *step, char *text, size_t size)
{
	const enum quantity_style quantity = style_of(trend);
	char from[32], to[32], lasted[32], within[48], when[32];

	if (step->is_gradual) {
		const double begin = step->hours - step->lasted_hours / 2;
		trend_format_span(trend, begin, from);
		trend_format_span(trend, step->hours + step->lasted_hours / 2, to);
		snprintf(text, size, "%s by %s from %s to %s after %s, %s since",
			step->size < 0 ? "fell" : "rose",
			quantity_format(quantity, fabs(step->size), false).text,
			begin > 0 ? from : "the start", to, begin > 0 ? "the start" : "it",
			step->goes_on_slower ? "more slowly" : "level");
		return;
	}
	trend_format_span(trend, step->hours, when);
	trend_format_span(trend, step->lasted_hours, lasted);
	snprintf(within, sizeof within, "within %s", lasted);
	snprintf(text, size, "one step of %s %s, %s after the start",
		quantity_format(quantity, step->size, true).text,
		step->is_restart ? "with a restart" : within, when);
}

/* "3 steps, +96 MiB in all (+64 MiB with restarts), 2 h to 8 h after the start" */
static void describe_many_steps(const struct trend *trend, const struct growth_step *steps,
	size_t count, char *text, size_t size)
{
	const enum quantity_style quantity = style_of(trend);
	double sum = 0, restart_sum = 0;
	char from[32], to[32], restarts[64] = "";
	size_t restart_count = 0;

	for (size_t i = 0; i < count; i++) {
		sum += steps[i].size;
		restart_sum += steps[i].is_restart ? steps[i].size : 0;
		restart_count += steps[i].is_restart;
	}
	if (restart_count > 0)
		snprintf(restarts, sizeof restarts, " (%s with %s)",
			quantity_format(quantity, restart_sum, true).text,
			restart_count == 1 ? "a restart" : "restarts");
	trend_format_span(trend, steps[0].hours, from);
	trend_format_span(trend, steps[count - 1].hours, to);
	snprintf(text, size, "%zu steps, %s in all%s, %s to %s after the start", count,
		quantity_format(quantity, sum, true).text, restarts, from, to);
}

/*
 * "one step of +64 MiB within 1 h, 8 h after the start", "rose by 64 MiB from 2 h to 8 h after the
 * start"; of many steps only their sum.
 */
static void describe_steps(
	const struct trend *trend, const struct growth *growth, char *text, size_t size)
{
	struct growth_step steps[GROWTH_MAX_STEPS];
	const size_t count = growth_own_steps(growth, steps);
	char sizes[2][64], when[2][32];

	text[0] = '\0';
	if (count == 0)
		return;
	if (count == 1) {
		describe_one_step(trend, &steps[0], text, size);
	} else if (count == 2) {
		for (size_t i = 0; i < count; i++) {
			format_step(trend, &steps[i], sizes[i]);
			trend_format_span(trend, steps[i].hours, when[i]);
		}
		snprintf(text, size, "two steps of %s and %s, %s and %s after the start", sizes[0],
			sizes[1], when[0], when[1]);
	} else {
		describe_many_steps(trend, steps, count, text, size);
	}
	if (growth->may_go_on)
		strncat(text, "; a later profile shows whether it continues",
			size - strlen(text) - 1);
}

/* "15 h after the start (14 h to 16 h)", without an interval of one point. */
static void describe_moment(
	const struct trend *trend, double hours, double low, double high, char text[120])
{
	char moment[32], from[32], to[32];

	trend_format_span(trend, hours, moment);
	trend_format_span(trend, low, from);
	trend_format_span(trend, high, to);
	if (low < high)
		snprintf(text, 120, "%s after the start (%s to %s)", moment, from, to);
	else
		snprintf(text, 120, "%s after the start", moment);
}

/*
 * "grows since 15 h after the start: +50 ± 3 MiB/h, still growing", or what else is possible.
 */
static void describe_moments(
	const struct trend *trend, const struct growth *growth, char *text, size_t size)
{
	const bool falls = growth->kind == GROWTH_FALL;
	const struct quantity_interval_text rate = format_rate(trend, growth);
	const char *const did = falls ? "fell" : "grew", *const does = falls ? "falls" : "grows";
	char onset[120], end[120], established[32];

	describe_moment(trend, growth->onset_hours, growth->onset_low, growth->onset_high, onset);
	describe_moment(trend, growth->end_hours, growth->end_low, growth->end_high, end);
	trend_format_span(trend, growth->end_low, established);
	if (growth->has_end && growth->has_onset)
		snprintf(text, size, "%s from %s until %s: %s, level since", did, onset, end,
			rate.text);
	else if (growth->has_end)
		snprintf(text, size, "%s until %s: %s, level since", did, end, rate.text);
	else if (growth->goes_on)
		snprintf(text, size, "%s since %s: %s, still %s", does, onset, rate.text,
			falls ? "falling" : "growing");
	else if (growth->may_be_step)
		snprintf(text, size,
			"%s since %s: %s, or took two steps; a later profile shows which", does,
			onset, rate.text);
	else
		snprintf(text, size,
			"%s since %s: %s; it may have ended %s after the start, or later", does,
			onset, rate.text, established);
}

static void describe_growth(
	const struct trend *trend, const struct growth *growth, struct trend_words *words)
{
	const bool falls = growth->kind == GROWTH_FALL;
	const struct quantity_interval_text rate = format_rate(trend, growth);
	char moments[400], period[32], swings[64] = "", averaged[64] = "", steps[200];

	describe_steps(trend, growth, steps, sizeof steps);
	const char *const and = steps[0] == '\0' ? "" : "; and ";
	if (growth->period_hours > 0) {
		trend_format_span(trend, growth->period_hours, period);
		snprintf(swings, sizeof swings, ", below swings of about %s", period);
	}
	if (growth->has_onset || growth->has_end) {
		describe_moments(trend, growth, moments, sizeof moments);
		snprintf(words->text, sizeof words->text, "%s%s%s%s", moments, swings, and, steps);
	} else if (swings[0] != '\0') {
		snprintf(
			words->text, sizeof words->text, "%s%s%s%s", rate.text, swings, and, steps);
	} else {
		if (growth->averaged > 1)
			snprintf(averaged, sizeof averaged,
				" between averages of about %u profiles", growth->averaged);
		snprintf(words->text, sizeof words->text, "%s, %s%s in %u of %u intervals%s%s%s",
			rate.text, falls ? "fell" : "grew",
			trend->process_count > 1 ? " within runs" : "",
			falls ? growth->falls : growth->rises, growth->intervals, averaged, and,
			steps);
	}
}

static void describe_no_growth(
	const struct trend *trend, const struct trend_site *site, struct trend_words *words)
{
	const struct growth *const growth = &site->growth;
	char steps[200];

	if (growth->may_be_step) {
		describe_steps(trend, growth, steps, sizeof steps);
		snprintf(words->text, sizeof words->text, "%s, or growth (%s)", steps,
			format_rate(trend, growth).text);
		return;
	}
	if (growth->low <= 0 && growth->high >= 0 && !growth->fluctuates) {
		snprintf(words->text, sizeof words->text, "no growth that stands out (%s)",
			format_rate(trend, growth).text);
		return;
	}
	/* Its rate is that of a line that it does not follow. */
	double low = INFINITY, high = 0;
	size_t count = 0;
	for (size_t i = 0; i < trend->profile_count; i++) {
		if (trend->is_warm_up[i])
			continue;
		count++;
		low = fmin(low, site->series[i].value);
		high = fmax(high, site->series[i].value);
	}
	/* Three points have no level before or after a change. */
	snprintf(words->text, sizeof words->text,
		count < 4 ? "%s to %s, in too few profiles to tell growth from a step"
			  : "no growth beyond its fluctuation (%s to %s)",
		quantity_format(style_of(trend), low, false).text,
		quantity_format(style_of(trend), high, false).text);
}

/* Old memory that is replaced by memory that the sampler has seen rises in the profiles, too. */
static void append_attach(const struct trend *trend, struct buffer *out)
{
	char age[DURATION_TEXT_BYTES];

	if (trend->attach_count > 0)
		buffer_printf(out, ", attached anew %zu time%s", trend->attach_count,
			trend->attach_count == 1 ? "" : "s");
	if (trend->attached_ms == 0 || !trend->has_times || trend->last_ms < trend->attached_ms)
		return;
	buffer_printf(out, ", attached %s before the last: what lives longer looks like a leak",
		duration_format(trend->last_ms - trend->attached_ms, age));
	if (trend->warm_up_count > 0)
		buffer_printf(out, ", and the first %zu after an attach count for no growth",
			trend->warm_up_count);
}

void trend_append_runs(const struct trend *trend, struct buffer *out)
{
	if (trend->process_count > 1)
		buffer_printf(out, ", %zu runs of the program", trend->process_count);
	if (trend->reset_count > 0)
		buffer_printf(out, ", samples discarded %zu time%s", trend->reset_count,
			trend->reset_count == 1 ? "" : "s");
	append_attach(trend, out);
}

struct trend_words trend_describe_growth(const struct trend *trend, const struct trend_site *site)
{
	const struct growth *const growth = &site->growth;
	struct trend_words words = { "too few profiles to say" };
	char span[32];

	if (trend->lacks_counts)
		strcpy(words.text, "not counted");
	if (trend->lacks_counts || !site->has_growth)
		return words;
	switch (growth->kind) {
	case GROWTH_JUMP:
		describe_steps(trend, growth, words.text, sizeof words.text);
		break;
	case GROWTH_CYCLE:
		trend_format_span(trend, growth->period_hours, span);
		snprintf(words.text, sizeof words.text, "comes and goes about every %s (%s)", span,
			format_rate(trend, growth).text);
		break;
	case GROWTH_STEADY:
	case GROWTH_FALL:
		describe_growth(trend, growth, &words);
		break;
	case GROWTH_NONE:
		describe_no_growth(trend, site, &words);
		break;
	}
	return words;
}

struct trend_words trend_describe_chance(const struct trend_site *site)
{
	const double percent = 100 * site->adjusted_p;
	struct trend_words words = { "" };

	if (!site->has_growth || percent >= 10)
		return words;
	if (percent < 0.01)
		strcpy(words.text, "< 0.01 %");
	else
		snprintf(words.text, sizeof words.text, percent < 1 ? "%.2f %%" : "%.1f %%",
			percent);
	return words;
}
