/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/core.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "agent/stacks.h"
#include "base/loaded_module.h"
#include "base/units.h"

void core_init(struct core *core, const struct core_options *options)
{
	const struct run_retention retention = { .count = options->settings->keep,
		.bytes = options->settings->keep_bytes };

	*core = (struct core){
		.allocator = options->allocator,
		.memory = options->memory,
		.settings = *options->settings,
		.is_preloaded = options->is_preloaded,
		.activation = options->activation,
		.now_ms = options->now_ms,
		.wall_ms = options->wall_ms,
		.started_ms = options->wall_ms(),
	};
	if (options->folder != NULL)
		core->folder = *options->folder;
	snprintf(core->name, sizeof core->name, "%s", options->name);
	run_machine_init(&core->machine, 0);
	core->former_lg_sample = ALLOCATOR_LG_SAMPLE_KEEP;
	core->own_lg_sample = ALLOCATOR_LG_SAMPLE_KEEP;
	run_store_init(&core->store, core->memory, options->folder, core->name, &retention);
}

void core_deinit(struct core *core)
{
	run_store_deinit(&core->store);
}

void core_set_folder(struct core *core, const struct folder *folder)
{
	core->folder = *folder;
	core->store.folder = *folder;
}

static enum run_action step(struct core *core, enum run_event event)
{
	const struct run_input input = {
		.event = event, .now_ms = core->now_ms(), .wall_ms = core->wall_ms()
	};

	return run_step(&core->machine, &input);
}

bool core_is_running(const struct core *core)
{
	return core->machine.state == RUN_RUNNING;
}

static void set_cause(struct core *core, enum core_cause cause, int64_t since_ms)
{
	atomic_store(&core->activation->cause, cause);
	atomic_store(&core->activation->since_ms, since_ms);
}

bool core_observe(struct core *core, bool *active, struct error *err)
{
	if (!allocator_active_get(core->allocator, active, err))
		return false;
	if (!*active) {
		set_cause(core, CORE_CAUSE_NONE, 0);
	} else if (atomic_load(&core->activation->cause) == CORE_CAUSE_NONE) {
		set_cause(core, core_is_running(core) ? CORE_CAUSE_RUN : CORE_CAUSE_OTHER, 0);
	}
	step(core, *active ? RUN_EVENT_SAMPLING_ON : RUN_EVENT_SAMPLING_OFF);
	return true;
}

bool core_check_files(struct error *err)
{
	char path[256];

	if (loaded_modules_are_whole(path, sizeof path))
		return true;
	error_set(err, ERROR_STATE, "%s was cut while this process has it mapped",
		path[0] == '\0' ? "the program's file" : path);
	return error_hint(err, "whoever reads the rest ends the process: restart it");
}

/*
 * Before the first sample. Where it cannot be, the stacks are jemalloc's, which status says; the
 * sampler has no others.
 */
static bool prepare_stacks(struct core *core, struct error *err)
{
	const bool is_needed = allocator_has_other_sampler(core->allocator);

	if (!core_check_files(err))
		return false;
	if ((core->settings.jemalloc_stacks && !is_needed) ||
		stacks_take_over(core->allocator, err) || !is_needed)
		return true;
	if (err->kind == ERROR_MEMORY)
		return error_hint(err, "raise the limit of its address space (RLIMIT_AS)");
	return false;
}

static bool switch_sampling(
	struct core *core, bool active, enum core_cause cause, bool *was_active, struct error *err)
{
	bool before = false;

	if (active && !prepare_stacks(core, err))
		return false;
	if (!core_observe(core, &before, err) ||
		!allocator_active_set(core->allocator, active, &before, err))
		return false;
	if (!before && active) {
		set_cause(core, cause, core->wall_ms());
	}
	*was_active = before;
	return core_observe(core, &active, err);
}

static bool is_paused(const struct core *core)
{
	return core->resume_ms != 0;
}

bool core_activate(struct core *core, bool active, bool *was_active, struct error *err)
{
	if (!active && core_is_running(core)) {
		error_set(err, ERROR_STATE, "run %lld is on", (long long)core->machine.run.id);
		return error_hint(err, "stop the run first");
	}
	if (!switch_sampling(core, active, CORE_CAUSE_HEAPCTL, was_active, err))
		return false;
	core->resume_ms = 0;
	return true;
}

