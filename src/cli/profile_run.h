/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timed runs as a client sees them: started, watched, ended early, saved. A run belongs to the
 * agent and ends on time whatever happens here.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "client/target.h"
#include "cli/output.h"

struct profile_run_request {
	int64_t duration_ms;
	int lg_sample; /* for the run, see cli/sample_interval.h; SAMPLE_LG_KEEP: as it is */
};

/*
 * Starts one, or tells of the one that is on: "already_running" in it. Sampling that is on stays
 * on: "was_active". Release with json_decref.
 */
MUST_CHECK bool profile_run_start(const struct target *target,
	const struct profile_run_request *request, json_t **run, struct error *err);

/* One that is ours. */
struct profile_run {
	int64_t id;
	bool was_active;	 /* sampling was on before, and stays on */
	bool was_reset;		 /* it has an interval of its own: no older samples */
	int64_t allocated_bytes; /* by the program at its start */
	int64_t begun_ms;	 /* clock_monotonic_ms */
};

/* The same, but a run that is on already is ERROR_STATE. */
MUST_CHECK bool profile_run_start_own(const struct target *target,
	const struct profile_run_request *request, struct profile_run *run, struct error *err);

MUST_CHECK bool profile_run_stop(const struct target *target, json_t **run, struct error *err);

/*
 * Waits until the run is over, with a progress bar; an interrupt ends it early
 * (terminal_catch_interrupts was called). ERROR_STATE when it failed.
 */
MUST_CHECK bool profile_run_wait(const struct target *target, int64_t id, int64_t duration_ms,
	const char *what, struct error *err);

/* Saves the profile at the run's end ("profile") or start ("start"). */
MUST_CHECK bool profile_run_save(const struct target *target, int64_t id, const char *which,
	struct output *output, struct error *err);
