/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/attachment.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "cli/program_files.h"
#include "cli/terminal.h"
#include "client/agent_client.h"
#include "client/attach_check.h"
#include "client/process.h"
#include "client/program.h"
#include "client/target.h"
#include "client/target_agent.h"
#include "client/target_resolve.h"
#include "client/wake.h"
#include "inject/entry_functions.h"
#include "inject/inject.h"

enum {
	PATIENCE_MS = 5000, /* to find a thread that may be used */
	ANSWER_MS = 5000,   /* until the agent answers */
	END_MS = 20000,	    /* until it has ended */
	LOOK_MS = 10,
};

/*
 * For the C library that the process has. A static program does not open the file, and need not see
 * it.
 */
static bool find_library(
	const struct process *process, char path[4096], bool *is_visible, struct error *err)
{
	struct process_modules modules;

	*is_visible = false;
	if (!process_read_modules(process->pid, &modules, err))
		return false;
	if (!modules.has_libc)
		return agent_library_find(AGENT_LIBRARY_STATIC, path, err);
	return agent_library_find(
		       modules.has_musl ? AGENT_LIBRARY_MUSL : AGENT_LIBRARY, path, err) &&
	       attach_check_library(process, path, is_visible, err);
}

/* What the agent reads in the place of its environment. */
static char *make_settings(
	const struct process *process, const struct entry_functions *found, bool wants_mapped)
{
	const char *const folder = attach_folder(process);
	char range[64] = "";

	if (found->count > 0)
		snprintf(range, sizeof range, "entry_range=%" PRIx64 " %" PRIx64 "\n", found->first,
			found->limit);
	return xasprintf("name=%s\n%s%s%s%s%s", process->name, range,
		wants_mapped ? "HEAPCTL_MAPPED=1\n" : "",
		folder == NULL ? "" : "HEAPCTL_DIR=", folder == NULL ? "" : folder,
		folder == NULL ? "" : "\n");
}

/* The agent's own words, with its hint on a second line. */
static bool explain_refusal(
	const struct process *process, const struct inject_result *result, struct error *err)
{
	const char *const line = strchr(result->answer, '\n');
	const size_t size = line == NULL ? strlen(result->answer) : (size_t)(line - result->answer);

	error_set(err, (enum error_kind)result->returned, "%s[%d]: %.*s", process->name,
		(int)process->pid, (int)size, result->answer);
	if (line != NULL && line[1] != '\0')
		error_hint(err, "%s", line + 1);
	return false;
}

/* Its user may not be able to read the library where it is; /proc gets it there nevertheless. */
static bool inject_agent(const struct process *process, struct inject_request *request,
	struct inject_result *result, struct error *err)
{
	if (inject_library(request, result, err))
		return true;
	if (err->kind != ERROR_INPUT || request->path == NULL || !attach_has_proc(process))
		return false;
	request->path = NULL;
	return inject_library(request, result, err);
}

/* The agent says where its part is, unless jemalloc profiles itself: then nothing is patched. */
static bool patch_functions(const struct process *process, const struct entry_functions *found,
	const struct inject_result *result, struct attachment *attachment, struct error *err)
{
	struct entry_agent agent;

	if (found->count == 0 || sscanf(result->answer, "%" SCNx64 " %" SCNx64 " %" SCNu64,
					 &agent.area, &agent.entries, &agent.count) != 3)
		return true;
	snprintf(attachment->entries_in, sizeof attachment->entries_in, "%s", found->where);
	return entry_patch(process->pid, found, &agent, &attachment->entries, err) ||
	       error_prefix(
		       err, "patching the functions of %s[%d]", process->name, (int)process->pid);
}

static bool load_agent(const struct process *process, const struct entry_functions *found,
	bool wants_mapped, struct attachment *attachment, struct inject_result *result,
	struct error *err)
{
	CLEANUP(free_cleanup) char *settings = make_settings(process, found, wants_mapped);
	CLEANUP(file_unmap) struct file_map image = { 0 };
	bool is_visible = false;
	char library[4096];

	if (!find_library(process, library, &is_visible, err) || !file_map(library, &image, err))
		return false;
	struct inject_request request = { .pid = process->pid,
		.path = is_visible ? library : NULL,
		.image = image.data,
		.image_size = image.size,
		.function = "heapctl_attach_agent",
		.settings = settings,
		.patience_ms = PATIENCE_MS };
	if (!inject_agent(process, &request, result, err))
		return error_prefix(err, "attaching to %s[%d]", process->name, (int)process->pid);
	attachment->stop_us = result->stop_us;
	attachment->max_stop_us = result->max_stop_us;
	attachment->total_stop_us = result->total_stop_us;
	attachment->stops = result->stops;
	return result->returned == 0 || explain_refusal(process, result, err);
}

