/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl status: configuration and state of one target, for people. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "base/xalloc.h"
#include "cli/control.h"
#include "cli/terminal.h"
#include "cli/unattached_process.h"
#include "cli/verb.h"
#include "client/discovery.h"
#include "render/quantity.h"
#include "watch/process_identity.h"
#include "client/target_resolve.h"
#include "client/wake.h"

static void line(const char *name, const char *format, ...) PRINTF_FORMAT(2, 3);

static void line(const char *name, const char *format, ...)
{
	enum { INDENT = 16 };
	char text[2048];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	CLEANUP(free_cleanup) char *shown = terminal_copy(text);
	printf("  %-*s", INDENT - 2, name);
	terminal_fill(stdout, shown, INDENT, INDENT, (size_t)terminal_columns(stdout));
}

static struct quantity_text bytes(int64_t count)
{
	return quantity_format(QUANTITY_BYTES, (double)count, false);
}

static void print_process(const struct target *target, const json_t *status)
{
	char begun[CONTROL_TIME_BYTES];

	CLEANUP(free_cleanup) char *shown = terminal_copy(json_text(status, "name"));
	printf("%s%s%s%s%s\n", terminal_begin(stdout, TERMINAL_BOLD), target->label,
		target->kind == TARGET_GATEWAY ? " " : "",
		target->kind == TARGET_GATEWAY ? shown : "", terminal_end(stdout));
	if (*json_text(status, "exe") != '\0')
		line("program", "%s", json_text(status, "exe"));
	if (target->process.pid == 0)
		line("pid", "%" PRId64, json_number(status, "pid"));
	else if (target->process.pid != json_number(status, "pid"))
		line("pid", "%" PRId64 ", as it sees itself", json_number(status, "pid"));
	line("agent", "%s, %s %s%s", json_text(status, "agent_version"),
		json_flag(status, "attached") ? "attached" : "since",
		control_format_time(json_number(status, "started_ms"), begun),
		json_flag(status, "attached") ? ": profiles have no older allocations" : "");
}

static void append_value(
	struct buffer *out, const char *name, const char *value, const char *source)
{
	if (value[0] != '\0')
		buffer_printf(out, "%s%s %s (%s)", out->size == 0 ? "" : "; ", name, value, source);
}

/* What its profiles are of in a fleet (docs/fleet.md). */
static void print_identity(const struct snapshot_identity *identity, const struct error *problem)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	append_value(&text, "service", identity->service, identity->service_source);
	append_value(&text, "version", identity->version, identity->version_source);
	append_value(&text, "host", identity->host, identity->host_source);
	for (size_t i = 0; i < identity->label_count; i++)
		append_value(&text, identity->labels[i].name, identity->labels[i].value,
			identity->labels[i].source);
	line("identity", "%s", buffer_string(&text));
	if (problem->kind != ERROR_NONE)
		line("", "%sHEAPCTL_LABELS: %s%s", terminal_begin(stdout, TERMINAL_WARNING),
			problem->message, terminal_end(stdout));
}

static void set_value(
	json_t *object, json_t *sources, const char *name, const char *value, const char *source)
{
	if (value[0] == '\0')
		return;
	json_object_set_new(object, name, json_string(value));
	json_object_set_new(sources, name, json_string(source));
}

static void add_identity(
	json_t *status, const struct snapshot_identity *identity, const struct error *problem)
{
	json_t *const object = json_object();
	json_t *const labels = json_object();
	json_t *const sources = json_object();

	set_value(object, sources, "service", identity->service, identity->service_source);
	set_value(object, sources, "version", identity->version, identity->version_source);
	set_value(object, sources, "host", identity->host, identity->host_source);
	for (size_t i = 0; i < identity->label_count; i++)
		set_value(labels, sources, identity->labels[i].name, identity->labels[i].value,
			identity->labels[i].source);
	json_object_set_new(object, "labels", labels);
	json_object_set_new(object, "sources", sources);
	json_object_set_new(object, "problem",
		problem->kind == ERROR_NONE ? json_null() : control_json_text(problem->message));
	json_object_set_new(status, "identity", object);
}

/* In the order in which jemalloc reads them: the last one wins. */
static void print_options(const json_t *status)
{
	const struct {
		const char *name;
		const char *text;
	} sources[] = {
		{ "its build", json_text(status, "malloc_conf.build") },
		{ "the program's malloc_conf", json_text(status, "malloc_conf.program") },
		{ "/etc/malloc.conf", json_text(status, "malloc_conf.file") },
		{ json_text(status, "malloc_conf.variable"),
			json_text(status, "malloc_conf.environment") },
	};
	const char *name = "options";

	for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
		if (*sources[i].text == '\0')
			continue;
		line(name, "%s (%s)", sources[i].text, sources[i].name);
		name = "";
	}
}

