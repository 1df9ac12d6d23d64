/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl ps: every reachable target. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/units.h"
#include "base/xalloc.h"
#include "cli/attachment.h"
#include "cli/control.h"
#include "cli/terminal.h"
#include "cli/verb.h"
#include "client/survey.h"
#include "render/quantity.h"

struct ps_request {
	bool as_json, as_names, with_others;
};

static const struct verb_option options[] = {
	{ .name = "json", .help = "print JSON", OPTION_SWITCH(struct ps_request, as_json) },
	{ .name = "all",
		.help = "also processes without agent and jemalloc: whether heapctl attach can "
			"load "
			"one, and their resident memory",
		OPTION_SWITCH(struct ps_request, with_others) },
	{ .name = "names",
		.help = "print pids and names only, for completion",
		.is_hidden = true,
		OPTION_SWITCH(struct ps_request, as_names) },
	{ 0 },
};

static const char *short_version(const char *version, char text[64])
{
	snprintf(text, 64, "%.*s", (int)strcspn(version, "-"), version);
	return text;
}

static void describe_profiling(const json_t *status, char *text, size_t size)
{
	char left[DURATION_TEXT_BYTES];
	const bool is_ours = strcmp(json_text(status, "profiling.sampler"), "heapctl") == 0;

	if (!json_flag(status, "profiling.available"))
		snprintf(text, size, "not possible: %s", json_text(status, "profiling.reason"));
	else if (json_is_object(json_at(status, "run")))
		snprintf(text, size, "run, %s left",
			duration_format(json_number(status, "run.remaining_ms"), left));
	else if (json_flag(status, "profiling.active"))
		snprintf(text, size, "sampling%s", is_ours ? " by heapctl" : "");
	else
		snprintf(text, size, "ready, sampling is off");
}

static void add_reachable(struct table *table, const struct survey_entry *entry)
{
	const json_t *const status = entry->status;
	char pid[16], allocator[128], version[64], profiling[400], heap[32] = "-";
	const bool is_available = json_flag(status, "profiling.available");
	const bool is_active = json_flag(status, "profiling.active");

	/* Its inner pid, when it is in a pid namespace that we cannot read. */
	snprintf(pid, sizeof pid, "%" PRId64,
		entry->target.process.pid != 0 ? (int64_t)entry->target.process.pid
					       : json_number(status, "pid"));
	snprintf(allocator, sizeof allocator, "%s %s", json_text(status, "allocator.name"),
		short_version(json_text(status, "allocator.version"), version));
	if (json_number(status, "memory.allocated") > 0)
		strcpy(heap, quantity_format(QUANTITY_BYTES,
				     (double)json_number(status, "memory.allocated"), false)
				     .text);
	describe_profiling(status, profiling, sizeof profiling);
	table_add(table,
		!is_available ? TERMINAL_WARNING
		: is_active   ? TERMINAL_GOOD
			      : TERMINAL_PLAIN,
		(const char *[]){ pid, json_text(status, "name"), allocator, heap, profiling });
}

/* Messages begin with the process, which the row names already. */
static const char *without_label(const char *message, const struct target *target)
{
	char label[128];
	const int size = snprintf(
		label, sizeof label, "%s[%d]", target->process.name, (int)target->process.pid);

	if (strncmp(message, label, (size_t)size) != 0)
		return message;
	return message + size + strspn(message + size, ": ");
}

static void add_entry(struct table *table, const struct survey_entry *entry)
{
	char pid[16], text[800];

	if (entry->kind == SURVEY_REACHABLE) {
		add_reachable(table, entry);
		return;
	}
	if (entry->kind == SURVEY_STALE)
		return;
	snprintf(pid, sizeof pid, "%d", (int)entry->target.process.pid);
	if (entry->kind == SURVEY_NO_AGENT)
		snprintf(text, sizeof text, "no agent: %s", entry->agent_hint);
	else if (entry->kind == SURVEY_ASLEEP)
		snprintf(text, sizeof text, "asleep: a command for %s wakes its agent", pid);
	else
		snprintf(text, sizeof text, "%s",
			without_label(entry->problem.message, &entry->target));
	table_add(table, TERMINAL_DIM,
		(const char *[]){ pid, entry->target.process.name,
			entry->jemalloc[0] != '\0' ? "jemalloc" : "-", "-", text });
}

/* --- Processes that the survey leaves out --- */

static bool is_in_survey(const struct survey *survey, pid_t pid)
{
	for (size_t i = 0; i < survey->count; i++) {
		if (survey->entries[i].target.process.pid == pid)
			return true;
	}
	return false;
}

/* Calls `visit` with each; `problem` says why it cannot be attached to, and is NULL where it can.
 */
static void visit_others(const struct survey *survey,
	void (*visit)(void *context, const struct process *process, const struct error *problem),
	void *context)
{
	CLEANUP(free_cleanup) pid_t *pids = NULL;
	struct process process;
	struct error problem;
	size_t count = 0;

	if (!process_list(&pids, &count, &problem))
		return;
	for (size_t i = 0; i < count; i++) {
		if (pids[i] == getpid() || is_in_survey(survey, pids[i]) ||
			!process_read(pids[i], &process, &problem) || process.exe[0] == '\0')
			continue;
		visit(context, &process, attachment_check(&process, &problem) ? NULL : &problem);
	}
}