static bool explain_end(const struct process *process, struct error *err)
{
	struct process_modules modules;
	struct error ignored;

	if (process_read_modules(process->pid, &modules, &ignored) && modules.agent[0] != '\0')
		return error_set(err, ERROR_STATE, "%s[%d]: its agent has ended meanwhile",
			process->name, (int)process->pid);
	return error_set(err, ERROR_NOT_FOUND, "%s[%d] has ended, or executes another program now",
		process->name, (int)process->pid);
}

static bool wait_for_agent(const struct process *process, struct target *target, struct error *err)
{
	const int64_t until_ms = clock_monotonic_ms() + ANSWER_MS;

	while (!target_of_process(process->pid, target, err)) {
		if (!process_has_agent_thread(process))
			return explain_end(process, err);
		if (clock_monotonic_ms() > until_ms)
			return false;
		poll(NULL, 0, LOOK_MS);
	}
	return true;
}

/* Samples that there are, of an allocator that profiles itself, are kept. */
static bool set_interval(const struct target *target, int lg_sample, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;
	char path[64];

	if (lg_sample == SAMPLE_LG_KEEP)
		return true;
	if (!agent_check_profiling(target, &status, err))
		return false;
	if (json_number(status, "profiling.lg_sample") == lg_sample)
		return true;
	if (json_flag(status, "profiling.active")) {
		error_set(err, ERROR_STATE,
			"%s: sampling is on already, and another interval would discard its "
			"samples",
			target->label);
		return error_hint(err, "attach without --interval");
	}
	snprintf(path, sizeof path, "/v1/reset?lg_sample=%d", lg_sample);
	return control_post(target, path, err);
}

/* jemalloc's own profiler takes samples of blocks alone. */
static bool check_mapped(const struct target *target, bool wants_mapped, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	if (!wants_mapped)
		return true;
	if (!agent_check_profiling(target, &status, err))
		return false;
	if (json_flag(status, "sampler.mapped"))
		return true;
	error_set(err, ERROR_UNSUPPORTED,
		"%s: jemalloc takes the samples, which show nothing that the program maps itself",
		target->label);
	return error_hint(err, "attach without --mapped; heapctl account shows how much is mapped");
}

/* Other failures are what follows where it is stopped or frozen meanwhile. */
static bool explain_stop(const struct process *process, struct error *err)
{
	struct error stop;

	if (process_state_check(process, &stop) || stop.kind != ERROR_TIMEOUT ||
		strcmp(stop.message, err->message) == 0)
		return false;
	const struct error failure = *err;
	*err = stop;
	return error_hint(
		err, "%s%s%s", stop.hint, failure.hint[0] == '\0' ? "" : "; ", failure.hint);
}

/* Only where the process is: elsewhere its agent refuses to end, and says why. */
static bool restore_functions(
	const struct target *target, struct entry_result *entries, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	*entries = (struct entry_result){ 0 };
	if (target->socket_path[0] == '\0' || target->process.pid == 0)
		return true;
	if (!agent_call_json(target, "GET", "/v1/status", &status, err))
		return false;
	const struct entry_agent agent = {
		.area = (uint64_t)json_number(status, "sampler.entry_area"),
		.entries = (uint64_t)json_number(status, "sampler.entry_table"),
		.count = (uint64_t)json_number(status, "sampler.entry_table_size"),
	};
	if (agent.area == 0 || entry_restore(target->process.pid, &agent, entries, err))
		return true;
	error_prefix(err, "restoring the functions of %s", target->label);
	return explain_stop(&target->process, err);
}

/*
 * Its thread removes the socket, if it can, before it ends. Another command may attach the next
 * agent at once, which has another thread.
 */
static bool is_still_there(const struct target *target, pid_t thread)
{
	if (target->process.pid > 0)
		return process_is_agent_thread(&target->process, thread);
	return target->socket_path[0] != '\0' && access(target->socket_path, F_OK) == 0;
}

static bool wait_for_end(const struct target *target, pid_t thread, struct error *err)
{
	const int64_t until_ms = clock_monotonic_ms() + END_MS;
	while (is_still_there(target, thread)) {
		if (clock_monotonic_ms() > until_ms) {
			error_set(err, ERROR_TIMEOUT, "%s: its agent has not ended for %d s",
				target->label, END_MS / 1000);
			return error_hint(err,
				"it ends by itself as soon as it gets a processor, and the locks "
				"of the C library that other threads hold");
		}
		poll(NULL, 0, LOOK_MS);
	}
	return true;
}

