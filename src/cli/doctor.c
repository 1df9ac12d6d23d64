/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl doctor: what is wrong with a process or with this machine, and what to do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/attachment.h"
#include "cli/program_files.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "client/doctor.h"
#include "client/survey.h"
#include "client/target_resolve.h"

static const char *level_name(enum finding_level level)
{
	switch (level) {
	case FINDING_GOOD:
		return "ok";
	case FINDING_NOTE:
		return "note";
	case FINDING_WRONG:
		break;
	}
	return "wrong";
}

static enum terminal_style level_style(enum finding_level level)
{
	return level == FINDING_GOOD   ? TERMINAL_GOOD
	       : level == FINDING_NOTE ? TERMINAL_PLAIN
				       : TERMINAL_BAD;
}

static void print_findings(const char *title, const struct diagnosis *diagnosis)
{
	enum { INDENT = 9 };
	const size_t columns = (size_t)terminal_columns(stdout);

	printf("%s%s%s\n", terminal_begin(stdout, TERMINAL_BOLD), title, terminal_end(stdout));
	for (size_t i = 0; i < diagnosis->count; i++) {
		const struct finding *const finding = &diagnosis->items[i];
		printf("  %s%-7s%s", terminal_begin(stdout, level_style(finding->level)),
			level_name(finding->level), terminal_end(stdout));
		CLEANUP(free_cleanup) char *message = terminal_copy(finding->message);
		CLEANUP(free_cleanup) char *hint = terminal_copy(finding->hint);
		terminal_fill(stdout, message, INDENT, INDENT, columns);
		if (finding->hint[0] != '\0') {
			printf("%*s-> ", INDENT, "");
			terminal_fill(stdout, hint, INDENT + 3, INDENT + 3, columns);
		}
	}
	if (diagnosis_is_well(diagnosis))
		puts("nothing is wrong");
}

static void print_json(const char *title, const struct diagnosis *diagnosis)
{
	CLEANUP(json_cleanup) json_t *object = json_object();
	json_t *const findings = json_array();

	for (size_t i = 0; i < diagnosis->count; i++) {
		const struct finding *const finding = &diagnosis->items[i];
		json_t *const item = json_object();
		json_object_set_new(item, "level", json_string(level_name(finding->level)));
		json_object_set_new(item, "code", json_string(finding->code));
		json_object_set_new(item, "message", control_json_text(finding->message));
		json_object_set_new(item, "hint", control_json_text(finding->hint));
		/* Its name before 0.2, until 0.3. */
		json_object_set_new(item, "cure", control_json_text(finding->hint));
		json_array_append_new(findings, item);
	}
	json_object_set_new(object, "subject", json_string(title));
	json_object_set_new(object, "ok", json_boolean(diagnosis_is_well(diagnosis)));
	json_object_set_new(object, "findings", findings);
	control_print_json(object);
}

/* "3 processes have an agent that answers, 1 has jemalloc but no agent". */
static void add_counts(struct diagnosis *diagnosis, const size_t counts[SURVEY_STALE + 1])
{
	static const struct {
		enum survey_kind kind;
		const char *what;
	} parts[] = {
		{ SURVEY_REACHABLE, "an agent that answers" },
		{ SURVEY_ASLEEP, "an agent that is asleep" },
		{ SURVEY_SILENT, "an agent that does not answer" },
		{ SURVEY_NO_AGENT, "jemalloc but no agent" },
	};
	char text[sizeof((struct finding *)NULL)->message] = "";
	size_t size = 0;

	for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
		const size_t count = counts[parts[i].kind];
		if (count == 0)
			continue;
		size += (size_t)snprintf(text + size, sizeof text - size, "%s%zu %s%s %s",
			size == 0 ? "" : ", ", count,
			size != 0    ? ""
			: count == 1 ? "process "
				     : "processes ",
			count == 1 ? "has" : "have", parts[i].what);
	}
	if (size == 0)
		diagnosis_add(diagnosis, FINDING_NOTE, "targets", "start one with heapctl run",
			"no process has an agent or jemalloc");
	else
		diagnosis_add(diagnosis, FINDING_NOTE, "targets", "heapctl doctor PID examines one",
			"%s", text);
}

