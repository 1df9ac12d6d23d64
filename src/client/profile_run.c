/* SPDX-License-Identifier: Apache-2.0 */
#include "client/profile_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/units.h"
#include "client/agent_client.h"

static bool start_after(const struct target *target, const struct profile_run_request *request,
	const json_t *status, json_t **run, struct error *err)
{
	char path[128], lg_sample[32] = "";

	if (request->lg_sample != SAMPLE_LG_KEEP)
		snprintf(lg_sample, sizeof lg_sample, "&lg_sample=%d", request->lg_sample);
	snprintf(path, sizeof path, "/v1/runs?duration_ms=%" PRId64 "%s%s", request->duration_ms,
		json_flag(status, "profiling.active") ? "&keep_active=true" : "", lg_sample);
	return agent_call_json(target, "POST", path, run, err);
}

bool profile_run_start(const struct target *target, const struct profile_run_request *request,
	json_t **run, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	return agent_check_profiling(target, &status, err) &&
	       start_after(target, request, status, run, err);
}

bool profile_run_start_own(const struct target *target, const struct profile_run_request *request,
	struct profile_run *own, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;
	CLEANUP(json_cleanup) json_t *run = NULL;
	char left[DURATION_TEXT_BYTES];

	if (!agent_check_profiling(target, &status, err) ||
		!start_after(target, request, status, &run, err))
		return false;
	if (json_flag(run, "already_running")) {
		error_set(err, ERROR_STATE, "%s: run %" PRId64 " is on already, with %s left",
			target->label, json_number(run, "id"),
			duration_format(json_number(run, "remaining_ms"), left));
		return target->process.pid > 0
			       ? error_hint(err, "wait for it, or end it with heapctl stop %d",
					 (int)target->process.pid)
			       : error_hint(err, "wait for it, or end it with heapctl stop TARGET");
	}
	*own = (struct profile_run){ .id = json_number(run, "id"),
		.was_active = json_flag(run, "was_active"),
		.was_reset = request->lg_sample != SAMPLE_LG_KEEP,
		.allocated_bytes = json_number(status, "memory.allocated"),
		.begun_ms = clock_monotonic_ms() };
	return true;
}

bool profile_run_stop(const struct target *target, json_t **run, struct error *err)
{
	return agent_call_json(target, "POST", "/v1/runs/stop", run, err);
}

bool profile_run_check_outcome(const struct target *target, const json_t *run, struct error *err)
{
	const char *const why = json_text(run, "error");

	if (strcmp(json_text(run, "state"), "failed") != 0)
		return true;
	return error_set(err, ERROR_STATE, "%s: the run failed%s%s", target->label,
		*why == '\0' ? "" : ": ", why);
}

bool profile_run_poll(const struct target *target, int64_t id, bool *has_ended, struct error *err)
{
	CLEANUP(json_cleanup) json_t *run = NULL;
	char path[64];

	snprintf(path, sizeof path, "/v1/runs/%" PRId64, id);
	if (!agent_call_json(target, "GET", path, &run, err))
		return false;
	*has_ended = strcmp(json_text(run, "state"), "running") != 0;
	return !*has_ended || profile_run_check_outcome(target, run, err);
}
