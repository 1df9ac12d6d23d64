/* SPDX-License-Identifier: Apache-2.0 */
#include "render/trend_chart.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/unsample.h"
#include "base/utf8.h"
#include "render/quantity.h"

/* Pixels of one chart. */
enum {
	CHART_WIDTH = 470,
	CHART_HEIGHT = 212,
	PLOT_LEFT = 68,
	PLOT_RIGHT = 14,
	PLOT_TOP = 66,
	PLOT_BOTTOM = 26,
	COLUMNS = 2,
	HEADING = 80,
};

static const char style[] =
	"text{font:12px system-ui,sans-serif;fill:#1f2328}.small{font-size:11px;fill:#656d76}"
	".title{font-size:17px;font-weight:600}.name{font-weight:600}.suspect{fill:#cf222e}"
	".paper{fill:#fff}.axis{stroke:#d0d7de;stroke-width:1}.band{fill:#0969da;fill-opacity:.15}"
	".line{fill:none;stroke:#0969da;stroke-width:1.5}.dot{fill:#0969da}"
	".fit{fill:none;stroke:#57606a;stroke-width:1.5;stroke-dasharray:6 4}"
	".onset{stroke:#57606a;stroke-width:1;stroke-dasharray:2 3}"
	".leak{stroke:#cf222e}.end{text-anchor:end}"
	"@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}"
	".suspect{fill:#ff7b72}.paper{fill:#0d1117}.axis{stroke:#3d444d}.band{fill:#4493f8}"
	".line{stroke:#4493f8}.dot{fill:#4493f8}.fit,.onset{stroke:#9198a1}.leak{stroke:#ff7b72}}";

static void append_part(struct buffer *out, const char *text, const char *end, size_t max)
{
	for (size_t shown = 0; text < end; shown++) {
		const size_t length = utf8_length(text, (size_t)(end - text));
		if (shown == max) {
			buffer_append_string(out, "…");
			return;
		}
		if (length == 0 || (unsigned char)*text < ' ')
			buffer_append_string(out, UTF8_REPLACEMENT);
		else if (*text == '<')
			buffer_append_string(out, "&lt;");
		else if (*text == '&')
			buffer_append_string(out, "&amp;");
		else if (*text == '"')
			buffer_append_string(out, "&quot;");
		else
			buffer_append(out, text, length);
		text += length == 0 ? 1 : length;
	}
}

static void append_escaped(struct buffer *out, const char *text, size_t max)
{
	append_part(out, text, text + strlen(text), max);
}

static enum quantity_style style_of(const struct trend *trend)
{
	return quantity_style_of(trend->view->kind, trend->view->counter, false);
}

/* "90 min", "3.5 h" or "2.1 d"; "4 profiles" when there are no times. */
static void format_span(const struct trend *trend, double hours, char text[32])
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

/* "+1.7 ± 0.8 MiB/h" */
static struct quantity_error_text format_rate(
	const struct trend *trend, const struct growth *growth)
{
	struct quantity_error_text text = quantity_format_error(
		style_of(trend), growth->rate, (growth->high - growth->low) / 2);

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
		format_span(trend, begin, from);
		format_span(trend, step->hours + step->lasted_hours / 2, to);
		snprintf(text, size, "%s by %s from %s to %s after %s, level since",
			step->size < 0 ? "fell" : "rose",
			quantity_format(quantity, fabs(step->size), false).text,
			begin > 0 ? from : "the start", to, begin > 0 ? "the start" : "it");
		return;
	}
	format_span(trend, step->hours, when);
	format_span(trend, step->lasted_hours, lasted);
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
	format_span(trend, steps[0].hours, from);
	format_span(trend, steps[count - 1].hours, to);
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
			format_span(trend, steps[i].hours, when[i]);
		}
		snprintf(text, size, "two steps of %s and %s, %s and %s after the start", sizes[0],
			sizes[1], when[0], when[1]);
	} else {
		describe_many_steps(trend, steps, count, text, size);
	}
	if (growth->may_go_on)
		strncat(text, "; a later profile tells if it goes on", size - strlen(text) - 1);
}