/* An agent that came with the program leaves only for one that can do what it cannot. */
static bool check_may_detach(const struct core *core, bool is_replaced, struct error *err)
{
	const bool is_of_use = core->allocator->unavailable.kind == ERROR_NONE;

	if (core->settings.attached || (is_replaced && core->is_preloaded && !is_of_use))
		return true;
	error_set(err, ERROR_STATE,
		is_replaced && !core->is_preloaded && !is_of_use
			? "the program has started its agent itself"
			: "the process was started with its agent, not attached");
	return error_hint(err, is_replaced && !is_of_use
				       ? "attach to one that was started without it"
				       : "heapctl deactivate switches sampling off");
}

/*
 * The next agent counts from its own attach on; and the program may switch its own sampling on
 * later, and expects the interval that it has chosen.
 */
static bool put_sampling_back(struct core *core, struct error *err)
{
	const bool is_ours = allocator_has_other_sampler(core->allocator);
	int own = core->own_lg_sample;
	unsigned now = 0;
	bool is_active = false;

	if (own == ALLOCATOR_LG_SAMPLE_KEEP && !is_ours)
		return true;
	if (!allocator_lg_sample(core->allocator, &now, err) ||
		!core_observe(core, &is_active, err))
		return false;
	/* The program has set another one since. */
	if ((int)now != core->reset_lg_sample)
		own = ALLOCATOR_LG_SAMPLE_KEEP;
	/* Its own samples are worth more. */
	if (is_active || (own == ALLOCATOR_LG_SAMPLE_KEEP && !is_ours))
		return true;
	core->own_lg_sample = ALLOCATOR_LG_SAMPLE_KEEP;
	return allocator_reset(core->allocator, own, true, err);
}

bool core_detach(struct core *core, bool is_replaced, struct error *err)
{
	struct allocator_sampler sampler;
	bool was_active = false;
	struct run run;

	if (!check_may_detach(core, is_replaced, err))
		return false;
	if (allocator_sampler(core->allocator, &sampler) && sampler.entries > 0) {
		error_set(err, ERROR_STATE, "%llu functions of its allocator are still patched",
			(unsigned long long)sampler.entries);
		return error_hint(err, "heapctl detach restores them first, on this machine");
	}
	if (core_is_running(core) && !core_run_stop(core, &run, err))
		return false;
	if (atomic_load(&core->activation->cause) == CORE_CAUSE_HEAPCTL &&
		!core_activate(core, false, &was_active, err))
		return false;
	if (!put_sampling_back(core, err))
		return false;
	core->is_detaching = true;
	return true;
}

bool core_pause(struct core *core, int64_t duration_ms, bool *was_active, struct error *err)
{
	const bool was_paused = is_paused(core);
	bool active = false;

	if (duration_ms < DURATION_MIN_RUN_MS || duration_ms > DURATION_MAX_RUN_MS)
		return error_set(err, ERROR_USAGE, "a pause lasts from 1 s to 24 h");
	if (!core_observe(core, &active, err))
		return false;
	const enum core_cause cause = atomic_load(&core->activation->cause);
	if (!core_activate(core, false, was_active, err))
		return false;
	if (*was_active)
		core->paused_cause = cause;
	if (*was_active || was_paused)
		core->resume_ms = core->now_ms() + duration_ms;
	return true;
}

void core_resume(struct core *core)
{
	bool was_active;
	struct error ignored;

	if (!is_paused(core))
		return;
	core->resume_ms = 0;
	if (!switch_sampling(core, true, core->paused_cause, &was_active, &ignored)) {
		/* No caller to report to; status says that sampling is off. */
	}
}

/* Whether jemalloc samples since the start: no request may have observed it before. */
static bool is_on_since_start(struct allocator *allocator, const struct core_activation *activation)
{
	const enum core_cause cause = atomic_load(&activation->cause);
	struct error ignored;
	bool active = false;

	return allocator->profiling.active_at_start && atomic_load(&activation->since_ms) == 0 &&
	       (cause == CORE_CAUSE_NONE || cause == CORE_CAUSE_OTHER) &&
	       allocator_active_get(allocator, &active, &ignored) && active;
}