static void print_allocator(const json_t *status)
{
	const char *const name = json_text(status, "allocator.name");
	const char *const version = json_text(status, "allocator.version");
	const char *const where = json_text(status, "allocator.where");

	line("allocator", "%s%s%s%s%s%s", name, *version == '\0' ? "" : " ", version,
		*where == '\0' ? "" : " in ", where,
		json_flag(status, "allocator.owns_malloc") ? "" : "; malloc is not its own");
	print_options(status);
}

static void describe_sampling(const json_t *status, char *text, size_t size)
{
	const char *const by = json_text(status, "profiling.activated_by");
	const int64_t since_ms = json_number(status, "profiling.active_since_ms");
	char since[CONTROL_TIME_BYTES];

	if (!json_flag(status, "profiling.active")) {
		snprintf(text, size, "off (heapctl activate, heapctl record)");
		return;
	}
	snprintf(text, size, "on%s%s, switched on by %s", since_ms == 0 ? "" : " since ",
		since_ms == 0 ? "" : control_format_time(since_ms, since),
		strcmp(by, "heapctl") == 0 ? json_flag(status, "attached")
						     ? "heapctl attach or activate"
						     : "heapctl activate"
		: strcmp(by, "run") == 0   ? "a run"
		: strcmp(by, "start") == 0
			? "HEAPCTL_ACTIVATE=1 at the start (heapctl run --activate)"
		: json_flag(status, "profiling.active_at_start")
			? "its options at the start (prof_active:true)"
			: "the program or another tool");
}

static void print_sampler_figures(const json_t *status)
{
	const int64_t dropped = json_number(status, "sampler.dropped");
	char lost[80] = "";

	if (dropped > 0)
		snprintf(lost, sizeof lost, ", %" PRId64 " of them dropped for want of memory",
			dropped);
	if (json_number(status, "sampler.entries") > 0)
		line("sampled by",
			"heapctl, which sees the calls of %" PRId64 " functions of %s: %" PRId64
			" samples%s, %" PRId64 " still in use",
			json_number(status, "sampler.entries"),
			json_text(status, "sampler.entries_in"),
			json_number(status, "sampler.samples"), lost,
			json_number(status, "sampler.live_blocks"));
	else
		line("sampled by",
			"heapctl, which sees the calls of %" PRId64 " modules: %" PRId64
			" samples%s, %" PRId64 " still in use",
			json_number(status, "sampler.modules"),
			json_number(status, "sampler.samples"), lost,
			json_number(status, "sampler.live_blocks"));
}

static void print_not_seen(const json_t *status)
{
	static const char before[] = "what was allocated before sampling was switched on";

	if (json_flag(status, "sampler.mapped"))
		line("", "also seen: memory that the program maps itself (mmap)");
	if (strcmp(json_text(status, "sampler.method"), "entry") == 0)
		line("", "not seen: %s, and what other allocators hand out", before);
	else
		line("", "not seen: %s, and what a module allocates by functions of its own",
			before);
	if (*json_text(status, "sampler.entries_missed") != '\0')
		line("", "not seen either: %s", json_text(status, "sampler.entries_missed"));
	if (json_number(status, "sampler.protected_slots") > 0)
		line("", "%" PRId64 " calls cannot be seen: their pages cannot be written",
			json_number(status, "sampler.protected_slots"));
}

/* Of a sampler that is not the allocator's own: what it does not see. */
static void print_sampler(const json_t *status)
{
	if (!json_is_object(json_at(status, "sampler"))) {
		line("sampled by", "%s", json_text(status, "profiling.sampler"));
		return;
	}
	if (json_flag(status, "sampler.installed"))
		print_sampler_figures(status);
	else
		line("sampled by", "heapctl, which is not in the process while sampling is off");
	print_not_seen(status);
}