/* "since 15 h after the start", and from when to when that may have been. */
static void describe_onset(
	const struct trend *trend, const struct growth *growth, char *text, size_t size)
{
	char onset[32], low[32], high[32];

	format_span(trend, growth->onset_hours, onset);
	format_span(trend, growth->onset_low, low);
	format_span(trend, growth->onset_high, high);
	if (growth->onset_low < growth->onset_high)
		snprintf(text, size, "since %s after the start (%s to %s)", onset, low, high);
	else
		snprintf(text, size, "since %s after the start", onset);
}

static void describe_growth(
	const struct trend *trend, const struct growth *growth, struct trend_chart_words *words)
{
	const bool falls = growth->kind == GROWTH_FALL;
	const struct quantity_error_text rate = format_rate(trend, growth);
	char onset[120], period[32], swings[64] = "", steps[200];

	describe_steps(trend, growth, steps, sizeof steps);
	const char *const and = steps[0] == '\0' ? "" : "; and ";
	if (growth->period_hours > 0) {
		format_span(trend, growth->period_hours, period);
		snprintf(swings, sizeof swings, ", below swings of about %s", period);
	}
	if (growth->has_onset) {
		describe_onset(trend, growth, onset, sizeof onset);
		snprintf(words->text, sizeof words->text, "%s %s: %s, still %s%s%s%s",
			falls ? "falls" : "grows", onset, rate.text, falls ? "falling" : "growing",
			swings, and, steps);
	} else if (swings[0] != '\0') {
		snprintf(
			words->text, sizeof words->text, "%s%s%s%s", rate.text, swings, and, steps);
	} else {
		snprintf(words->text, sizeof words->text, "%s, grew in %u of %u intervals%s%s",
			rate.text, growth->rises, growth->intervals, and, steps);
	}
}

static void describe_no_growth(
	const struct trend *trend, const struct trend_site *site, struct trend_chart_words *words)
{
	const struct growth *const growth = &site->growth;
	char steps[200];

	if (growth->may_be_step) {
		describe_steps(trend, growth, steps, sizeof steps);
		snprintf(words->text, sizeof words->text, "%s, or growth (%s)", steps,
			format_rate(trend, growth).text);
		return;
	}
	if (growth->low <= 0 && growth->high >= 0) {
		snprintf(words->text, sizeof words->text, "no growth that stands out (%s)",
			format_rate(trend, growth).text);
		return;
	}
	/* Its rate would be that of a line that it does not follow. */
	double low = INFINITY, high = 0;
	for (size_t i = 0; i < trend->profile_count; i++) {
		low = fmin(low, site->series[i].value);
		high = fmax(high, site->series[i].value);
	}
	snprintf(words->text, sizeof words->text, "no growth beyond its ups and downs (%s to %s)",
		quantity_format(style_of(trend), low, false).text,
		quantity_format(style_of(trend), high, false).text);
}

void curves_describe_runs(const struct trend *trend, struct buffer *out)
{
	if (trend->process_count > 1)
		buffer_printf(out, ", %zu runs of the program", trend->process_count);
	if (trend->reset_count > 0)
		buffer_printf(out, ", samples discarded %zu time%s", trend->reset_count,
			trend->reset_count == 1 ? "" : "s");
}