bool attachment_end(const struct target *target, json_t **answer, struct entry_result *entries,
	struct error *err)
{
	CLEANUP(json_cleanup) json_t *received = NULL;

	if (!restore_functions(target, entries, err))
		return false;
	const pid_t thread = process_agent_thread(&target->process);
	if (!agent_call_json(target, "POST",
		    entries->is_unused ? "/v1/detach?unmap=true" : "/v1/detach", &received, err) ||
		!wait_for_end(target, thread, err))
		return false;
	*answer = TAKE(received);
	return true;
}

static bool has_agent_on_demand(const struct process *process)
{
	const enum wake_state state = wake_read_state(process);

	return state == WAKE_ASLEEP || state == WAKE_SANDBOXED;
}

/* The agent that a process has already. */
struct present_agent {
	bool exists;
	struct target target;
	struct error why; /* it cannot profile */
};

/* Wakes one on demand, which would start otherwise. */
static bool find_agent(
	const struct process *process, struct present_agent *agent, struct error *err)
{
	struct error ignored;
	char pid[16];

	*agent = (struct present_agent){ 0 };
	/* A stopped one has to continue for anything else. */
	if (!process_state_check(process, err))
		return false;
	snprintf(pid, sizeof pid, "%d", (int)process->pid);
	agent->exists = has_agent_on_demand(process);
	if (agent->exists)
		return target_resolve(pid, &agent->target, err);
	agent->exists = target_of_process(process->pid, &agent->target, &ignored);
	return true;
}

/*
 * An agent that was preloaded sees the calls between modules only, so it cannot profile a program
 * that has its allocator itself. It leaves for one for which the functions are patched.
 */
static bool check_agent(
	const struct process *process, struct present_agent *agent, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	if (!find_agent(process, agent, err))
		return false;
	if (!agent->exists || (!agent_check_profiling(&agent->target, &status, &agent->why) &&
				      agent->why.kind == ERROR_UNSUPPORTED))
		return true;
	error_set(
		err, ERROR_STATE, "%s[%d] has an agent already", process->name, (int)process->pid);
	return error_hint(err, "heapctl activate %d switches sampling on", (int)process->pid);
}

static bool end_present_agent(const struct process *process, const struct present_agent *agent,
	const struct entry_functions *found, const struct error *reason, struct error *err)
{
	CLEANUP(json_cleanup) json_t *answer = NULL;

	if (found->count == 0) {
		*err = reason->kind == ERROR_NONE ? agent->why : *reason;
		return false;
	}
	const pid_t thread = process_agent_thread(process);
	return (agent_call_json(&agent->target, "POST", "/v1/detach?replace=true", &answer, err) &&
		       wait_for_end(&agent->target, thread, err)) ||
	       error_prefix(err, "replacing the agent of %s[%d]", process->name, (int)process->pid);
}

static bool is_static(const struct process *process)
{
	struct process_modules modules;
	struct error ignored;

	return process_read_modules(process->pid, &modules, &ignored) && !modules.has_libc;
}

/* An agent that cannot be reached has patched them, not another tool. */
static bool explain_patched(const struct process *process, struct error *err)
{
	struct target ignored;
	struct error why;

	if (!process_has_agent_thread(process) || target_of_process(process->pid, &ignored, &why))
		return false;
	*err = why;
	return error_prefix(err, "%s[%d] has an agent, which cannot be reached", process->name,
		(int)process->pid);
}

/*
 * Whose functions are to be patched; none where the tables of modules show all calls. By itself
 * that is decided by whether the program brings an allocator; why one cannot be patched is only
 * reported if nothing else works.
 */
static bool find_functions(const struct process *process, enum attach_method method,
	struct entry_functions *found, struct error *reason, struct error *err)
{
	const bool needs_entries = method == ATTACH_ENTRY || is_static(process);

	*reason = (struct error){ 0 };
	if (method == ATTACH_GOT && needs_entries) {
		error_set(err, ERROR_UNSUPPORTED,
			"%s[%d] is a static program, which has no tables of calls between modules",
			process->name, (int)process->pid);
		return error_hint(err, "attach without --method");
	}
	if (method == ATTACH_GOT ||
		entry_functions_find(found, process->pid,
			method == ATTACH_ENTRY ? ENTRY_OF_ANY : ENTRY_OF_PROGRAM, reason))
		return true;
	entry_functions_deinit(found);
	/* Not without asking where another tool works. */
	if (needs_entries || reason->kind == ERROR_STATE) {
		*err = *reason;
		error_prefix(err, "%s[%d]", process->name, (int)process->pid);
		return reason->kind == ERROR_STATE && explain_patched(process, err);
	}
	if (reason->kind == ERROR_NOT_FOUND)
		*reason = (struct error){ 0 };
	return true;
}

