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

/* All but those that other programs read. */
static bool shows_units(const struct report_options *options)
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

	if (options->render.unit != RENDER_UNIT_DEFAULT && !shows_units(options))
		return error_set(err, ERROR_USAGE,
			"--unit goes with text reports, call graphs, source and assembly");
	return quantity_check_unit(session->profiles[0]->kind, options->render.unit, err);
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
	return check_unit(session, err) &&
	       (!session->options->render.mean || check_mean(session, err));
}
