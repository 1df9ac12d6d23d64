/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl ps: every reachable target. */
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/units.h"
#include "base/user_name.h"
#include "base/xalloc.h"
#include "cli/attachment.h"
#include "cli/control.h"
#include "cli/terminal.h"
#include "cli/unattached_process.h"
#include "cli/verb.h"
#include "client/process_command.h"
#include "client/survey.h"
#include "render/quantity.h"
#include "watch/process_identity.h"

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

/* --- What tells the processes of one server apart --- */

enum ps_column {
	COLUMN_PID,
	COLUMN_NAME,
	COLUMN_USER,
	COLUMN_PARENT,
	COLUMN_CONTAINER,
	COLUMN_TITLE,
	COLUMN_ALLOCATOR,
	COLUMN_HEAP,
	COLUMN_PROFILING,
	PS_COLUMNS,
};

static const char *const headings[PS_COLUMNS] = { "PID", "NAME", "USER", "PARENT", "CONTAINER",
	"TITLE", "ALLOCATOR", "HEAP", "PROFILING" };

struct ps_row {
	enum terminal_style style;
	char *texts[PS_COLUMNS];
};

struct ps_table {
	struct ps_row *rows;
	size_t count, capacity;
	bool has_container, has_title;
};

static void ps_table_deinit(struct ps_table *table)
{
	for (size_t i = 0; i < table->count; i++) {
		for (int j = 0; j < PS_COLUMNS; j++)
			free(table->rows[i].texts[j]);
	}
	free(table->rows);
}

/* Texts of the last three columns. A process of another pid namespace may have no `pid` here. */
static void ps_table_add(struct ps_table *table, enum terminal_style style, const char *pid,
	const struct process *process, const char *name, const char *const last[3])
{
	enum { TITLE_SHOWN = 32 };
	char user[USER_NAME_BYTES] = "-", container[PROCESS_CONTAINER_BYTES] = "";
	CLEANUP(free_cleanup) char *command = NULL;
	bool is_title = false;

	table->rows = xgrow(table->rows, &table->capacity, table->count + 1, sizeof *table->rows);
	struct ps_row *const row = &table->rows[table->count++];
	*row = (struct ps_row){ .style = style };
	if (process->pid != 0) {
		user_name_format(process->uid, user);
		process_identity_read_container(process->pid, container);
		command = process_command_read(process->pid, &is_title);
	}
	table->has_container |= container[0] != '\0';
	table->has_title |= is_title;
	row->texts[COLUMN_PID] = xstrdup(pid);
	row->texts[COLUMN_NAME] = xstrdup(name);
	row->texts[COLUMN_USER] = xstrdup(user);
	row->texts[COLUMN_PARENT] =
		process->pid == 0 ? xstrdup("-") : xasprintf("%d", (int)process->parent);
	row->texts[COLUMN_CONTAINER] = xstrdup(container[0] == '\0' ? "-" : container);
	row->texts[COLUMN_TITLE] =
		is_title ? xasprintf("%.*s", TITLE_SHOWN, command) : xstrdup("-");
	for (int i = 0; i < 3; i++)
		row->texts[COLUMN_ALLOCATOR + i] = xstrdup(last[i]);
}

/* A narrow terminal has no room for those that tell processes apart. */
static void ps_table_print(const struct ps_table *table)
{
	enum { COLUMNS_FOR_USER = 100, COLUMNS_FOR_TITLE = 130 };
	const int columns = isatty(STDOUT_FILENO) == 1 ? terminal_columns(stdout) : INT_MAX;
	const bool is_shown[PS_COLUMNS] = {
		[COLUMN_PID] = true,
		[COLUMN_NAME] = true,
		[COLUMN_USER] = columns >= COLUMNS_FOR_USER,
		[COLUMN_PARENT] = columns >= COLUMNS_FOR_USER,
		[COLUMN_CONTAINER] = table->has_container && columns >= COLUMNS_FOR_TITLE,
		[COLUMN_TITLE] = table->has_title && columns >= COLUMNS_FOR_TITLE,
		[COLUMN_ALLOCATOR] = true,
		[COLUMN_HEAP] = true,
		[COLUMN_PROFILING] = true,
	};
	static const char alignments[] = "rllrlllrl";
	char alignment[PS_COLUMNS + 1] = "";
	const char *texts[PS_COLUMNS];
	size_t count = 0;

	for (int j = 0; j < PS_COLUMNS; j++) {
		if (!is_shown[j])
			continue;
		texts[count] = headings[j];
		alignment[count++] = alignments[j];
	}
	CLEANUP(table_cleanup) struct table *printed = table_new(alignment);
	table_add(printed, TERMINAL_BOLD, texts);
	for (size_t i = 0; i < table->count; i++) {
		count = 0;
		for (int j = 0; j < PS_COLUMNS; j++) {
			if (is_shown[j])
				texts[count++] = table->rows[i].texts[j];
		}
		table_add(printed, table->rows[i].style, texts);
	}
	table_print(printed, true, stdout);
}

