/* SPDX-License-Identifier: Apache-2.0 */
#include "render/render_trend.h"

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

#define HOUR_MS 3600000.0

static const char style[] =
	"text{font:12px system-ui,sans-serif;fill:#1f2328}.small{font-size:11px;fill:#656d76}"
	".title{font-size:17px;font-weight:600}.name{font-weight:600}.suspect{fill:#cf222e}"
	".paper{fill:#fff}.axis{stroke:#d0d7de;stroke-width:1}.band{fill:#0969da;fill-opacity:.15}"
	".line{fill:none;stroke:#0969da;stroke-width:1.5}.dot{fill:#0969da}"
	".fit{fill:none;stroke:#57606a;stroke-width:1.5;stroke-dasharray:6 4}"
	".onset{stroke:#57606a;stroke-width:1;stroke-dasharray:2 3}"
	".note{stroke:#8250df;stroke-width:1}.note-text{font-size:11px;fill:#8250df}"
	".leak{stroke:#cf222e}.end{text-anchor:end}"
	"@media(prefers-color-scheme:dark){text{fill:#e6edf3}.small{fill:#9198a1}"
	".suspect{fill:#ff7b72}.paper{fill:#0d1117}.axis{stroke:#3d444d}.band{fill:#4493f8}"
	".line{stroke:#4493f8}.dot{fill:#4493f8}.fit,.onset{stroke:#9198a1}.leak{stroke:#ff7b72}"
	".note{stroke:#ab7df8}.note-text{fill:#ab7df8}}";

static const char page_style[] =
	"body{margin:1.5em auto;max-width:60em;padding:0 1em;font:14px system-ui,sans-serif;"
	"color:#1f2328;background:#fff}h1{font-size:17px}small,td.chance{color:#656d76}"
	".charts{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24em),1fr));"
	"gap:1.2em}figure{margin:0;min-width:0;display:flex;flex-direction:column;"
	"justify-content:space-between}figcaption{overflow-wrap:anywhere}"
	"svg{display:block;width:100%;height:auto}"
	"table{border-collapse:collapse;width:100%;margin-top:1em}"
	"td,th{padding:.35em .6em;border-top:1px solid #d0d7de;text-align:left;"
	"vertical-align:top;overflow-wrap:anywhere}th,td:first-child,td.chance{white-space:nowrap}"
	"td:first-child{text-align:right}td:nth-child(2){min-width:15em}"
	"td:last-child{min-width:14em}"
	"b.suspect,.suspect td{color:#cf222e}"
	"@media(max-width:600px){tr:first-child{display:none}td{display:block;border:0;"
	"padding:.1em 0}td:first-child{text-align:left;font-weight:600}td:empty{display:none}"
	"td.chance::before{content:'chance '}"
	"tr{display:block;padding:.6em 0;border-top:1px solid #d0d7de}}"
	"@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}"
	"td,th,tr{border-color:#3d444d}small,td.chance{color:#9198a1}"
	"b.suspect,.suspect td{color:#ff7b72}}";

/* At most `max` characters of it. */
static void append_part(struct buffer *out, const char *text, const char *end, size_t max)
{
	const char *at = text;

	for (size_t shown = 0; at < end && shown < max; shown++) {
		const size_t length = utf8_length(at, (size_t)(end - at));
		at += length == 0 ? 1 : length;
	}
	utf8_append_markup(out, text, (size_t)(at - text));
	if (at < end)
		buffer_append_string(out, "…");
}

static void append_escaped(struct buffer *out, const char *text, size_t max)
{
	append_part(out, text, text + strlen(text), max);
}