static void count_targets(struct diagnosis *diagnosis)
{
	CLEANUP(survey_deinit) struct survey survey = { 0 };
	size_t counts[SURVEY_STALE + 1] = { 0 };
	struct error err;

	if (!survey_make(true, &survey, &err)) {
		diagnosis_add(diagnosis, FINDING_WRONG, "no-survey", err.hint, "%s", err.message);
		return;
	}
	for (size_t i = 0; i < survey.count; i++) {
		const struct survey_entry *const entry = &survey.entries[i];
		counts[entry->kind]++;
		if (entry->kind == SURVEY_SILENT && entry->problem.kind == ERROR_TIMEOUT)
			diagnosis_add(diagnosis, FINDING_NOTE, "target-silent", entry->problem.hint,
				"%s", entry->problem.message);
	}
	add_counts(diagnosis, counts);
	if (counts[SURVEY_STALE] > 0)
		diagnosis_add(diagnosis, FINDING_NOTE, "stale-sockets",
			"heapctl ps names them; they can be removed",
			"%zu socket%s of processes that have ended", counts[SURVEY_STALE],
			counts[SURVEY_STALE] == 1 ? "" : "s");
}

static void examine_host(struct diagnosis *diagnosis)
{
	char library[4096];
	struct error err;

	doctor_examine_host(
		diagnosis, agent_library_find(AGENT_LIBRARY, library, &err) ? library : NULL);
	count_targets(diagnosis);
}

static bool examine_target(
	const char *text, struct diagnosis *diagnosis, char title[128], struct error *err)
{
	struct target target;
	struct process process;
	struct error why;

	if (target_resolve(text, &target, &why)) {
		snprintf(title, 128, "%s", target.label);
		if (!doctor_examine_agent(diagnosis, &target, err)) {
			/* What can be seen from outside says more than that nothing came. */
			if (target.process.pid == 0 || err->kind == ERROR_NOT_FOUND)
				return false;
			doctor_examine_process(diagnosis, &target.process, err);
		}
		if (target.process.pid != 0)
			doctor_examine_surroundings(diagnosis, &target.process);
		return true;
	}
	/* A socket or a URL that does not answer: there is no process to examine. */
	if (strchr(text, '/') != NULL || !process_find(text, &process, err)) {
		if (strchr(text, '/') != NULL)
			*err = why;
		return false;
	}
	snprintf(title, 128, "%s[%d]", process.name, (int)process.pid);
	doctor_examine_process(diagnosis, &process, &why);
	attachment_examine(diagnosis, &process);
	doctor_examine_surroundings(diagnosis, &process);
	return true;
}

static int run(const struct verb *verb, int argc, char **argv)
{
	CLEANUP(diagnosis_deinit) struct diagnosis diagnosis = { 0 };
	char title[128] = "this machine";
	struct option_parser parser;
	struct error err;
	bool as_json = false;

	diagnosis_init(&diagnosis);
	if (!option_parse(&parser, verb, argc, argv, &as_json))
		return parser.exit_code;
	if (parser.operand_count == 0)
		examine_host(&diagnosis);
	else if (!examine_target(parser.operands[0], &diagnosis, title, &err))
		return verb_fail(&err);
	if (as_json)
		print_json(title, &diagnosis);
	else
		print_findings(title, &diagnosis);
	return diagnosis_is_well(&diagnosis) ? EXIT_DONE : EXIT_FAILED;
}

const struct verb verb_doctor = {
	.name = "doctor",
	.arguments = "[TARGET] [--json]",
	.summary = "what is wrong with a process or this machine, and what to do",
	.description =
		"Explains why profiling a process would fail or give an empty profile, and what to "
		"do: no "
		"agent, another allocator, prof:false, options that jemalloc misunderstands or "
		"does not read, setuid programs, sandboxes, folders with a wrong mode, sampling "
		"that is too coarse. It also works on processes without an agent. Without TARGET "
		"it "
		"examines this machine.\n\n"
		"Exit status: 0 when nothing is wrong, 1 otherwise.",
	.examples = "heapctl doctor\n"
		    "heapctl doctor redis-server",
	.options = control_json_options,
	.complete = "@target",
	.max_operands = 1,
	.run = run,
};
