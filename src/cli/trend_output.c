/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/trend_output.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/unsample.h"
#include "base/json_writer.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/terminal.h"
#include "render/quantity.h"

static enum quantity_style style_of(const struct trend *trend)
{
	return quantity_style_of(trend->view->kind, trend->view->counter, false);
}

static void write_steps_json(struct json_writer *json, const struct growth *growth)
{
	json_key(json, "steps");
	json_array_begin(json);
	for (size_t i = 0; i < growth->step_count; i++) {
		json_object_begin(json);
		json_member_real(json, "hours", growth->steps[i].hours);
		json_member_real(json, "size", growth->steps[i].size);
		json_member_real(json, "lasted_hours", growth->steps[i].lasted_hours);
		json_member_bool(json, "is_gradual", growth->steps[i].is_gradual);
		json_member_bool(json, "is_of_onset", growth->steps[i].is_of_onset);
		json_object_end(json);
	}
	json_array_end(json);
}

static void write_shape_json(struct json_writer *json, const struct growth *growth)
{
	json_member_bool(json, "may_be_step", growth->may_be_step);
	json_member_bool(json, "may_go_on", growth->may_go_on);
	if (growth->has_onset) {
		json_member_real(json, "onset_hours", growth->onset_hours);
		json_key(json, "onset_interval95");
		json_array_begin(json);
		json_put_real(json, growth->onset_low);
		json_put_real(json, growth->onset_high);
		json_array_end(json);
	}
	if (growth->step_count > 0)
		write_steps_json(json, growth);
	if (growth->kind == GROWTH_JUMP) {
		const struct growth_step *const jump = growth_largest_step(growth);
		json_member_real(json, "jump", jump->size);
		json_member_real(json, "jump_hours", jump->hours);
		json_member_real(json, "jump_lasted_hours", jump->lasted_hours);
	}
}

static void write_growth_json(struct json_writer *json, const struct trend_site *site)
{
	const struct growth *const growth = &site->growth;

	json_member_string(json, "kind", trend_site_kind(site));
	json_member_bool(json, "is_suspect", site->is_suspect);
	if (!site->has_growth)
		return;
	json_member_real(json, "rate_per_hour", growth->rate);
	json_key(json, "interval95");
	json_array_begin(json);
	json_put_real(json, growth->low);
	json_put_real(json, growth->high);
	json_array_end(json);
	json_member_real(json, "p", growth->p);
	json_member_real(json, "adjusted_p", site->adjusted_p);
	json_member_unsigned(json, "rises", growth->rises);
	json_member_unsigned(json, "intervals", growth->intervals);
	write_shape_json(json, growth);
	if (growth->period_hours > 0)
		json_member_real(json, "period_hours", growth->period_hours);
}

static void write_site_json(
	struct json_writer *json, const struct trend *trend, const struct trend_site *site)
{
	json_object_begin(json);
	json_member_string(json, "name", site->name);
	json_member_string(json, "stack", site->stack);
	write_growth_json(json, site);
	json_key(json, "values");
	json_array_begin(json);
	for (size_t i = 0; i < trend->profile_count; i++)
		json_put_real(json, site->series[i].value);
	json_array_end(json);
	json_key(json, "standard_errors");
	json_array_begin(json);
	for (size_t i = 0; i < trend->profile_count; i++)
		json_put_real(json, sqrt(site->series[i].variance));
	json_array_end(json);
	json_object_end(json);
}

static void write_json(
	const struct trend *trend, const struct trend_chart_options *options, struct buffer *out)
{
	struct json_writer json;

	json_init(&json, out);
	json_object_begin(&json);
	json_member_string(&json, "title", options->title);
	json_member_bool(&json, "has_times", trend->has_times);
	json_member_integer(&json, "first_ms", trend->has_times ? trend->first_ms : 0);
	json_key(&json, "hours");
	json_array_begin(&json);
	for (size_t i = 0; i < trend->profile_count; i++)
		json_put_real(&json, trend->hours[i]);
	json_array_end(&json);
	json_key(&json, "runs");
	json_array_begin(&json);
	for (size_t i = 0; i < trend->profile_count; i++)
		json_put_unsigned(&json, trend->runs[i]);
	json_array_end(&json);
	json_key(&json, "total");
	write_site_json(&json, trend, &trend->total);
	json_key(&json, "sites");
	json_array_begin(&json);
	for (size_t i = 0; i < trend->site_count && i < options->site_limit; i++)
		write_site_json(&json, trend, &trend->sites[i]);
	json_array_end(&json);
	json_member_unsigned(&json, "site_count", trend->site_count);
	json_member_unsigned(&json, "left_out", trend->left_out);
	json_member_unsigned(&json, "damaged", options->damaged_count);
	json_object_end(&json);
	buffer_append_char(out, '\n');
}