static void add_process_keys(json_t *object, const struct process *process)
{
	char user[USER_NAME_BYTES], container[PROCESS_CONTAINER_BYTES];
	bool is_title;

	if (process->pid == 0)
		return;
	CLEANUP(free_cleanup) char *command = process_command_read(process->pid, &is_title);
	user_name_format(process->uid, user);
	process_identity_read_container(process->pid, container);
	json_object_set_new(object, "user", json_string(user));
	json_object_set_new(object, "parent", json_integer(process->parent));
	json_object_set_new(object, "command", control_json_text(command));
	if (container[0] != '\0')
		json_object_set_new(object, "container", json_string(container));
}

/* --- The rows --- */

static const char *short_version(const char *version, char text[64])
{
	snprintf(text, 64, "%.*s", (int)strcspn(version, "-"), version);
	return text;
}

static bool has_warning(const json_t *status, const char *code)
{
	size_t index;
	json_t *warning;

	json_array_foreach(json_at(status, "warnings"), index, warning)
	{
		if (strcmp(json_text(warning, "code"), code) == 0)
			return true;
	}
	return false;
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
	else if (has_warning(status, "file-damaged"))
		snprintf(text, size, "cannot begin: one of its files was damaged");
	else
		snprintf(text, size, "ready, sampling is off");
}

static void add_reachable(struct ps_table *table, const struct survey_entry *entry)
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
	ps_table_add(table,
		!is_available ? TERMINAL_WARNING
		: is_active   ? TERMINAL_GOOD
			      : TERMINAL_PLAIN,
		pid, &entry->target.process, json_text(status, "name"),
		(const char *[]){ allocator, heap, profiling });
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

static void add_entry(struct ps_table *table, const struct survey_entry *entry)
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
	ps_table_add(table, TERMINAL_DIM, pid, &entry->target.process, entry->target.process.name,
		(const char *[]){ entry->jemalloc[0] != '\0' ? "jemalloc" : "-", "-", text });
}

/* --- Processes that the survey leaves out --- */

/* It was detached, mostly: it can be attached to as any other. */
static bool has_ended_agent(const struct survey_entry *entry)
{
	return entry->kind == SURVEY_SILENT && entry->problem.kind == ERROR_NOT_FOUND &&
	       entry->target.process.pid != 0 && !process_has_agent_thread(&entry->target.process);
}

static bool is_in_survey(const struct survey *survey, pid_t pid)
{
	for (size_t i = 0; i < survey->count; i++) {
		if (survey->entries[i].target.process.pid == pid)
			return !has_ended_agent(&survey->entries[i]);
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
	struct ps_table *const table = context;
	char pid[16], text[800], memory[64];

	snprintf(pid, sizeof pid, "%d", (int)process->pid);
	snprintf(memory, sizeof memory, "(%s)",
		quantity_format(QUANTITY_BYTES, (double)process->resident_bytes, false).text);
	const char *const reason =
		problem == NULL ? NULL : unattached_process_refusal(process, problem);
	if (reason == NULL)
		snprintf(text, sizeof text, "no agent: heapctl attach can load one");
	else
		snprintf(text, sizeof text, "no agent: %s%s",
			reason == problem->message ? "" : "it ", reason);
	ps_table_add(table, TERMINAL_DIM, pid, process, process->name,
		(const char *[]){ "-", memory, text });
}

static void add_other_json(
	void *context, const struct process *process, const struct error *problem)
{
	json_t *const object = unattached_process_json(process, problem);

	add_process_keys(object, process);
	json_array_append_new(context, object);
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
		CLEANUP(ps_table_deinit) struct ps_table table = { 0 };
		for (size_t i = 0; i < survey->count; i++) {
			if (!with_others || !has_ended_agent(&survey->entries[i]))
				add_entry(&table, &survey->entries[i]);
		}
		if (with_others)
			visit_others(survey, add_other, &table);
		ps_table_print(&table);
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
		json_object_set_new(object, "exe", control_json_text(process->exe));
		json_object_set_new(object, "uid", json_integer(process->uid));
		add_process_keys(object, process);
	}
	if (entry->target.socket_path[0] != '\0')
		json_object_set_new(object, "socket", control_json_text(entry->target.socket_path));
	if (entry->jemalloc[0] != '\0')
		json_object_set_new(object, "jemalloc", control_json_text(entry->jemalloc));
	if (entry->kind == SURVEY_SILENT)
		json_object_set_new(object, "problem", control_json_text(entry->problem.message));
	if (entry->status != NULL)
		json_object_set(object, "status", entry->status);
	return object;
}

static void print_json(const struct survey *survey, bool with_others)
{
	CLEANUP(json_cleanup) json_t *list = json_array();

	for (size_t i = 0; i < survey->count; i++) {
		if (!with_others || !has_ended_agent(&survey->entries[i]))
			json_array_append_new(list, entry_json(&survey->entries[i]));
	}
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
		"USER, PARENT, the container and the title that a process gives itself tell the "
		"processes of one server apart; a narrow terminal has no room for them.\n\n"
		"--all also lists the other processes, with their resident memory in parentheses, "
		"and whether heapctl attach can load an agent.",
	.examples = "heapctl ps\n"
		    "heapctl ps --all\n"
		    "heapctl ps --json | jq '.[] | select(.state == \"reachable\") | .pid'",
	.options = options,
	.run = run,
};