/* Where there is no other way, what refuses the patching refuses the attach. */
static bool check_functions(const struct process *process, struct error *err)
{
	CLEANUP(entry_functions_deinit) struct entry_functions found = { 0 };
	struct error ignored;

	return !is_static(process) || find_functions(process, ATTACH_AUTO, &found, &ignored, err);
}

bool attachment_check(const struct process *process, struct error *err)
{
	char library[4096];
	bool ignored;

	return attach_check(process, false, err) && find_library(process, library, &ignored, err) &&
	       check_functions(process, err);
}

/* Jumps are made in the functions of the allocator, and these are the C library's. */
static bool refuse_mapped(
	const struct process *process, const struct entry_functions *found, struct error *err)
{
	error_set(err, ERROR_UNSUPPORTED,
		"%s[%d]: the functions of the allocator in %s have to be patched, and that does "
		"not "
		"show what the program maps itself",
		process->name, (int)process->pid, found->where);
	return error_hint(err, "attach without --mapped; heapctl account shows how much is mapped");
}

/* The tables of modules do not show the calls of an allocator that the program has itself. */
static bool suggest_entry(const struct process *process, struct error *err)
{
	CLEANUP(entry_functions_deinit) struct entry_functions found = { 0 };
	struct error ignored;

	if (entry_functions_find(&found, process->pid, ENTRY_OF_PROGRAM, &ignored))
		error_hint(err,
			"the program has an allocator of its own, whose functions --method entry "
			"patches");
	return false;
}

/* Not refused: the allocator's statistics and options may be what is wanted. */
static bool note_problem(const struct process *process, enum attach_method method,
	struct attachment *attachment, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	if (agent_check_profiling(&attachment->target, &status, &attachment->problem))
		return true;
	if (attachment->problem.kind != ERROR_UNSUPPORTED) {
		*err = attachment->problem;
		return false;
	}
	if (method == ATTACH_GOT)
		(void)suggest_entry(process, &attachment->problem);
	return true;
}

/* It cannot be reached now: the process is stopped, say, or has no descriptor for a client. */
static bool note_agent_stays(const struct process *process, struct error *err)
{
	char hint[sizeof err->hint];

	if (!process_has_agent_thread(process))
		return false;
	snprintf(hint, sizeof hint, "%s", err->hint);
	return error_hint(err, "%s%sthe agent stays loaded until heapctl detach %d", hint,
		hint[0] == '\0' ? "" : "; ", (int)process->pid);
}

/* Where a filter forbids a call, what fails next is often reported. */
static bool note_sandbox(struct error *err)
{
	char hint[sizeof err->hint];

	if (err->kind == ERROR_TIMEOUT || strstr(err->hint, "sandbox") != NULL)
		return false;
	snprintf(hint, sizeof hint, "%s", err->hint);
	return error_hint(err,
		"its sandbox (seccomp) may forbid what the agent calls: profile it without%s%s",
		hint[0] == '\0' ? "" : "; or ", hint);
}

static bool make(const struct process *process, const struct attach_request *request,
	const struct entry_functions *found, struct attachment *attachment,
	struct inject_result *result, struct error *err)
{
	CLEANUP(json_cleanup) json_t *answer = NULL;
	struct entry_result ignored_result;
	struct error ignored;

	if (!load_agent(process, found, request->wants_mapped, attachment, result, err))
		return explain_stop(process, err);
	if (!wait_for_agent(process, &attachment->target, err))
		return note_agent_stays(process, err);
	if (patch_functions(process, found, result, attachment, err) &&
		check_mapped(&attachment->target, request->wants_mapped, err) &&
		set_interval(&attachment->target, request->lg_sample, err) &&
		(request->is_active ? control_post(&attachment->target, "/v1/activate", err)
				    : note_problem(process, request->method, attachment, err)))
		return true;
	/* Then the step that failed did so because of that. */
	if (!process_has_agent_thread(process))
		return explain_end(process, err);
	(void)explain_stop(process, err);
	/* Otherwise an agent of no use would stay there. */
	return !attachment_end(&attachment->target, &answer, &ignored_result, &ignored) &&
	       note_agent_stays(process, err);
}

/* Its threads stand on stacks of Go's runtime, which cannot be walked to their ends. */
static bool is_go(const struct process *process)
{
	struct process_modules modules;
	struct error ignored;

	return process_read_modules(process->pid, &modules, &ignored) && modules.is_go;
}

