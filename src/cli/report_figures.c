/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/report_figures.h"

#include <string.h>

#include "render/quantity.h"

/* The shell refuses single commands by itself. */
static bool shows_means(const struct report_options *options)
{
	return options->output == REPORT_INTERACTIVE ||
	       (options->output == REPORT_RENDER && strcmp(options->renderer->name, "text") == 0);
}

/* Units and shares: all but what other programs, or a page, work out themselves. */
static bool prints_figures(const struct report_options *options)
{
	static const char *const others[] = { "collapsed", "callgrind", "flame", "flame-data",
		"json", "rows" };

	if (options->output == REPORT_RAW || options->output == REPORT_PPROF)
		return false;
	for (size_t i = 0; options->output == REPORT_RENDER && i < sizeof others / sizeof *others;
		i++) {
		if (strcmp(options->renderer->name, others[i]) == 0)
			return false;
	}
	return true;
}

static bool check_unit(const struct report_session *session, struct error *err)
{
	const struct report_options *const options = session->options;

	if (options->render.unit != RENDER_UNIT_DEFAULT && !prints_figures(options))
		return error_set(err, ERROR_USAGE,
			"--unit goes with text reports, call graphs, source and assembly");
	return quantity_check_unit(session->profiles[0]->kind, options->render.unit, err);
}

static bool check_shares(const struct report_session *session, struct error *err)
{
	const struct report_options *const options = session->options;

	if (options->relative_percentages)
		return true;
	if (!prints_figures(options))
		return error_set(err, ERROR_USAGE,
			"--no-relative-percentages goes with text reports, call graphs, source and "
			"assembly");
	return session->base_count == 0 ||
	       error_set(err, ERROR_USAGE,
		       "shares of a difference are of all its changes: leave out "
		       "--no-relative-percentages");
}

/* Profiles for other programs are as they were taken. */
static bool check_divisor(const struct report_options *options, struct error *err)
{
	if (options->divide_by == 1 ||
		(options->output != REPORT_RAW && options->output != REPORT_PPROF))
		return true;
	return error_set(err, ERROR_USAGE,
		"--divide-by goes with reports and pictures: a profile "
		"keeps its figures");
}

static bool check_mean(const struct report_session *session, struct error *err)
{
	const struct report_options *const options = session->options;
	const enum quantity_style style = quantity_style_of(
		session->profiles[0]->kind, report_session_counter(session), false);

	if (!shows_means(options))
		return error_set(err, ERROR_USAGE, "--mean goes with --text alone");
	if (options->render.confidence)
		return error_set(err, ERROR_USAGE, "a mean has no errors: leave out --confidence");
	if (session->base_count != 0 || options->fragmentation)
		return error_set(err, ERROR_USAGE, "there is no mean of %s",
			options->fragmentation ? "--fragmentation" : "a difference");
	if (options->mean_delay && session->profiles[0]->kind == PROFILE_CONTENTION)
		return error_set(err, ERROR_USAGE,
			"--mean_delay sums up means: leave out --mean_delay, or --mean");
	return style != QUANTITY_COUNT ||
	       error_set(err, ERROR_USAGE,
		       "a mean is of bytes or times, and these figures are counts");
}

bool report_figures_check(const struct report_session *session, struct error *err)
{
	return check_unit(session, err) && check_shares(session, err) &&
	       check_divisor(session->options, err) &&
	       (!session->options->render.mean || check_mean(session, err));
}