struct trend_chart_words trend_chart_describe(
	const struct trend *trend, const struct trend_site *site)
{
	const struct growth *const growth = &site->growth;
	struct trend_chart_words words = { "too few profiles to say" };
	char span[32];

	if (!site->has_growth)
		return words;
	switch (growth->kind) {
	case GROWTH_JUMP:
		describe_steps(trend, growth, words.text, sizeof words.text);
		break;
	case GROWTH_CYCLE:
		format_span(trend, growth->period_hours, span);
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

/* Where values and moments go on the paper. */
struct frame {
	double left, top, width, height;
	double hours, max;
};

static double x_of(const struct frame *frame, double hours)
{
	return frame->left + (frame->hours > 0 ? hours / frame->hours : 0) * frame->width;
}

static double y_of(const struct frame *frame, double value)
{
	const double share = frame->max > 0 ? value / frame->max : 0;

	return frame->top + frame->height * (1 - fmin(fmax(share, 0), 1));
}

/* 1, 2, 2.5 or 5 times a power of the unit, at least this; bytes count in powers of 1024. */
static double round_up(double value, bool is_bytes)
{
	static const double steps[] = { 1, 2, 2.5, 4, 5, 8, 10, 20, 25, 40, 50, 80, 100, 200, 250,
		400, 500, 800, 1000 };
	const double base = is_bytes ? 1024 : 1000;
	double unit = 1;

	while (value > unit * base)
		unit *= base;
	for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
		if (steps[i] * unit >= value)
			return steps[i] * unit;
	}
	return base * unit;
}

static struct frame make_frame(
	const struct trend *trend, const struct trend_site *site, double x, double y)
{
	double max = 0;

	for (size_t i = 0; i < trend->profile_count; i++)
		max = fmax(max, estimate_interval(site->series[i]).high);
	return (struct frame){
		.left = x + PLOT_LEFT,
		.top = y + PLOT_TOP,
		.width = CHART_WIDTH - PLOT_LEFT - PLOT_RIGHT,
		.height = CHART_HEIGHT - PLOT_TOP - PLOT_BOTTOM,
		.hours = trend->hours[trend->profile_count - 1],
		.max = round_up(fmax(max, 1), style_of(trend) != QUANTITY_COUNT),
	};
}

static void draw_axes(const struct trend *trend, const struct frame *frame, struct buffer *out)
{
	char span[32];

	for (int i = 0; i <= 2; i++) {
		const double value = frame->max * i / 2, y = y_of(frame, value);
		buffer_printf(out,
			"<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>"
			"<text class=\"small end\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
			frame->left, frame->left + frame->width, y, y, frame->left - 6, y + 4,
			i == 0 ? "0" : quantity_format(style_of(trend), value, false).text);
	}
	format_span(trend, frame->hours, span);
	buffer_printf(out,
		"<text class=\"small\" x=\"%.1f\" y=\"%.1f\">0</text>"
		"<text class=\"small end\" x=\"%.1f\" y=\"%.1f\">%s</text>\n",
		frame->left, frame->top + frame->height + 16, frame->left + frame->width,
		frame->top + frame->height + 16, span);
}

/* The points from `first` to `end` are of one run. */
static void draw_run(const struct trend *trend, const struct trend_site *site,
	const struct frame *frame, size_t first, size_t end, struct buffer *out)
{
	buffer_append_string(out, "<path class=\"band\" d=\"M");
	for (size_t i = first; i < end; i++)
		buffer_printf(out, "%.1f,%.1f ", x_of(frame, trend->hours[i]),
			y_of(frame, estimate_interval(site->series[i]).high));
	for (size_t i = end; i-- > first;)
		buffer_printf(out, "%.1f,%.1f ", x_of(frame, trend->hours[i]),
			y_of(frame, estimate_interval(site->series[i]).low));
	buffer_append_string(out, "Z\"/><path class=\"line\" d=\"M");
	for (size_t i = first; i < end; i++)
		buffer_printf(out, "%.1f,%.1f ", x_of(frame, trend->hours[i]),
			y_of(frame, site->series[i].value));
	buffer_append_string(out, "\"/>\n");
	for (size_t i = first; i < end && trend->profile_count <= 60; i++)
		buffer_printf(out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.5\"/>",
			x_of(frame, trend->hours[i]), y_of(frame, site->series[i].value));
	buffer_append_char(out, '\n');
}

/* Hours of growth up to a moment. */
static double course_at(const struct growth *growth, double hours)
{
	if (growth->kind != GROWTH_STEADY && growth->kind != GROWTH_FALL)
		return 0;
	return growth->has_onset ? fmax(hours - growth->onset_hours, 0) : hours;
}

/* Steps before a moment; SIZE_MAX within one. */
static size_t stretch_at(const struct growth *growth, double hours)
{
	size_t stretch = 0;

	for (size_t i = 0; i < growth->step_count; i++) {
		const struct growth_step *const step = &growth->steps[i];
		if (fabs(hours - step->hours) < 0.499 * step->lasted_hours)
			return SIZE_MAX;
		stretch += step->hours < hours;
	}
	return stretch;
}

static bool has_fit(const struct trend_site *site)
{
	return site->has_growth &&
	       (site->growth.kind == GROWTH_STEADY || site->growth.kind == GROWTH_FALL ||
		       site->growth.kind == GROWTH_JUMP);
}

/* What was fitted to one run: levels, as their points' mean, and the growth beside them. */
static void draw_fit(const struct trend *trend, const struct trend_site *site,
	const struct frame *frame, size_t first, size_t end, struct buffer *out)
{
	const struct growth *const growth = &site->growth;
	double levels[GROWTH_MAX_STEPS + 1] = { 0 };
	size_t counts[GROWTH_MAX_STEPS + 1] = { 0 };

	for (size_t i = first; i < end; i++) {
		const size_t stretch = stretch_at(growth, trend->hours[i]);
		if (stretch == SIZE_MAX)
			continue;
		levels[stretch] +=
			site->series[i].value - growth->rate * course_at(growth, trend->hours[i]);
		counts[stretch]++;
	}
	buffer_printf(out, "<path class=\"fit%s\" d=\"M", site->is_suspect ? " leak" : "");
	for (size_t i = first; i < end; i++) {
		const double hours = trend->hours[i];
		const size_t stretch = stretch_at(growth, hours);
		if (stretch == SIZE_MAX)
			continue;
		const double level = levels[stretch] / (double)counts[stretch];
		buffer_printf(out, "%.1f,%.1f ", x_of(frame, hours),
			y_of(frame, level + growth->rate * course_at(growth, hours)));
	}
	buffer_append_string(out, "\"/>\n");
	if (growth->has_onset && growth->onset_hours >= trend->hours[first] &&
		growth->onset_hours < trend->hours[end - 1])
		buffer_printf(out,
			"<line class=\"onset%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
			"y2=\"%.1f\"/>\n",
			site->is_suspect ? " leak" : "", x_of(frame, growth->onset_hours),
			x_of(frame, growth->onset_hours), frame->top, frame->top + frame->height);
}

/* In two lines, where one is too short. */
static void draw_words(const char *words, double x, double y, struct buffer *out)
{
	enum { LINE = 82 };
	const char *const end = words + strlen(words);
	const char *split = NULL;

	for (const char *at = words; end - words > LINE && at < words + LINE; at++)
		split = *at == ' ' ? at : split;
	buffer_printf(out, "<text class=\"small\" x=\"%.1f\" y=\"%.1f\">", x, y);
	append_part(out, words, split == NULL ? end : split, SIZE_MAX);
	if (split != NULL) {
		buffer_printf(
			out, "</text><text class=\"small\" x=\"%.1f\" y=\"%.1f\">", x, y + 14);
		append_part(out, split + 1, end, SIZE_MAX);
	}
	buffer_append_string(out, "</text>\n");
}

static void draw_site(const struct trend *trend, const struct trend_site *site, double x, double y,
	struct buffer *out)
{
	const struct frame frame = make_frame(trend, site, x, y);
	const size_t max = 62;

	buffer_printf(out, "<g><title>");
	append_escaped(out, site->stack[0] != '\0' ? site->stack : site->name, 2000);
	buffer_printf(out, "</title><text class=\"name%s\" x=\"%.1f\" y=\"%.1f\">",
		site->is_suspect ? " suspect" : "", x + 8, y + 20);
	append_escaped(out, site->name, max);
	buffer_append_string(out, "</text>");
	draw_words(trend_chart_describe(trend, site).text, x + 8, y + 36, out);
	draw_axes(trend, &frame, out);
	for (size_t first = 0, end; first < trend->profile_count; first = end) {
		for (end = first + 1;
			end < trend->profile_count && trend->runs[end] == trend->runs[first]; end++)
			;
		draw_run(trend, site, &frame, first, end, out);
		if (end - first > 1 && has_fit(site))
			draw_fit(trend, site, &frame, first, end, out);
	}
	buffer_append_string(out, "</g>\n");
}

struct trend_chart_words trend_chart_chance(const struct trend_site *site)
{
	const double percent = 100 * site->adjusted_p;
	struct trend_chart_words words = { "" };

	if (!site->has_growth || percent >= 10)
		return words;
	if (percent < 0.01)
		strcpy(words.text, "< 0.01 %");
	else
		snprintf(words.text, sizeof words.text, percent < 1 ? "%.2f %%" : "%.1f %%",
			percent);
	return words;
}

void trend_chart_svg(
	const struct trend *trend, const struct trend_chart_options *options, struct buffer *out)
{
	const size_t charts = 1 + (trend->site_count < options->site_limit ? trend->site_count
									   : options->site_limit);
	const size_t rows = (charts + COLUMNS - 1) / COLUMNS;
	const int width = COLUMNS * CHART_WIDTH, height = HEADING + (int)rows * CHART_HEIGHT;
	char span[32];

	format_span(trend, trend->hours[trend->profile_count - 1], span);
	buffer_printf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
		"height=\"%d\" role=\"img\">\n<style>%s</style>\n"
		"<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n"
		"<text class=\"title\" x=\"8\" y=\"28\">",
		width, height, width, height, style);
	append_escaped(out, options->title, 90);
	buffer_printf(out,
		"</text>\n<text class=\"small\" x=\"8\" y=\"48\">%s by site, %zu profiles over %s",
		quantity_name(trend->view->kind, trend->view->counter), trend->profile_count, span);
	if (options->period[0] != '\0')
		buffer_printf(out, " (%s)", options->period);
	if (options->damaged_count > 0)
		buffer_printf(out, ", %zu damaged and left out", options->damaged_count);
	curves_describe_runs(trend, out);
	buffer_append_string(out,
		"</text>\n<text class=\"small\" x=\"8\" y=\"64\">shaded: 95% interval of each "
		"point; dashed: fitted growth and levels, upright where growth begins; red: "
		"suspected leaks</text>\n");
	draw_site(trend, &trend->total, 0, HEADING, out);
	for (size_t i = 1; i < charts; i++) {
		const size_t column = i % COLUMNS, row = i / COLUMNS;
		draw_site(trend, &trend->sites[i - 1], (double)(column * CHART_WIDTH),
			HEADING + (double)(row * CHART_HEIGHT), out);
	}
	buffer_append_string(out, "</svg>\n");
}