/*
 * Adds what took the samples, and since when: "#sampling heapctl since 1763716881123", "#sampling
 * jemalloc from-start", or without a time where it is not known. Samples that began with an attach
 * or after it: "#sampling heapctl since 1763716881123 attached 1763716881100 at 1763716890000",
 * with the time of the profile, of which readers learn the age of the attach. " mapped" at the end:
 * the program's own mappings are samples, too; " entry": the allocator's functions are patched.
 */
void core_note_sampling(struct allocator *allocator, const struct core_activation *activation,
	const struct core_agent *agent, struct captured_profile *capture)
{
	enum { START_MS = 1000 };
	const struct allocator_profiling *const profiling = &allocator->profiling;
	int64_t since_ms = atomic_load(&activation->since_ms);
	struct allocator_sampler sampler;
	const char *kind = "";
	char line[160];

	if (!capture->has_mappings || profiling->sampler[0] == '\0')
		return;
	bool is_from_start = profiling->active_at_start;
	if (allocator_sampler(allocator, &sampler)) {
		since_ms = sampler.since_ms;
		is_from_start = is_from_start && since_ms <= agent->started_ms + START_MS;
		kind = sampler.has_mapped		      ? " mapped"
		       : strcmp(sampler.method, "entry") == 0 ? " entry"
							      : "";
	} else {
		is_from_start = is_on_since_start(allocator, activation);
	}
	char since[32] = "", attached[64] = "";
	if (is_from_start)
		snprintf(since, sizeof since, " from-start");
	else if (since_ms != 0)
		snprintf(since, sizeof since, " since %lld", (long long)since_ms);
	/* Also before sampling is on: profiles of one attach belong together. */
	if (!is_from_start && agent->is_attached)
		snprintf(attached, sizeof attached, " attached %lld at %lld",
			(long long)agent->started_ms, (long long)capture->time_ms);
	snprintf(line, sizeof line, "#sampling %s%s%s%s\n", profiling->sampler, since, attached,
		kind);
	capture_append(capture, line);
}

bool core_profile(struct core *core, struct captured_profile *capture, struct error *err)
{
	stacks_refresh();
	if (!capture_take(core->allocator, &core->folder, capture, err))
		return false;
	core_note_sampling(core->allocator, core->activation,
		&(struct core_agent){ core->started_ms, core->settings.attached }, capture);
	core->last_dump = (struct core_dump){
		.time_ms = capture->time_ms,
		.duration_ms = capture->duration_ms,
		.stack_count = capture->stack_count,
		.size_bytes = capture->size_bytes,
	};
	return true;
}

bool core_reset(struct core *core, int lg_sample, bool force, struct error *err)
{
	unsigned former = 0;

	if (!allocator_lg_sample(core->allocator, &former, err) ||
		!allocator_reset(core->allocator, lg_sample, force, err))
		return false;
	if (lg_sample != ALLOCATOR_LG_SAMPLE_KEEP) {
		if (core->own_lg_sample == ALLOCATOR_LG_SAMPLE_KEEP)
			core->own_lg_sample = (int)former;
		core->reset_lg_sample = lg_sample;
	}
	step(core, RUN_EVENT_RESET);
	return true;
}

bool core_mallctl_write(struct core *core, const char *name, enum mallctl_type type,
	const char *text, bool force, struct error *err)
{
	struct error ignored;
	bool active = false;

	if (strcmp(name, "prof.active") == 0 && !prepare_stacks(core, &ignored)) {
		/* The sampler says so where it is switched on. */
	}
	if (strcmp(name, "prof.active") == 0 && core_is_running(core) && !force) {
		error_set(err, ERROR_STATE, "run %lld is on", (long long)core->machine.run.id);
		return error_hint(err, "stop the run first, or add force=true");
	}
	if (!core_observe(core, &active, &ignored))
		active = false;
	if (!allocator_write(core->allocator, name, type, text, force, err))
		return false;
	if (strcmp(name, "prof.active") == 0)
		core->resume_ms = 0;
	if (strcmp(name, "prof.reset") == 0)
		step(core, RUN_EVENT_RESET);
	if (!active && core_observe(core, &active, &ignored) && active) {
		set_cause(core, CORE_CAUSE_HEAPCTL, core->wall_ms());
	} else if (!core_observe(core, &active, &ignored)) {
		/* The write itself was done. */
	}
	return true;
}

