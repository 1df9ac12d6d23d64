/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/core.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/run.h"
#include "agent/stacks.h"

static void write_allocator(struct json_writer *json, const struct allocator_identity *identity)
{
	json_member_object(json, "allocator");
	json_member_string(json, "name", identity->name);
	json_member_string(json, "version", identity->version);
	json_member_string(json, "symbol", identity->symbol);
	json_member_string(json, "prefix", identity->prefix);
	json_member_string(json, "where", identity->where);
	json_member_string(json, "found_by", identity->found_by);
	json_member_bool(json, "owns_malloc", identity->owns_malloc);
	json_member_string(json, "malloc_name", identity->malloc_name);
	json_member_string(json, "malloc_where", identity->malloc_where);
	json_member_unsigned(json, "jemalloc_count", identity->jemalloc_count);
	json_object_end(json);
}

static void write_activation(struct core *core, bool active, struct json_writer *json)
{
	static const char *const causes[] = {
		[CORE_CAUSE_NONE] = NULL,
		[CORE_CAUSE_HEAPCTL] = "heapctl",
		[CORE_CAUSE_START] = "start",
		[CORE_CAUSE_RUN] = "run",
		[CORE_CAUSE_OTHER] = "other",
	};

	const int64_t since_ms = atomic_load(&core->activation->since_ms);

	json_member_bool(json, "active", active);
	json_member_integer_or_null(json, "active_since_ms", since_ms);
	json_member_string(json, "activated_by", causes[atomic_load(&core->activation->cause)]);
}

/* Under its former name, too, for clients of before 0.2; until 0.3. */
static void write_hint(struct json_writer *json, const char *hint)
{
	json_member_string(json, "hint", hint);
	json_member_string(json, "cure", hint);
}

static void write_profiling(struct core *core, struct json_writer *json)
{
	const struct allocator_profiling *const profiling = &core->allocator->profiling;
	unsigned lg_sample = profiling->lg_sample;
	struct error unavailable = { 0 };
	struct error ignored;
	bool active = false;

	const bool available = allocator_available(core->allocator, &unavailable);
	if (available && (!core_observe(core, &active, &ignored) ||
				 !allocator_lg_sample(core->allocator, &lg_sample, &ignored)))
		lg_sample = profiling->lg_sample;
	json_member_object(json, "profiling");
	json_member_bool(json, "compiled_in", profiling->compiled_in);
	json_member_bool(json, "enabled", profiling->enabled);
	write_activation(core, active, json);
	json_member_string(json, "sampler", profiling->sampler);
	json_member_bool(json, "active_at_start", profiling->active_at_start);
	json_member_bool(json, "thread_active_init", profiling->thread_active_init);
	json_member_unsigned(json, "lg_sample", lg_sample);
	json_member_unsigned(json, "sample_interval", sample_interval_bytes(lg_sample));
	json_member_bool(json, "accumulates", profiling->accumulates);
	json_member_bool(json, "gdump", profiling->gdump);
	json_member_bool(json, "final", profiling->final);
	json_member_bool(json, "leak", profiling->leak);
	json_member_bool(json, "sys_thread_name", profiling->sys_thread_name);
	json_member_integer(json, "lg_interval", profiling->lg_interval);
	json_member_string(json, "unwinder",
		stacks_are_ours(core->allocator, &core->settings) ? "heapctl"
								  : profiling->unwinder);
	json_member_string(json, "prefix", profiling->prefix);
	json_member_bool(json, "available", available);
	json_member_string(json, "reason", unavailable.message);
	write_hint(json, unavailable.hint);
	json_object_end(json);
}

static void write_module(void *context, const struct stacks_module *module)
{
	struct json_writer *const json = context;

	json_object_begin(json);
	json_member_string(json, "name", module->name);
	json_member_unsigned(json, "rows", module->rows);
	json_member_unsigned(json, "code_bytes", module->code_bytes);
	json_member_unsigned(json, "covered_bytes", module->covered_bytes);
	json_object_end(json);
}

/* Empty while stacks are not walked by heapctl. */
static void write_unwind_tables(struct json_writer *json)
{
	json_member_array(json, "unwind_tables");
	stacks_visit(write_module, json);
	json_array_end(json);
}

static void write_memory(struct core *core, struct json_writer *json)
{
	struct allocator_memory memory = { 0 };
	struct error ignored;

	json_key(json, "memory");
	if (!allocator_memory(core->allocator, &memory, &ignored)) {
		json_put_null(json);
		return;
	}
	json_object_begin(json);
	json_member_unsigned(json, "allocated", memory.allocated);
	json_member_unsigned(json, "active", memory.active);
	json_member_unsigned(json, "metadata", memory.metadata);
	json_member_unsigned(json, "resident", memory.resident);
	json_member_unsigned(json, "mapped", memory.mapped);
	json_member_unsigned(json, "retained", memory.retained);
	json_object_end(json);
}