static void print_profiling(const json_t *status)
{
	const bool is_available = json_flag(status, "profiling.available");
	char sampling[160];

	if (!is_available) {
		line("profiling", "%snot possible%s: %s", terminal_begin(stdout, TERMINAL_BAD),
			terminal_end(stdout), json_text(status, "profiling.reason"));
		if (*json_hint(json_at(status, "profiling")) != '\0')
			line("", "%s", json_hint(json_at(status, "profiling")));
		return;
	}
	describe_sampling(status, sampling, sizeof sampling);
	line("profiling", "%spossible%s; sampling is %s", terminal_begin(stdout, TERMINAL_GOOD),
		terminal_end(stdout), sampling);
	line("interval", "one sample in %s on average (lg_prof_sample:%" PRId64 ")",
		bytes(json_number(status, "profiling.sample_interval")).text,
		json_number(status, "profiling.lg_sample"));
	if (!json_flag(status, "profiling.thread_active_init"))
		line("", "new threads are not sampled (prof.thread_active_init is false)");
	if (*json_text(status, "profiling.sampler") != '\0')
		print_sampler(status);
	line("stacks by", "%s", json_text(status, "profiling.unwinder"));
}

static void print_memory(const json_t *status)
{
	if (!json_is_object(json_at(status, "memory")))
		return;
	line("memory", "%s allocated, %s resident, %s mapped, %s kept for later",
		bytes(json_number(status, "memory.allocated")).text,
		bytes(json_number(status, "memory.resident")).text,
		bytes(json_number(status, "memory.mapped")).text,
		bytes(json_number(status, "memory.retained")).text);
}

static void print_run(const json_t *status)
{
	char left[DURATION_TEXT_BYTES];

	if (!json_is_object(json_at(status, "run")))
		return;
	line("run", "%" PRId64 ", %s left", json_number(status, "run.id"),
		duration_format(json_number(status, "run.remaining_ms"), left));
}

static void print_last_dump(const json_t *status)
{
	char moment[CONTROL_TIME_BYTES];

	if (!json_is_object(json_at(status, "last_dump"))) {
		line("last dump", "none yet");
		return;
	}
	line("last dump", "%s: %" PRId64 " stacks, %s, took %" PRId64 " ms",
		control_format_time(json_number(status, "last_dump.time_ms"), moment),
		json_number(status, "last_dump.stacks"),
		bytes(json_number(status, "last_dump.bytes")).text,
		json_number(status, "last_dump.ms"));
}

static void print_warnings(const json_t *status)
{
	size_t index;
	json_t *warning;

	json_array_foreach(json_at(status, "warnings"), index, warning)
	{
		line("warning", "%s%s%s", terminal_begin(stdout, TERMINAL_WARNING),
			json_text(warning, "message"), terminal_end(stdout));
		if (*json_hint(warning) != '\0')
			line("", "%s", json_hint(warning));
	}
}

/* --- Of a process without an agent --- */

static const char *describe_agent(const struct unattached_process *unattached)
{
	const struct process_modules *const modules = &unattached->modules;
	struct error ignored;

	if (modules->agent[0] == '\0' && !unattached->is_silent)
		return "none";
	if (wake_explain_child(&unattached->process, &ignored))
		return "none of its own; its parent's library is loaded";
	if (agent_absence_of(&unattached->process) != ABSENCE_UNKNOWN)
		return "loaded, not started";
	if (process_has_preloader_alone(modules))
		return "not loaded (" PROCESS_PRELOADER " needs libheapctl.so.0 beside itself)";
	return process_has_agent_thread(&unattached->process) ||
			       unattached->absence.kind != ERROR_NOT_FOUND
		       ? "loaded, does not answer"
		       : "has ended or was detached; its library stays loaded";
}

static void print_unattached(const struct unattached_process *unattached)
{
	const struct process *const process = &unattached->process;
	const struct process_modules *const modules = &unattached->modules;
	const struct smaps *const smaps = &unattached->smaps;
	CLEANUP(free_cleanup) char *attach = unattached_process_describe_attach(unattached);

	CLEANUP(free_cleanup) char *name = terminal_copy(process->name);
	printf("%s%s[%d]%s\n", terminal_begin(stdout, TERMINAL_BOLD), name, (int)process->pid,
		terminal_end(stdout));
	line("program", "%s", process->exe);
	line("agent", "%s; %s", describe_agent(unattached), attach);
	if (modules->jemalloc[0] != '\0' || modules->other_allocator[0] != '\0')
		line("allocator", "%s",
			modules->jemalloc[0] != '\0' ? modules->jemalloc
						     : modules->other_allocator);
	line("memory",
		"%s resident: %s program break, %s mapped anonymous, %s stacks, %s files, %s data "
		"of files, %s shared",
		bytes((int64_t)smaps->resident).text, bytes((int64_t)smaps->program_break).text,
		bytes((int64_t)smaps->anonymous).text, bytes((int64_t)smaps->stacks).text,
		bytes((int64_t)smaps->files).text, bytes((int64_t)smaps->file_data).text,
		bytes((int64_t)smaps->shmem).text);
	if (smaps->huge_pages != 0)
		line("", "%s of it in transparent huge pages",
			bytes((int64_t)smaps->huge_pages).text);
	if (smaps->swapped != 0)
		line("", "%s swapped out", bytes((int64_t)smaps->swapped).text);
}