static void add_other(void *context, const struct process *process, const struct error *problem)
{
	struct table *const table = context;
	char pid[16], text[800], memory[64];

	snprintf(pid, sizeof pid, "%d", (int)process->pid);
	snprintf(memory, sizeof memory, "(%s)",
		quantity_format(QUANTITY_BYTES, (double)process->resident_bytes, false).text);
	snprintf(text, sizeof text, "no agent: %s",
		problem == NULL ? "heapctl attach can load one"
				: unattached_process_refusal(process, problem));
	table_add(table, TERMINAL_DIM, (const char *[]){ pid, process->name, "-", memory, text });
}

static void add_other_json(
	void *context, const struct process *process, const struct error *problem)
{
	json_array_append_new(context, unattached_process_json(process, problem));
}

static size_t count_kind(const struct survey *survey, enum survey_kind kind)
{
	size_t count = 0;

	for (size_t i = 0; i < survey->count; i++)
		count += survey->entries[i].kind == kind;
	return count;
}

static void print_table(const struct survey *survey, bool with_others)
{
	const size_t stale = count_kind(survey, SURVEY_STALE);

	if (survey->count == stale && !with_others) {
		puts("no targets: nothing here has an agent or jemalloc\n"
		     "(heapctl run -- CMD starts a program with both)");
		if (geteuid() != 0)
			puts("only root sees the processes of other users");
	} else {
		CLEANUP(table_cleanup) struct table *table = table_new("rllrl");
		table_add(table, TERMINAL_BOLD,
			(const char *[]){ "PID", "NAME", "ALLOCATOR", "HEAP", "PROFILING" });
		for (size_t i = 0; i < survey->count; i++)
			add_entry(table, &survey->entries[i]);
		if (with_others)
			visit_others(survey, add_other, table);
		table_print(table, true, stdout);
	}
	for (size_t i = 0; i < survey->count; i++) {
		if (survey->entries[i].kind != SURVEY_STALE)
			continue;
		CLEANUP(free_cleanup)
		char *path = terminal_copy(survey->entries[i].target.socket_path);
		printf("stale socket: %s (its process has ended; the file can be removed)\n", path);
	}
}

static const char *kind_name(enum survey_kind kind)
{
	switch (kind) {
	case SURVEY_REACHABLE:
		return "reachable";
	case SURVEY_ASLEEP:
		return "asleep";
	case SURVEY_SILENT:
		return "silent";
	case SURVEY_NO_AGENT:
		return "no-agent";
	case SURVEY_STALE:
		break;
	}
	return "stale";
}

static json_t *entry_json(const struct survey_entry *entry)
{
	json_t *const object = json_object();
	const struct process *const process = &entry->target.process;

	json_object_set_new(object, "state", json_string(kind_name(entry->kind)));
	if (process->pid != 0) {
		json_object_set_new(object, "pid", json_integer(process->pid));
		json_object_set_new(object, "name", json_string(process->name));
		json_object_set_new(object, "exe", json_string(process->exe));
		json_object_set_new(object, "uid", json_integer(process->uid));
	}
	if (entry->target.socket_path[0] != '\0')
		json_object_set_new(object, "socket", json_string(entry->target.socket_path));
	if (entry->jemalloc[0] != '\0')
		json_object_set_new(object, "jemalloc", json_string(entry->jemalloc));
	if (entry->kind == SURVEY_SILENT)
		json_object_set_new(object, "problem", json_string(entry->problem.message));
	if (entry->status != NULL)
		json_object_set(object, "status", entry->status);
	return object;
}

static void print_json(const struct survey *survey, bool with_others)
{
	CLEANUP(json_cleanup) json_t *list = json_array();

	for (size_t i = 0; i < survey->count; i++)
		json_array_append_new(list, entry_json(&survey->entries[i]));
	if (with_others)
		visit_others(survey, add_other_json, list);
	control_print_json(list);
}

static void print_names(const struct survey *survey)
{
	for (size_t i = 0; i < survey->count; i++) {
		const struct process *const process = &survey->entries[i].target.process;
		if (survey->entries[i].kind == SURVEY_REACHABLE ||
			survey->entries[i].kind == SURVEY_ASLEEP)
			printf("%d\n%s\n", (int)process->pid, process->name);
	}
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct ps_request request = { 0 };
	struct option_parser parser;
	struct error err;

	if (!option_parse(&parser, verb, argc, argv, &request))
		return parser.exit_code;
	CLEANUP(survey_deinit) struct survey survey = { 0 };
	if (!survey_make(!request.as_names, &survey, &err))
		return verb_fail(&err);
	if (request.as_names)
		print_names(&survey);
	else if (request.as_json)
		print_json(&survey, request.with_others);
	else
		print_table(&survey, request.with_others);
	return EXIT_DONE;
}

const struct verb verb_ps = {
	.name = "ps",
	.arguments = "[--all] [--json]",
	.summary = "list every reachable target",
	.description =
		"Lists the processes of this machine that have an agent, in containers too, with "
		"their allocator, the bytes allocated and the state of profiling; and those that "
		"have jemalloc but no agent. An agent on demand is listed as asleep, and is not "
		"woken. Names of sockets that ended processes left are removed. Only root sees the "
		"processes of other users.\n\n"
		"--all also lists the other processes, with their resident memory in parentheses, "
		"and whether heapctl attach can load an agent.",
	.examples = "heapctl ps\n"
		    "heapctl ps --all\n"
		    "heapctl ps --json | jq '.[] | select(.state == \"reachable\") | .pid'",
	.options = options,
	.run = run,
};
