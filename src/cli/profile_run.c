/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/profile_run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/duration.h"
#include "cli/control.h"
#include "cli/sample_interval.h"
#include "cli/terminal.h"

/* How often the bar moves; how often the agent is asked, on the way and when it should be over. */
enum {
	TICK_MS = 200,
	LOOK_MS = 2000,
	OVERDUE_MS = 250,
	PATIENCE_MS = 30 * 1000,
};

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

static bool check_outcome(const struct target *target, const json_t *run, struct error *err)
{
	const char *const why = json_text(run, "error");

	if (strcmp(json_text(run, "state"), "failed") != 0)
		return true;
	return error_set(err, ERROR_STATE, "%s: the run failed%s%s", target->label,
		*why == '\0' ? "" : ": ", why);
}

/* Asks the agent; *is_over when the run is. */
static bool look(const struct target *target, int64_t id, bool *is_over, struct error *err)
{
	CLEANUP(json_cleanup) json_t *run = NULL;
	char path[64];

	snprintf(path, sizeof path, "/v1/runs/%" PRId64, id);
	if (!agent_call_json(target, "GET", path, &run, err))
		return false;
	*is_over = strcmp(json_text(run, "state"), "running") != 0;
	return !*is_over || check_outcome(target, run, err);
}

static bool stop_early(const struct target *target, int64_t id, struct error *err)
{
	CLEANUP(json_cleanup) json_t *run = NULL;
	bool is_over = false;

	terminal_progress_end();
	fputs("heapctl: interrupted: ending the run now and saving what is there\n", stderr);
	/* It may have ended by itself since, or another client may have ended it. */
	if (!look(target, id, &is_over, err))
		return false;
	if (is_over)
		return true;
	if (profile_run_stop(target, &run, err))
		return check_outcome(target, run, err);
	struct error other;
	return err->kind == ERROR_STATE && look(target, id, &is_over, &other) && is_over;
}

bool profile_run_wait(const struct target *target, int64_t id, int64_t duration_ms,
	const char *what, struct error *err)
{
	const int64_t start_ms = clock_monotonic_ms();
	int64_t next_look_ms = duration_ms > LOOK_MS ? LOOK_MS : duration_ms;
	bool is_over = false, ok = true;

	while (ok && !is_over) {
		const int64_t done_ms = clock_monotonic_ms() - start_ms;
		if (terminal_was_interrupted())
			return stop_early(target, id, err);
		if (done_ms > duration_ms + PATIENCE_MS) {
			error_set(err, ERROR_TIMEOUT, "%s: the run should be over since %d s",
				target->label, PATIENCE_MS / 1000);
			ok = error_hint(err, "heapctl runs shows its state");
			break;
		}
		terminal_progress(what, done_ms, duration_ms);
		if (done_ms < next_look_ms) {
			const int64_t left_ms = next_look_ms - done_ms;
			terminal_sleep_ms(left_ms < TICK_MS ? left_ms : TICK_MS);
			continue;
		}
		/* Now and then before the end, to learn early when the target is gone. */
		ok = look(target, id, &is_over, err);
		next_look_ms = done_ms + LOOK_MS < duration_ms ? done_ms + LOOK_MS
			       : done_ms < duration_ms	       ? duration_ms
							       : done_ms + OVERDUE_MS;
	}
	terminal_progress_end();
	return ok;
}

bool profile_run_save(const struct target *target, int64_t id, const char *which,
	struct output *output, struct error *err)
{
	char path[64];

	snprintf(path, sizeof path, "/v1/runs/%" PRId64 "/%s", id, which);
	return control_save_profile(target, path, NULL, output, err);
}