static bool refuse_active(const struct core *core, struct error *err)
{
	if (atomic_load(&core->activation->cause) == CORE_CAUSE_HEAPCTL) {
		error_set(err, ERROR_STATE, "sampling was switched on by 'activate', not by a run");
		return error_hint(err, "deactivate first, then start");
	}
	if (atomic_load(&core->activation->cause) == CORE_CAUSE_START) {
		error_set(err, ERROR_STATE,
			"sampling was switched on at the start by HEAPCTL_ACTIVATE=1, not by a "
			"run");
		return error_hint(err, "deactivate first, then start");
	}
	error_set(err, ERROR_STATE,
		"sampling was switched on by the program itself, its configuration or another "
		"tool");
	return error_hint(err, "deactivate first, or take a profile with dump");
}

/* Another interval for the length of the run. */
static bool change_interval(struct core *core, int lg_sample, struct error *err)
{
	unsigned former = 0;

	if (lg_sample == ALLOCATOR_LG_SAMPLE_KEEP)
		return true;
	if (!allocator_lg_sample(core->allocator, &former, err) ||
		!allocator_reset(core->allocator, lg_sample, false, err))
		return false;
	core->former_lg_sample = (int)former;
	return true;
}

static bool restore_interval(struct core *core, struct error *err)
{
	const int former = core->former_lg_sample;

	core->former_lg_sample = ALLOCATOR_LG_SAMPLE_KEEP;
	return former == ALLOCATOR_LG_SAMPLE_KEEP ||
	       allocator_reset(core->allocator, former, true, err);
}

/* The start profile is safe before sampling is switched on. */
static bool begin_run(struct core *core, struct error *err)
{
	struct run *const run = &core->machine.run;
	struct captured_profile start = CAPTURE_NONE;
	bool was_active = false;

	run->pid = getpid();
	snprintf(run->version, sizeof run->version, "%s", core->allocator->identity.version);
	if (!allocator_lg_sample(core->allocator, &run->lg_sample, err) ||
		!core_profile(core, &start, err))
		return false;
	run->start_bytes = start.size_bytes;
	run->state = RUN_RUNNING;
	const bool stored = run_store_begin(&core->store, run, &start, err);
	capture_release(&start);
	if (!stored)
		return false;
	if (switch_sampling(core, true, CORE_CAUSE_RUN, &was_active, err))
		return true;
	struct error ignored;
	if (!run_store_remove(&core->store, run->id, &ignored)) {
		/* It was stored just now. */
	}
	return false;
}

bool core_run_start(struct core *core, const struct core_run_request *request, struct run *run,
	bool *already_running, struct error *err)
{
	const int64_t duration_ms = request->duration_ms;
	struct error ignored;
	bool active = false;

	if (duration_ms < DURATION_MIN_RUN_MS || duration_ms > DURATION_MAX_RUN_MS)
		return error_set(err, ERROR_USAGE, "a run lasts from 1 s to 24 h");
	run_store_load(&core->store);
	if (core->machine.last_id < run_store_last_id(&core->store))
		core->machine.last_id = run_store_last_id(&core->store);
	if (!core_observe(core, &active, err))
		return false;
	if (active && !core_is_running(core) && !request->keep_active)
		return refuse_active(core, err);

	const struct run_input input = { .event = RUN_EVENT_START,
		.now_ms = core->now_ms(),
		.wall_ms = core->wall_ms(),
		.duration_ms = duration_ms };
	*already_running = run_step(&core->machine, &input) == RUN_ACTION_ALREADY;
	if (!*already_running) {
		core->machine.run.was_active = active || is_paused(core) ? 1 : 0;
		if (!change_interval(core, request->lg_sample, err) || !begin_run(core, err)) {
			if (!restore_interval(core, &ignored)) {
				/* The first failure is the reason of this one, too. */
			}
			step(core, RUN_EVENT_BEGIN_FAILED);
			return false;
		}
		step(core, RUN_EVENT_BEGUN);
		core->resume_ms = 0;
	}
	*run = core->machine.run;
	return true;
}