void trend_output_period(const struct trend *trend, char text[TREND_PERIOD_BYTES])
{
	char from[CONTROL_MOMENT_BYTES], to[CONTROL_MOMENT_BYTES];

	text[0] = '\0';
	if (trend->has_times)
		snprintf(text, TREND_PERIOD_BYTES, "%s to %s",
			control_moment(trend->first_ms, from), control_moment(trend->last_ms, to));
}

static void write_head(
	const struct trend *trend, const struct trend_chart_options *options, struct buffer *out)
{
	const size_t last = trend->profile_count - 1;

	CLEANUP(free_cleanup) char *title = terminal_copy(options->title);
	buffer_printf(
		out, "%s: %zu profiles", title[0] == '\0' ? "?" : title, trend->profile_count);
	if (options->period[0] != '\0')
		buffer_printf(out, ", %s", options->period);
	if (options->damaged_count > 0)
		buffer_printf(out, ", %zu damaged and left out", options->damaged_count);
	curves_describe_runs(trend, out);
	buffer_printf(out, "\n%s: first %s, last %s; %s\n",
		quantity_name(trend->view->kind, trend->view->counter),
		quantity_format(style_of(trend), trend->total.series[0].value, false).text,
		quantity_format(style_of(trend), trend->total.series[last].value, false).text,
		trend_chart_describe(trend, &trend->total).text);
}

static void write_sites(const struct trend *trend, size_t first, size_t end, struct buffer *out)
{
	for (size_t i = first; i < end; i++) {
		const struct trend_site *const site = &trend->sites[i];
		const double now = site->series[trend->profile_count - 1].value;
		const struct trend_chart_words chance = trend_chart_chance(site);
		buffer_printf(out, "%12s  %-6s %-8s %s: %s\n",
			quantity_format(style_of(trend), now, false).text,
			chance.text[0] == '\0' ? "" : "chance", chance.text, site->name,
			trend_chart_describe(trend, site).text);
		if (site->is_suspect && strcmp(site->stack, site->name) != 0)
			buffer_printf(out, "%29s %s\n", "", site->stack);
	}
}

static void write_text(
	const struct trend *trend, const struct trend_chart_options *options, struct buffer *out)
{
	const size_t shown =
		trend->site_count < options->site_limit ? trend->site_count : options->site_limit;
	size_t suspects = 0;

	write_head(trend, options, out);
	while (suspects < trend->site_count && trend->sites[suspects].is_suspect)
		suspects++;
	buffer_printf(out, "\n%s\n",
		suspects == 0 ? "No site is suspected to leak."
			      : "Suspected leaks, the surest first (now, chance, growth):");
	write_sites(trend, 0, suspects < shown ? suspects : shown, out);
	if (shown > suspects) {
		buffer_append_string(out, "\nOther sites:\n");
		write_sites(trend, suspects, shown, out);
	}
	if (trend->site_count > shown)
		buffer_printf(out, "%zu more sites (--top=N, --json)\n", trend->site_count - shown);
	if (trend->left_out != 0)
		buffer_printf(out, "%zu small sites are left out\n", trend->left_out);
}

void trend_output_write(const struct trend *trend, enum trend_output output,
	const struct trend_chart_options *options, struct buffer *out)
{
	switch (output) {
	case TREND_OUTPUT_TEXT:
		write_text(trend, options, out);
		break;
	case TREND_OUTPUT_JSON:
		write_json(trend, options, out);
		break;
	case TREND_OUTPUT_SVG:
		trend_chart_svg(trend, options, out);
		break;
	case TREND_OUTPUT_HTML:
		trend_chart_html(trend, options, out);
		break;
	}
}
