/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "client/agent_client.h"
#include "client/doctor.h"

/* A profile of a million stacks keeps an agent busy for seconds; the rest can be seen without. */
enum { PATIENCE_MS = 10 * 1000 };

static void examine_allocator(struct diagnosis *diagnosis, const json_t *status)
{
	if (json_flag(status, "profiling.available"))
		diagnosis_add(diagnosis, FINDING_GOOD, "profiling-available", "",
			"%s %s can be profiled", json_text(status, "allocator.name"),
			json_text(status, "allocator.version"));
	else
		diagnosis_add(diagnosis, FINDING_WRONG, "profiling-unavailable",
			json_text(status, "profiling.cure"), "no profile can be taken: %s",
			json_text(status, "profiling.reason"));
}

/* Sampling that was never on leaves nothing to show. */
static void examine_sampling(struct diagnosis *diagnosis, const json_t *status)
{
	if (!json_flag(status, "profiling.available"))
		return;
	if (json_flag(status, "profiling.active"))
		diagnosis_add(diagnosis, FINDING_GOOD, "sampling-on", "", "sampling is on");
	else
		diagnosis_add(diagnosis, FINDING_NOTE, "sampling-off",
			"heapctl record samples for a while; heapctl activate until further notice",
			"sampling is off: what is allocated now will not be in any profile, and a "
			"dump may come out empty");
	if (strcmp(json_text(status, "profiling.activated_by"), "other") == 0)
		diagnosis_add(diagnosis, FINDING_NOTE, "sampling-by-other", "",
			"sampling was not switched on by heapctl: heapctl record leaves it on, and "
			"saves the profile before for the difference; the URLs of Mesos are "
			"refused");
}

/* So few samples that a profile says little, by the memory in use. */
static void examine_interval(struct diagnosis *diagnosis, const json_t *status)
{
	enum { ENOUGH_SAMPLES = 100, MIN_INTERVAL = 4096 };
	const int64_t interval = json_number(status, "profiling.sample_interval");
	const int64_t allocated = json_number(status, "memory.allocated");

	if (!json_flag(status, "profiling.available") || interval <= 0 || allocated <= 0)
		return;
	if (allocated / interval >= ENOUGH_SAMPLES)
		return;
	int64_t wanted = interval;
	while (wanted > MIN_INTERVAL && allocated / wanted < ENOUGH_SAMPLES)
		wanted /= 2;
	char hint[160] = "";
	if (wanted < interval)
		snprintf(hint, sizeof hint,
			"heapctl record --sample %" PRId64 "KiB, or start it with heapctl run "
			"--activate --sample %" PRId64 "KiB",
			wanted / 1024, wanted / 1024);
	diagnosis_add(diagnosis, FINDING_NOTE, "few-samples", hint,
		"%" PRId64 " KiB in use and one sample per %" PRId64 " KiB make %" PRId64
		" samples at most: the profile will be coarse",
		allocated / 1024, interval / 1024, allocated / interval);
}

/* The agent's own warnings; those that make a profile wrong count as such. */
static void examine_warnings(struct diagnosis *diagnosis, const json_t *status)
{
	static const char *const grave[] = { "conf-malformed", "variable-ignored", "secure-start",
		"malloc-not-owned", "lg-sample-high", "threads-start-inactive", "prefix-empty",
		"version-off-on", "static-unwinder" };
	size_t index;
	json_t *warning;

	json_array_foreach(json_at(status, "warnings"), index, warning)
	{
		const char *const code = json_text(warning, "code");
		enum finding_level level = FINDING_NOTE;

		if (strcmp(code, "sample-interval-wide") == 0)
			continue;
		for (size_t i = 0; i < sizeof grave / sizeof grave[0]; i++) {
			if (strcmp(code, grave[i]) == 0)
				level = FINDING_WRONG;
		}
		diagnosis_add(diagnosis, level, code, json_text(warning, "cure"), "%s",
			json_text(warning, "message"));
	}
}

bool doctor_examine_agent(
	struct diagnosis *diagnosis, const struct target *target, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	if (!agent_call_json_within(target, "GET", "/v1/status", PATIENCE_MS, &status, err))
		return false;
	diagnosis_add(diagnosis, FINDING_GOOD, "agent-answers", "", "the agent answers (%s)",
		json_text(status, "agent_version"));
	examine_allocator(diagnosis, status);
	examine_sampling(diagnosis, status);
	examine_interval(diagnosis, status);
	examine_warnings(diagnosis, status);
	if (strcmp(json_text(status, "profiling.unwinder"), "heapctl") == 0)
		diagnosis_add(diagnosis, FINDING_GOOD, "unwinder-safe", "",
			"the agent walks the stacks of samples itself");
	return true;
}
