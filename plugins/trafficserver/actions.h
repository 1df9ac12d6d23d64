/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each message does, on the worker's thread. Every action leaves one line that tells its
 * outcome, and returns false when it failed.
 */
#pragma once

#include "trafficserver/worker.h"

bool actions_activate(void);
bool actions_deactivate(void);
bool actions_dump(struct worker *worker);
bool actions_stats(void);
bool actions_status(void);
bool actions_start(struct worker *worker, const char *duration);
bool actions_stop(struct worker *worker);
bool actions_reset(const char *lg_sample);

/* Writes the profile of the run that was started here, if it has ended. True when there is none. */
bool actions_finish_run(struct worker *worker);