/* What /proc shows of a process changes bit by bit while it ends. */
static bool is_ending(const struct process *process)
{
	struct process_modules modules;
	struct error why;

	if (process_is_kernel_thread(process))
		return false;
	if (process_has_ended(process))
		return true;
	return process_read_modules(process->pid, &modules, &why) ? !modules.has_mappings
								  : why.kind == ERROR_NOT_FOUND;
}

static bool refuse_interrupted(const struct process *process, const char *what, struct error *err)
{
	return error_set(
		err, ERROR_STATE, "%s[%d]: interrupted%s", process->name, (int)process->pid, what);
}

/* Whoever interrupted that does not want the agent. */
static bool end_if_interrupted(
	const struct process *process, struct attachment *attachment, struct error *err)
{
	CLEANUP(json_cleanup) json_t *answer = NULL;
	struct entry_result ignored;

	if (!terminal_was_interrupted())
		return true;
	if (attachment_end(&attachment->target, &answer, &ignored, err))
		return refuse_interrupted(process, "; the agent was taken out again", err);
	error_prefix(err, "interrupted, and then");
	return note_agent_stays(process, err);
}

bool attachment_make(const struct process *process, const struct attach_request *request,
	struct attachment *attachment, struct error *err)
{
	CLEANUP(entry_functions_deinit) struct entry_functions found = { 0 };
	struct inject_result result = { 0 };
	struct present_agent present;
	struct error reason;

	*attachment = (struct attachment){ 0 };
	if (!check_agent(process, &present, err) ||
		!attach_check(process, request->is_forced, err) ||
		!find_functions(process, request->method, &found, &reason, err) ||
		(request->wants_mapped && found.count > 0 &&
			!refuse_mapped(process, &found, err)) ||
		(present.exists && !end_present_agent(process, &present, &found, &reason, err)))
		return is_ending(process) ? error_set(err, ERROR_NOT_FOUND, "%s[%d] has ended",
						    process->name, (int)process->pid)
					  : false;
	/* Not before: an agent that is there may be silent, and that wait has to end. */
	terminal_catch_interrupts();
	if (terminal_was_interrupted())
		return refuse_interrupted(process, "", err);
	if (make(process, request, &found, attachment, &result, err))
		return end_if_interrupted(process, attachment, err);
	if (is_ending(process)) {
		error_set(
			err, ERROR_NOT_FOUND, "%s[%d] has ended", process->name, (int)process->pid);
		return process->has_seccomp && request->is_forced &&
		       error_hint(err,
			       "its sandbox (seccomp) has killed it, most likely: the kernel's log "
			       "has the system call");
	}
	if (process->has_seccomp && request->is_forced && result.stop_us > 0)
		return note_sandbox(err);
	if (reason.kind != ERROR_NONE && err->kind == ERROR_UNSUPPORTED)
		*err = reason;
	if (err->kind == ERROR_STATE && is_go(process))
		return error_hint(err,
			"it is a Go program: start it with heapctl run to see what its C code "
			"allocates; for the heap of Go's runtime " PROGRAM_GO_HINT);
	return request->method == ATTACH_GOT && err->kind == ERROR_UNSUPPORTED
		       ? suggest_entry(process, err)
		       : false;
}

void attachment_examine(struct diagnosis *diagnosis, const struct process *process)
{
	int safe = 0, looks = 0;
	struct present_agent present;
	struct error err;

	/*
	 * It has an agent, and whatever silences it would silence another one; what wakes one on
	 * demand, or why nothing does, is reported already.
	 */
	if (process_has_agent_thread(process) || has_agent_on_demand(process) ||
		process_is_kernel_thread(process))
		return;
	const bool may_attach =
		check_agent(process, &present, &err) && attachment_check(process, &err);
	if (present.exists)
		return;
	const bool has_looked = may_attach && inject_look(process->pid, &safe, &looks, &err);
	if (has_looked && safe > 0)
		diagnosis_add(diagnosis, FINDING_NOTE, "can-attach", "",
			"heapctl attach %d would load the agent: at %d of %d looks a thread stood "
			"where it may be used",
			(int)process->pid, safe, looks);
	else if (has_looked)
		diagnosis_add(diagnosis, FINDING_NOTE, "can-attach", "",
			"heapctl attach %d would try to load the agent for some seconds: at none "
			"of %d looks a thread stood where it may be used",
			(int)process->pid, looks);
	else
		diagnosis_add(diagnosis, FINDING_NOTE, "cannot-attach",
			/* The finding before says what to do first. */
			err.kind == ERROR_TIMEOUT || err.kind == ERROR_INPUT ? "" : err.hint,
			"heapctl attach would refuse: %s", err.message);
}
