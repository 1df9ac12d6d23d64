/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timed runs from the client's side: start, poll, stop. A run belongs to the agent and ends on time
 * even if this process ends.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "client/target.h"

enum { SAMPLE_LG_KEEP = -1 };

struct profile_run_request {
	int64_t duration_ms;
	int lg_sample; /* logarithm of the sampling interval; SAMPLE_LG_KEEP: as it is */
};

/*
 * Starts one, or reports the one that is on: "already_running" in it. Sampling that is on stays
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

/* Whether the run has ended; ERROR_STATE when it failed. */
MUST_CHECK bool profile_run_poll(
	const struct target *target, int64_t id, bool *has_ended, struct error *err);

/* ERROR_STATE, with the agent's reason, when this ended run failed. */
MUST_CHECK bool profile_run_check_outcome(
	const struct target *target, const json_t *run, struct error *err);
