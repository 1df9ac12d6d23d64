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
	return style != QUANTITY_COUNT ||
	       error_set(err, ERROR_USAGE,
		       "a mean is of bytes or times, and these figures are counts");
}

bool report_figures_check(const struct report_session *session, struct error *err)
{
	const struct render_options *const render = &session->options->render;

	return quantity_check_unit(session->profiles[0]->kind, render->unit, err) &&
	       (!render->mean || check_mean(session, err));
}