static void append_row(const struct trend *trend, const struct trend_site *site, struct buffer *out)
{
	const double now = site->series[trend->profile_count - 1].value;

	buffer_printf(out, "<tr%s><td>%s</td><td>", site->is_suspect ? " class=\"suspect\"" : "",
		quantity_format(style_of(trend), now, false).text);
	append_escaped(out, trend_chart_describe(trend, site).text, 200);
	buffer_append_string(out, "</td><td>");
	append_escaped(out, trend_chart_chance(site).text, 200);
	buffer_append_string(out, "</td><td>");
	append_escaped(out, site->name, 400);
	buffer_append_string(out, "<br><small>");
	append_escaped(out, site->stack, 2000);
	buffer_append_string(out, "</small></td></tr>\n");
}

void trend_chart_html(
	const struct trend *trend, const struct trend_chart_options *options, struct buffer *out)
{
	buffer_append_string(out,
		"<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
		"style-src 'unsafe-inline'\">\n"
		"<meta name=\"viewport\" content=\"width=device-width\">\n<title>");
	append_escaped(out, options->title, 200);
	buffer_append_string(out,
		" - trend</title>\n<style>body{margin:1.5em auto;max-width:60em;padding:0 1em;"
		"font:14px system-ui,sans-serif;color:#1f2328;background:#fff}svg{max-width:100%;"
		"height:auto}table{border-collapse:collapse;width:100%;margin-top:1em}"
		"td,th{padding:.35em .6em;border-top:1px solid #d0d7de;text-align:left;"
		"vertical-align:top;overflow-wrap:anywhere}th{white-space:nowrap}"
		"small{color:#656d76}"
		"td:first-child,td:nth-child(3){white-space:nowrap}td:first-child{text-align:right}"
		"td:nth-child(2){min-width:15em}"
		".suspect td{color:#cf222e}@media(prefers-color-scheme:dark){body{color:#e6edf3;"
		"background:#0d1117}td,th{border-color:#3d444d}small{color:#9198a1}"
		".suspect td{color:#ff7b72}}</style></head>\n<body>\n");
	trend_chart_svg(trend, options, out);
	buffer_append_string(
		out, "<table><tr><th>now</th><th>growth</th><th>chance</th><th>site</th></tr>\n");
	for (size_t i = 0; i < trend->site_count && i < 200; i++)
		append_row(trend, &trend->sites[i], out);
	buffer_append_string(out, "</table>\n</body></html>\n");
}
