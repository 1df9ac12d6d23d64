/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every verb. Each is defined in the file of its name; those that belong together share one:
 * activate and deactivate (switch.c), start and stop (start.c), report and diff (report.c).
 */
#pragma once

#include "cli/verb.h"

extern const struct verb verb_account;
extern const struct verb verb_activate;
extern const struct verb verb_completion;
extern const struct verb verb_deactivate;
extern const struct verb verb_diff;
extern const struct verb verb_doctor;
extern const struct verb verb_dump;
extern const struct verb verb_longlived;
extern const struct verb verb_mallctl;
extern const struct verb verb_man;
extern const struct verb verb_ps;
extern const struct verb verb_record;
extern const struct verb verb_render_worker;
extern const struct verb verb_report;
extern const struct verb verb_run;
extern const struct verb verb_runs;
extern const struct verb verb_serve;
extern const struct verb verb_start;
extern const struct verb verb_stats;
extern const struct verb verb_status;
extern const struct verb verb_stop;
extern const struct verb verb_top;
extern const struct verb verb_trend;
extern const struct verb verb_watch;