/* Null where the samples are the allocator's own. */
static void write_sampler(struct core *core, struct json_writer *json)
{
	struct allocator_sampler sampler;

	json_key(json, "sampler");
	if (!allocator_sampler(core->allocator, &sampler)) {
		json_put_null(json);
		return;
	}
	json_object_begin(json);
	json_member_bool(json, "installed", sampler.is_installed);
	json_member_unsigned(json, "samples", sampler.samples);
	json_member_unsigned(json, "dropped", sampler.dropped);
	json_member_unsigned(json, "live_blocks", sampler.live_blocks);
	json_member_unsigned(json, "sites", sampler.sites);
	json_member_unsigned(json, "memory_bytes", sampler.memory_bytes);
	json_member_integer_or_null(json, "since_ms", sampler.since_ms);
	json_member_string(json, "method", sampler.method);
	json_member_bool(json, "mapped", sampler.has_mapped);
	json_member_unsigned(json, "entries", sampler.entries);
	json_member_unsigned(json, "entry_area", sampler.entry_area);
	json_member_unsigned(json, "entry_table", sampler.entry_table);
	json_member_unsigned(json, "entry_table_size", sampler.entry_table_size);
	json_member_string(json, "entries_in", sampler.where);
	json_member_string(json, "entries_missed", sampler.missed);
	json_member_unsigned(json, "modules", sampler.modules);
	json_member_unsigned(json, "slots", sampler.slots);
	json_member_unsigned(json, "foreign_slots", sampler.foreign_slots);
	json_member_unsigned(json, "waiting_slots", sampler.waiting_slots);
	json_member_unsigned(json, "protected_slots", sampler.protected_slots);
	json_object_end(json);
}

static void write_last_dump(const struct core_dump *dump, struct json_writer *json)
{
	json_key(json, "last_dump");
	if (dump->time_ms == 0) {
		json_put_null(json);
		return;
	}
	json_object_begin(json);
	json_member_integer(json, "time_ms", dump->time_ms);
	json_member_unsigned(json, "stacks", dump->stack_count);
	json_member_unsigned(json, "bytes", dump->size_bytes);
	json_member_integer(json, "ms", dump->duration_ms);
	json_object_end(json);
}

static void write_current_run(struct core *core, struct json_writer *json)
{
	json_key(json, "run");
	if (core_is_running(core))
		run_write_json(json, &core->machine.run,
			core_remaining_ms(core, &core->machine.run), false);
	else
		json_put_null(json);
}

static void write_names(const struct allocator *allocator, struct json_writer *json)
{
	json_member_array(json, "mallctls");
	for (const char *const *name = allocator_capability_names; *name != NULL; name++) {
		if (allocator_has(allocator, *name))
			json_put_string(json, *name);
	}
	json_array_end(json);
}

static void write_configuration(
	const struct allocator_configuration *configuration, struct json_writer *json)
{
	json_member_object(json, "malloc_conf");
	json_member_string(json, "variable", configuration->variable);
	json_member_string(json, "environment", configuration->environment);
	json_member_string(json, "build", configuration->build);
	json_member_string(json, "program", configuration->program);
	json_member_string(json, "file", configuration->file);
	json_member_string(json, "ignored_variable", configuration->ignored_variable);
	json_member_bool(json, "secure", configuration->secure);
	json_object_end(json);
}

static void write_warning(void *context, const struct allocator_warning *warning)
{
	struct json_writer *const json = context;

	json_object_begin(json);
	json_member_string(json, "code", warning->code);
	json_member_string(json, "message", warning->message);
	write_hint(json, warning->hint);
	json_object_end(json);
}

static void write_own_warning(
	struct json_writer *json, const char *code, const char *message, const char *hint)
{
	struct allocator_warning warning = { .code = code };

	snprintf(warning.message, sizeof warning.message, "%s", message);
	snprintf(warning.hint, sizeof warning.hint, "%s", hint);
	write_warning(json, &warning);
}

static void write_warnings(struct core *core, struct json_writer *json)
{
	struct error err;

	json_member_array(json, "warnings");
	if (core->settings.problem[0] != '\0')
		write_own_warning(
			json, "settings", core->settings.problem, "the default is used instead");
	if (!core_check_files(&err))
		write_own_warning(json, "file-damaged", err.message, err.hint);
	allocator_warnings(core->allocator, write_warning, json);
	json_array_end(json);
}

/* A name of a variable has no '=' in it. */
static void write_identity_variables(const struct settings *settings, struct json_writer *json)
{
	json_member_object(json, "environment");
	for (const char *at = settings->identity; *at != '\0'; at += strlen(at) + 1) {
		char name[64];
		const size_t size = strcspn(at, "=");
		snprintf(name, sizeof name, "%.*s", (int)size, at);
		json_member_string(json, name, at + size + 1);
	}
	json_object_end(json);
}

static void write_agent(const struct core *core, struct json_writer *json)
{
	char exe[4096];
	const ssize_t size = readlink("/proc/self/exe", exe, sizeof exe);

	json_member_integer(json, "protocol", 1);
	json_member_string(json, "agent_version", HEAPCTL_VERSION);
	json_member_integer(json, "pid", getpid());
	json_member_string(json, "name", core->name);
	json_key(json, "exe");
	json_put_string_sized(json, exe, size > 0 ? (size_t)size : 0);
	json_member_unsigned(json, "uid", geteuid());
	json_member_integer(json, "started_ms", core->started_ms);
	json_member_bool(json, "attached", core->settings.attached);
	write_identity_variables(&core->settings, json);
	json_member_object(json, "keep");
	json_member_string(json, "folder", core->folder.path[0] == '\0' ? NULL : core->folder.path);
	json_member_unsigned(json, "runs", core->settings.keep);
	json_member_unsigned(json, "bytes", core->settings.keep_bytes);
	json_object_end(json);
}

void core_write_status(struct core *core, struct json_writer *json)
{
	json_object_begin(json);
	write_agent(core, json);
	write_allocator(json, &core->allocator->identity);
	write_profiling(core, json);
	write_unwind_tables(json);
	write_sampler(core, json);
	write_memory(core, json);
	write_current_run(core, json);
	write_last_dump(&core->last_dump, json);
	write_names(core->allocator, json);
	write_configuration(&core->allocator->configuration, json);
	write_warnings(core, json);
	json_object_end(json);
}