/* The end profile first: what is freed after the deadline would be missing from it. */
static void finish_run(struct core *core)
{
	struct captured_profile profile = CAPTURE_NONE;
	struct error problem, ignored;
	bool active = false;
	struct run_input input = { .event = RUN_EVENT_ENDED };

	if (!core_observe(core, &active, &ignored))
		active = true;
	if (core_profile(core, &profile, &problem)) {
		core->machine.run.profile_bytes = profile.size_bytes;
	} else {
		input.event = RUN_EVENT_END_FAILED;
		input.error = problem.message;
	}
	if (active && core->machine.run.was_active == 0 &&
		!allocator_active_set(core->allocator, false, NULL, &problem)) {
		input.event = RUN_EVENT_END_FAILED;
		input.error = problem.message;
	}
	if (!restore_interval(core, &problem)) {
		input.event = RUN_EVENT_END_FAILED;
		input.error = problem.message;
	}
	input.now_ms = core->now_ms();
	input.wall_ms = core->wall_ms();
	run_step(&core->machine, &input);
	run_store_finish(&core->store, &core->machine.run, profile.file.fd >= 0 ? &profile : NULL);
	if (!core_observe(core, &active, &ignored))
		set_cause(core, CORE_CAUSE_NONE, 0);
}

bool core_run_stop(struct core *core, struct run *run, struct error *err)
{
	if (step(core, RUN_EVENT_STOP) == RUN_ACTION_REFUSE) {
		if (!allocator_available(core->allocator, err))
			return false;
		error_set(err, ERROR_STATE, "there is no run to stop");
		return error_hint(err, "%s",
			atomic_load(&core->activation->cause) == CORE_CAUSE_NONE
				? "heapctl runs lists the finished ones, heapctl start begins one"
				: "sampling is on without a run: deactivate ends it");
	}
	finish_run(core);
	*run = core->machine.run;
	return true;
}

void core_tick(struct core *core)
{
	if (step(core, RUN_EVENT_TICK) == RUN_ACTION_FINISH)
		finish_run(core);
	if (is_paused(core) && core->now_ms() >= core->resume_ms)
		core_resume(core);
}

/* A run ends a pause: there is never one beside the other. */
int64_t core_wait_ms(const struct core *core)
{
	const int64_t now_ms = core->now_ms();

	if (!is_paused(core))
		return run_wait_ms(&core->machine, now_ms);
	return core->resume_ms > now_ms ? core->resume_ms - now_ms : 0;
}

int64_t core_remaining_ms(const struct core *core, const struct run *run)
{
	if (run->state != RUN_RUNNING || !core_is_running(core))
		return 0;
	return run_wait_ms(&core->machine, core->now_ms());
}

/* The store's copy of the current run is as of its start. */
static const struct run *latest_state(const struct core *core, const struct run *run)
{
	return core_is_running(core) && run->id == core->machine.run.id ? &core->machine.run : run;
}

bool core_run_find(struct core *core, int64_t id, struct run *run, struct error *err)
{
	run_store_load(&core->store);
	const struct run_store_entry *const entry = run_store_find(&core->store, id);
	if (entry == NULL)
		return run_store_refuse_id(id, err);
	*run = *latest_state(core, &entry->run);
	return true;
}

int64_t core_newest_run(struct core *core)
{
	run_store_load(&core->store);
	return run_store_last_id(&core->store);
}

void core_run_list(
	struct core *core, void (*visit)(void *context, const struct run *run), void *context)
{
	run_store_load(&core->store);
	for (size_t i = 0; i < core->store.count; i++)
		visit(context, latest_state(core, &core->store.entries[i].run));
}

static bool refuse_running(const struct core *core, int64_t id, struct error *err)
{
	if (!core_is_running(core) || core->machine.run.id != id)
		return true;
	error_set(err, ERROR_STATE, "run %lld is still on", (long long)id);
	return error_hint(err, "stop it, or wait for its end");
}

bool core_run_open(struct core *core, int64_t id, enum run_store_profile which,
	struct descriptor *file, uint64_t *size_bytes, struct error *err)
{
	run_store_load(&core->store);
	if (which == RUN_STORE_END && !refuse_running(core, id, err))
		return false;
	return run_store_open(&core->store, id, which, file, size_bytes, err);
}

bool core_run_remove(struct core *core, int64_t id, struct error *err)
{
	run_store_load(&core->store);
	return refuse_running(core, id, err) && run_store_remove(&core->store, id, err);
}