static void print_unattached_json(const struct unattached_process *unattached)
{
	const struct smaps *const smaps = &unattached->smaps;
	CLEANUP(free_cleanup) char *attach = unattached_process_describe_attach(unattached);
	CLEANUP(json_cleanup)
	json_t *object = unattached_process_json(
		&unattached->process, unattached->can_attach ? NULL : &unattached->refusal);

	json_object_set_new(object, "state", json_string(unattached_process_state(unattached)));
	json_object_set_new(object, "profiling",
		json_pack("{s:b, s:b, s:o, s:o}", "available", 0, "active", 0, "reason",
			control_json_text(unattached->absence.message), "hint",
			control_json_text(attach)));
	json_object_set_new(object, "kernel",
		json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "resident_bytes",
			(json_int_t)smaps->resident, "program_break_bytes",
			(json_int_t)smaps->program_break, "anonymous_bytes",
			(json_int_t)smaps->anonymous, "stacks_bytes", (json_int_t)smaps->stacks,
			"files_bytes", (json_int_t)smaps->files, "file_data_bytes",
			(json_int_t)smaps->file_data, "shmem_bytes", (json_int_t)smaps->shmem,
			"huge_pages_bytes", (json_int_t)smaps->huge_pages, "swapped_bytes",
			(json_int_t)smaps->swapped));
	control_print_json(object);
}

/* No agent answers whose status it could be: a failure, as for the other verbs. */
static int fail_without_agent(const char *operand, bool as_json, struct error *err)
{
	struct unattached_process unattached;

	if (unattached_process_read(operand, &unattached, err))
		(as_json ? print_unattached_json : print_unattached)(&unattached);
	return verb_fail(err);
}

static int run(const struct verb *verb, int argc, char **argv)
{
	struct option_parser parser;
	struct target target;
	struct error err;
	bool as_json = false;

	if (!option_parse(&parser, verb, argc, argv, &as_json))
		return parser.exit_code;
	if (!target_resolve(parser.operands[0], &target, &err))
		return fail_without_agent(parser.operands[0], as_json, &err);
	CLEANUP(json_cleanup) json_t *status = NULL;
	if (!agent_call_json(&target, "GET", "/v1/status", &status, &err))
		return unattached_process_is_stopped(&target.process, &err)
			       ? fail_without_agent(parser.operands[0], as_json, &err)
			       : verb_fail(&err);
	/* Of a target behind a gateway only that gateway knows it. */
	const bool is_here = target.kind == TARGET_AGENT && target.process.pid != 0;
	struct snapshot_identity identity = { 0 };
	struct error problem = { 0 };
	if (is_here && process_identity_read(&target, status, &identity, &problem))
		problem = (struct error){ 0 };
	if (as_json) {
		if (is_here)
			add_identity(status, &identity, &problem);
		control_print_json(status);
		return EXIT_DONE;
	}
	print_process(&target, status);
	if (is_here)
		print_identity(&identity, &problem);
	print_allocator(status);
	print_profiling(status);
	print_memory(status);
	print_run(status);
	print_last_dump(status);
	print_warnings(status);
	return EXIT_DONE;
}

const struct verb verb_status = {
	.name = "status",
	.arguments = "TARGET [--json]",
	.summary = "configuration and state of a target",
	.description =
		"Shows which allocator the process has, whether it can be profiled (if "
		"not, the reason and what to do), whether sampling is on and what "
		"switched it on, the sampling interval, the memory figures, the run in "
		"progress, the cost of the last dump, and what its profiles are of in a fleet, "
		"with the source of each value.\n\n"
		"For a process without an agent, or one that is stopped or frozen, it shows what "
		"the kernel knows: the program and the parts of its resident memory; and whether "
		"heapctl attach can load an agent. Then the exit status is 1.",
	.examples = "heapctl status redis-server\n"
		    "heapctl status 4711 --json | jq .profiling",
	.options = control_json_options,
	VERB_OF_ONE_TARGET,
	.run = run,
};