static enum quantity_style style_of(const struct trend *trend)
{
	return quantity_style_of(trend->view->kind, trend->view->counter, false);
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
	trend_format_span(trend, frame->hours, span);
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
	const double grown = growth->has_end ? fmin(hours, growth->end_hours) : hours;
	return growth->has_onset ? fmax(grown - growth->onset_hours, 0) : grown;
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

/* When growth began or ended. */
static void draw_moment(
	const struct trend_site *site, const struct frame *frame, double hours, struct buffer *out)
{
	buffer_printf(out,
		"<line class=\"onset%s\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\"/>\n",
		site->is_suspect ? " leak" : "", x_of(frame, hours), x_of(frame, hours), frame->top,
		frame->top + frame->height);
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
		draw_moment(site, frame, growth->onset_hours, out);
	if (growth->has_end && growth->end_hours >= trend->hours[first] &&
		growth->end_hours < trend->hours[end - 1])
		draw_moment(site, frame, growth->end_hours, out);
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

/* Above the plot; `texts`: with those that have room. */
static void draw_notes(const struct trend *trend, const struct trend_notes *notes,
	const struct frame *frame, bool texts, struct buffer *out)
{
	enum { CHARACTERS = 16, CHARACTER_WIDTH = 6 };
	double free_from = frame->left;

	for (size_t i = 0; notes != NULL && i < notes->count; i++) {
		const struct trend_note *const note = &notes->items[i];
		const double hours = (double)(note->time_ms - trend->first_ms) / HOUR_MS;
		const double x = x_of(frame, hours);
		const double width = CHARACTERS * CHARACTER_WIDTH;
		const bool is_left = x + width > frame->left + frame->width;

		buffer_printf(out, "<g><title>note: ");
		append_escaped(out, note->text, SIZE_MAX);
		buffer_printf(out,
			"</title><line class=\"note\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" "
			"y2=\"%.1f\"/>",
			x, x, frame->top - 8, frame->top + frame->height);
		if (texts && (is_left ? x - width : x) >= free_from) {
			buffer_printf(out, "<text class=\"note-text%s\" x=\"%.1f\" y=\"%.1f\">",
				is_left ? " end" : "", is_left ? x - 3 : x + 3, frame->top - 1);
			append_escaped(out, note->text, CHARACTERS);
			buffer_append_string(out, "</text>");
			free_from = is_left ? frame->left + frame->width : x + width;
		}
		buffer_append_string(out, "</g>\n");
	}
}

/* With its axes, the upper left corner of its chart at a point of the paper. */
static void draw_plot(const struct trend *trend, const struct trend_chart_options *options,
	const struct trend_site *site, double x, double y, struct buffer *out)
{
	const struct frame frame = make_frame(trend, site, x, y);

	draw_axes(trend, &frame, out);
	draw_notes(trend, options->notes, &frame, site == &trend->total, out);
	for (size_t first = 0, end; first < trend->profile_count; first = end) {
		for (end = first + 1;
			end < trend->profile_count && trend->runs[end] == trend->runs[first]; end++)
			;
		draw_run(trend, site, &frame, first, end, out);
		if (end - first > 1 && has_fit(site))
			draw_fit(trend, site, &frame, first, end, out);
	}
}

static const char *title_of(const struct trend_site *site)
{
	return site->stack[0] != '\0' ? site->stack : site->name;
}

static void draw_site(const struct trend *trend, const struct trend_chart_options *options,
	const struct trend_site *site, double x, double y, struct buffer *out)
{
	const size_t max = 62;

	buffer_printf(out, "<g><title>");
	append_escaped(out, title_of(site), 2000);
	buffer_printf(out, "</title><text class=\"name%s\" x=\"%.1f\" y=\"%.1f\">",
		site->is_suspect ? " suspect" : "", x + 8, y + 20);
	append_escaped(out, site->name, max);
	buffer_append_string(out, "</text>");
	draw_words(trend_describe_growth(trend, site).text, x + 8, y + 36, out);
	draw_plot(trend, options, site, x, y, out);
	buffer_append_string(out, "</g>\n");
}

/* Of the total and the sites that are shown. */
static size_t chart_count(const struct trend *trend, const struct trend_chart_options *options)
{
	return 1 +
	       (trend->site_count < options->site_limit ? trend->site_count : options->site_limit);
}

static const struct trend_site *site_of_chart(const struct trend *trend, size_t at)
{
	return at == 0 ? &trend->total : &trend->sites[at - 1];
}

static void append_summary(
	const struct trend *trend, const struct trend_chart_options *options, struct buffer *out)
{
	char span[32];

	trend_format_span(trend, trend->hours[trend->profile_count - 1], span);
	buffer_printf(out, "%s by site, %zu profiles over %s",
		quantity_name(trend->view->kind, trend->view->counter), trend->profile_count, span);
	if (options->period[0] != '\0')
		buffer_printf(out, " (%s)", options->period);
	if (options->damaged_count > 0)
		buffer_printf(out, ", %zu damaged and left out", options->damaged_count);
	trend_append_runs(trend, out);
}

static const char legend[] =
	"shaded: 95% interval of each point; dashed: fitted growth and levels, upright where "
	"growth begins or ends; red: suspected leaks; violet: notes";

void trend_chart_svg(
	const struct trend *trend, const struct trend_chart_options *options, struct buffer *out)
{
	const size_t charts = chart_count(trend, options);
	const size_t rows = (charts + COLUMNS - 1) / COLUMNS;
	const int width = COLUMNS * CHART_WIDTH, height = HEADING + (int)rows * CHART_HEIGHT;

	buffer_printf(out,
		"<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
		"height=\"%d\" role=\"img\">\n<style>%s</style>\n"
		"<rect class=\"paper\" width=\"100%%\" height=\"100%%\"/>\n"
		"<text class=\"title\" x=\"8\" y=\"28\">",
		width, height, width, height, style);
	append_escaped(out, options->title, 90);
	buffer_append_string(out, "</text>\n<text class=\"small\" x=\"8\" y=\"48\">");
	append_summary(trend, options, out);
	buffer_printf(out, "</text>\n<text class=\"small\" x=\"8\" y=\"64\">%s</text>\n", legend);
	for (size_t i = 0; i < charts; i++) {
		const size_t row = i / COLUMNS, column = i % COLUMNS;
		draw_site(trend, options, site_of_chart(trend, i), (double)column * CHART_WIDTH,
			HEADING + (double)row * CHART_HEIGHT, out);
	}
	buffer_append_string(out, "</svg>\n");
}

/* Words beside the picture keep their size where the screen is narrow. */
static void append_figure(const struct trend *trend, const struct trend_chart_options *options,
	const struct trend_site *site, struct buffer *out)
{
	const int top = PLOT_TOP - 12;

	buffer_append_string(out, "<figure title=\"");
	append_escaped(out, title_of(site), 2000);
	buffer_printf(out, "\"><figcaption><b%s>", site->is_suspect ? " class=\"suspect\"" : "");
	append_escaped(out, site->name, 400);
	buffer_append_string(out, "</b><br><small>");
	append_escaped(out, trend_describe_growth(trend, site).text, SIZE_MAX);
	buffer_printf(out,
		"</small></figcaption><svg viewBox=\"0 %d %d %d\" role=\"img\" aria-label=\"", top,
		CHART_WIDTH, CHART_HEIGHT - top);
	append_escaped(out, site->name, 400);
	buffer_append_string(out, "\">\n");
	draw_plot(trend, options, site, 0, 0, out);
	buffer_append_string(out, "</svg></figure>\n");
}

static void append_row(const struct trend *trend, const struct trend_site *site, struct buffer *out)
{
	const double now = site->series[trend->profile_count - 1].value;

	buffer_printf(out, "<tr%s><td>%s</td><td>", site->is_suspect ? " class=\"suspect\"" : "",
		quantity_format(style_of(trend), now, false).text);
	append_escaped(out, trend_describe_growth(trend, site).text, SIZE_MAX);
	buffer_append_string(out, "</td><td class=\"chance\">");
	append_escaped(out, trend_describe_chance(site).text, 200);
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
		"<meta name=\"viewport\" content=\"width=device-width, "
		"initial-scale=1\">\n<title>");
	append_escaped(out, options->title, 200);
	buffer_printf(out, " - trend</title>\n<style>%s\n%s</style></head>\n<body>\n<h1>", style,
		page_style);
	append_escaped(out, options->title, 200);
	buffer_append_string(out, "</h1>\n<p><small>");
	append_summary(trend, options, out);
	buffer_printf(out, "<br>%s</small></p>\n<div class=\"charts\">\n", legend);
	for (size_t i = 0; i < chart_count(trend, options); i++)
		append_figure(trend, options, site_of_chart(trend, i), out);
	buffer_append_string(out, "</div>\n<table><tr><th>now</th><th>growth</th><th>chance</th>"
				  "<th>site</th></tr>\n");
	for (size_t i = 0; i < trend->site_count && i < 200; i++)
		append_row(trend, &trend->sites[i], out);
	buffer_append_string(out, "</table>\n</body></html>\n");
}
