/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"
#include "client/agent_client.h"

void diagnosis_init(struct diagnosis *diagnosis)
{
	*diagnosis = (struct diagnosis){ 0 };
	string_pool_init(&diagnosis->strings);
}

void diagnosis_deinit(struct diagnosis *diagnosis)
{
	string_pool_deinit(&diagnosis->strings);
	free(diagnosis->items);
}

bool diagnosis_is_well(const struct diagnosis *diagnosis)
{
	for (size_t i = 0; i < diagnosis->count; i++) {
		if (diagnosis->items[i].level == FINDING_WRONG)
			return false;
	}
	return true;
}

void diagnosis_add(struct diagnosis *diagnosis, enum finding_level level, const char *code,
	const char *hint, const char *format, ...)
{
	va_list arguments;

	struct finding *const finding =
		XAPPEND(diagnosis->items, diagnosis->count, diagnosis->capacity);
	finding->level = level;
	finding->code = string_pool_add(&diagnosis->strings, code);
	snprintf(finding->hint, sizeof finding->hint, "%s", hint);
	va_start(arguments, format);
	vsnprintf(finding->message, sizeof finding->message, format, arguments);
	va_end(arguments);
}

bool diagnosis_has(const struct diagnosis *diagnosis, const char *code)
{
	for (size_t i = 0; i < diagnosis->count; i++) {
		if (strcmp(diagnosis->items[i].code, code) == 0)
			return true;
	}
	return false;
}

/* A profile of a million stacks keeps an agent busy for seconds. */
enum { PATIENCE_MS = 10 * 1000 };

static void examine_allocator(struct diagnosis *diagnosis, const json_t *status)
{
	const char *const sampler = json_text(status, "profiling.sampler");

	if (strcmp(sampler, "heapctl") == 0)
		diagnosis_add(diagnosis, FINDING_GOOD, "profiling-available", "",
			"%s can be profiled: heapctl samples what is allocated after sampling is "
			"switched on",
			json_text(status, "allocator.malloc_name"));
	else if (json_flag(status, "profiling.available"))
		diagnosis_add(diagnosis, FINDING_GOOD, "profiling-available", "",
			"%s %s can be profiled", json_text(status, "allocator.name"),
			json_text(status, "allocator.version"));
	else
		diagnosis_add(diagnosis, FINDING_WRONG, "profiling-unavailable",
			json_hint(json_at(status, "profiling")), "no profile can be taken: %s",
			json_text(status, "profiling.reason"));
}

static void examine_sampling(struct diagnosis *diagnosis, const json_t *status)
{
	if (!json_flag(status, "profiling.available"))
		return;
	if (json_flag(status, "profiling.active"))
		diagnosis_add(diagnosis, FINDING_GOOD, "sampling-on", "", "sampling is on");
	else
		diagnosis_add(diagnosis, FINDING_NOTE, "sampling-off",
			"heapctl record samples for a time; heapctl activate until it is switched "
			"off",
			"sampling is off: what is allocated now will not be in any profile, and a "
			"dump may be empty");
	if (strcmp(json_text(status, "profiling.activated_by"), "other") == 0)
		diagnosis_add(diagnosis, FINDING_NOTE, "sampling-by-other", "",
			"sampling was not switched on by heapctl: heapctl record leaves it on and "
			"also saves the profile from its start; the URLs of Mesos are refused");
}

/* The agent's own warnings; those that make a profile wrong have the level wrong. */
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

		for (size_t i = 0; i < sizeof grave / sizeof grave[0]; i++) {
			if (strcmp(code, grave[i]) == 0)
				level = FINDING_WRONG;
		}
		diagnosis_add(diagnosis, level, code, json_hint(warning), "%s",
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
	examine_warnings(diagnosis, status);
	if (strcmp(json_text(status, "profiling.unwinder"), "heapctl") == 0)
		diagnosis_add(diagnosis, FINDING_GOOD, "unwinder-safe", "",
			"the agent walks the stacks of samples");
	return true;
}
