/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verbs.h"

/* In the order of the overview: look, control, read, serve. */
const struct verb *const verbs[] = {
	&verb_run,
	&verb_ps,
	&verb_status,
	&verb_activate,
	&verb_deactivate,
	&verb_dump,
	&verb_stats,
	&verb_account,
	&verb_start,
	&verb_stop,
	&verb_runs,
	&verb_record,
	&verb_longlived,
	&verb_watch,
	&verb_top,
	&verb_mallctl,
	&verb_doctor,
	&verb_report,
	&verb_diff,
	&verb_trend,
	&verb_serve,
	&verb_render_worker,
	&verb_completion,
	&verb_man,
	NULL,
};
