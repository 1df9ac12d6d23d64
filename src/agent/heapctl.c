/* SPDX-License-Identifier: Apache-2.0 */
/* The C interface: checks sizes, translates errors, and calls the agent. */
#include "heapctl.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/agent.h"
#include "agent/capture.h"
#include "agent/preload_choice.h"
#include "agent/routes.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/units.h"

static int fail(const struct error *from, struct heapctl_error *err)
{
	static const int codes[] = {
		[ERROR_NONE] = HEAPCTL_SYSTEM,
		[ERROR_SYSTEM] = HEAPCTL_SYSTEM,
		[ERROR_MEMORY] = HEAPCTL_MEMORY,
		[ERROR_INPUT] = HEAPCTL_USAGE,
		[ERROR_USAGE] = HEAPCTL_USAGE,
		[ERROR_NOT_FOUND] = HEAPCTL_NOT_FOUND,
		[ERROR_STATE] = HEAPCTL_STATE,
		[ERROR_UNSUPPORTED] = HEAPCTL_UNSUPPORTED,
		[ERROR_DENIED] = HEAPCTL_DENIED,
		[ERROR_TIMEOUT] = HEAPCTL_SYSTEM,
	};

	if (err != NULL) {
		*err = (struct heapctl_error){ .code = codes[from->kind], .errnum = from->errnum };
		memcpy(err->message, from->message, sizeof err->message);
		memcpy(err->hint, from->hint, sizeof err->hint);
	}
	return codes[from->kind];
}

_Static_assert(sizeof(((struct error *)0)->message) == sizeof(((struct heapctl_error *)0)->message),
	"messages are copied whole");
_Static_assert(sizeof(((struct error *)0)->hint) == sizeof(((struct heapctl_error *)0)->hint),
	"hints are copied whole");

static int fail_usage(struct heapctl_error *err, const char *problem)
{
	struct error usage;

	error_set(&usage, ERROR_USAGE, "%s", problem);
	return fail(&usage, err);
}

const char *heapctl_version(void)
{
	return HEAPCTL_VERSION;
}

int heapctl_abi(void)
{
	return HEAPCTL_ABI;
}

/*
 * Whether the caller's structure begins with a size that it can have: at least that of its first
 * version. Fills `err` otherwise.
 */
static bool check_structure(
	const char *name, const void *structure, size_t size_min, struct heapctl_error *err)
{
	/* What is larger was never set. */
	enum { LARGEST_STRUCTURE = 65536 };
	struct error usage;
	size_t size = 0;

	if (structure == NULL) {
		error_set(&usage, ERROR_USAGE, "%s is NULL", name);
		(void)fail(&usage, err);
		return false;
	}
	memcpy(&size, structure, sizeof size);
	if (size >= size_min && size <= LARGEST_STRUCTURE)
		return true;
	if (size == 0)
		error_set(&usage, ERROR_USAGE, "%s.size is not set", name);
	else
		error_set(&usage, ERROR_USAGE, "%s.size is %zu, which no version of it has", name,
			size);
	error_hint(&usage, "set it to the size of the structure in your heapctl.h");
	(void)fail(&usage, err);
	return false;
}

/* Copies the members that the caller's header has; the others are zero. */
static void copy_in(void *own, size_t own_size, const void *theirs, size_t their_size)
{
	memset(own, 0, own_size);
	memcpy(own, theirs, their_size < own_size ? their_size : own_size);
}

/* The other way round. */
static void copy_out(void *theirs, size_t their_size, const void *own, size_t own_size)
{
	memset(theirs, 0, their_size);
	memcpy(theirs, own, their_size < own_size ? their_size : own_size);
	memcpy(theirs, &their_size, sizeof their_size);
}

static char *no_variable(const char *name)
{
	(void)name;
	return NULL;
}

enum {
	KNOWN_FLAGS = HEAPCTL_NO_SOCKET | HEAPCTL_NO_THREAD | HEAPCTL_NOT_IN_CHILDREN |
		      HEAPCTL_NO_ENVIRONMENT,
};

static bool apply_options(
	const struct heapctl_options *from, struct agent_options *options, struct error *err)
{
	const bool ignore_environment = (from->flags & HEAPCTL_NO_ENVIRONMENT) != 0;
	struct settings *const settings = &options->settings;

	settings_read(settings, ignore_environment ? no_variable : secure_getenv);
	if ((from->flags & ~(unsigned)KNOWN_FLAGS) != 0) {
		error_set(err, ERROR_USAGE, "unknown flags %#x",
			from->flags & ~(unsigned)KNOWN_FLAGS);
		return error_hint(
			err, "use the library of the heapctl.h that the program is built with");
	}
	if (from->folder != NULL && from->folder[0] != '/') {
		error_set(
			err, ERROR_USAGE, "the folder '%s' is not an absolute path", from->folder);
		return error_hint(err, "begin it with /, or leave it NULL");
	}
	if (from->folder != NULL && strlen(from->folder) >= sizeof settings->folder) {
		error_set(err, ERROR_USAGE, "the folder's path is too long");
		return error_hint(
			err, "choose one of at most %zu bytes", sizeof settings->folder - 1);
	}
	if (from->folder != NULL)
		strcpy(settings->folder, from->folder);
	if (from->keep > SETTINGS_KEEP_MAX) {
		error_set(err, ERROR_USAGE, "at most %d runs can be kept", SETTINGS_KEEP_MAX);
		return error_hint(err, "set keep to less, or to 0 for the default");
	}
	if (from->keep != 0)
		settings->keep = from->keep;
	if (from->keep_bytes != 0)
		settings->keep_bytes = from->keep_bytes;
	options->with_socket = (from->flags & HEAPCTL_NO_SOCKET) == 0;
	options->need_socket = options->with_socket;
	options->in_children = (from->flags & HEAPCTL_NOT_IN_CHILDREN) == 0;
	options->log = (struct log){ .write = from->log,
		.context = from->log_context,
		.to_stderr = settings->log_to_stderr };
	if ((from->flags & HEAPCTL_NO_THREAD) != 0)
		options->mode = AGENT_EMBEDDED;
	else if (settings->on_demand)
		options->mode = AGENT_ON_DEMAND;
	if (settings->disabled) {
		error_set(err, ERROR_STATE, "HEAPCTL_DISABLE is set");
		return error_hint(err, "start the program without it");
	}
	return true;
}

static bool choose_name(const char *given, struct agent_options *options, struct error *err)
{
	struct program_facts program;

	program_facts_read(&program);
	const char *const name = given == NULL ? program_facts_name(&program) : given;
	strncat(options->name, path_base_name(name), sizeof options->name - 1);
	if (given == NULL || options->name[0] != '\0')
		return true;
	error_set(err, ERROR_USAGE, "the name '%s' is empty", given);
	return error_hint(err, "give its last part, or NULL for the program's own");
}

int heapctl_is_started(void)
{
	return agent_is_started();
}

/* Whether the linker finds another copy of this library there, with an agent. */
static bool is_started_in(void *scope)
{
	int (*is_started)(void) = NULL;
	const void *const symbol = dlsym(scope, "heapctl_is_started");

	memcpy(&is_started, &symbol, sizeof is_started);
	return is_started != NULL && is_started != heapctl_is_started && is_started() != 0;
}

static void omit_second_socket(struct agent_options *options)
{
	if (!options->with_socket || (!is_started_in(RTLD_DEFAULT) && !is_started_in(RTLD_NEXT)))
		return;
	options->with_socket = false;
	options->need_socket = false;
	log_write(&options->log, LOG_WARNING,
		"libheapctl.so is in this process as well, with an agent that has the socket");
}

int heapctl_start(const struct heapctl_options *given, struct heapctl_error *err)
{
	struct heapctl_options known = { .size = sizeof known };
	struct agent_options options = { .mode = AGENT_THREAD };
	struct error problem;

	if (given != NULL && !check_structure("options", given, sizeof given->size, err))
		return HEAPCTL_USAGE;
	if (given != NULL)
		copy_in(&known, sizeof known, given, given->size);
	if (!apply_options(&known, &options, &problem) ||
		!choose_name(known.name, &options, &problem))
		return fail(&problem, err);
	omit_second_socket(&options);
	return agent_start(&options, &problem) ? HEAPCTL_OK : fail(&problem, err);
}

void heapctl_stop(void)
{
	agent_stop();
}

int heapctl_get_fd(void)
{
	return agent_fd();
}

int heapctl_process(struct heapctl_error *err)
{
	struct error problem;

	return agent_process(&problem) ? HEAPCTL_OK : fail(&problem, err);
}

static int set_active(bool active, struct heapctl_error *err)
{
	struct agent_use use;
	struct error problem;
	bool was_active = false;

	if (!agent_lock(&use, &problem))
		return fail(&problem, err);
	const bool done = core_activate(use.core, active, &was_active, &problem);
	agent_unlock(&use, false);
	return done ? HEAPCTL_OK : fail(&problem, err);
}

int heapctl_activate(struct heapctl_error *err)
{
	return set_active(true, err);
}

int heapctl_deactivate(struct heapctl_error *err)
{
	return set_active(false, err);
}

static const char NO_DESCRIPTOR[] = "the descriptor is negative";

static bool take_profile(struct captured_profile *capture, struct error *err)
{
	struct agent_use use;

	if (!agent_lock(&use, err))
		return false;
	const bool done = core_profile(use.core, capture, err);
	agent_unlock(&use, false);
	return done;
}

int heapctl_dump_fd(int fd, struct heapctl_error *err)
{
	struct captured_profile capture = CAPTURE_NONE;
	struct error problem;

	if (fd < 0)
		return fail_usage(err, NO_DESCRIPTOR);
	if (!take_profile(&capture, &problem))
		return fail(&problem, err);
	const bool done = capture_copy_to_fd(&capture.file, fd, &problem);
	capture_release(&capture);
	return done ? HEAPCTL_OK : fail(&problem, err);
}

int heapctl_dump_path(const char *path, struct heapctl_error *err)
{
	struct captured_profile capture = CAPTURE_NONE;
	struct error problem;

	if (path == NULL || *path == '\0')
		return fail_usage(err, "no path");
	if (!take_profile(&capture, &problem))
		return fail(&problem, err);
	const bool done = capture_copy_to_path(&capture.file, path, &problem);
	capture_release(&capture);
	return done ? HEAPCTL_OK : fail(&problem, err);
}

int heapctl_reset(int lg_sample, struct heapctl_error *err)
{
	struct agent_use use;
	struct error problem;

	if (lg_sample != ALLOCATOR_LG_SAMPLE_KEEP &&
		(lg_sample < ALLOCATOR_LG_SAMPLE_LOW || lg_sample > ALLOCATOR_LG_SAMPLE_MAX)) {
		error_set(&problem, ERROR_USAGE, "lg_sample is %d, not from %d to %d", lg_sample,
			ALLOCATOR_LG_SAMPLE_LOW, ALLOCATOR_LG_SAMPLE_MAX);
		error_hint(&problem, "%d keeps the interval", ALLOCATOR_LG_SAMPLE_KEEP);
		return fail(&problem, err);
	}
	if (!agent_lock(&use, &problem))
		return fail(&problem, err);
	const bool done = core_reset(use.core, lg_sample, false, &problem);
	agent_unlock(&use, false);
	return done ? HEAPCTL_OK : fail(&problem, err);
}

int heapctl_stats(const char *options, int (*write)(void *context, const char *data, size_t size),
	void *context, struct heapctl_error *err)
{
	enum { PIECE_BYTES = 65536 };
	struct buffer text;
	struct agent_use use;
	struct error problem;

	if (write == NULL)
		return fail_usage(err, "no function to write to");
	if (!agent_lock(&use, &problem))
		return fail(&problem, err);
	buffer_init(&text, &memory_private);
	const bool done = allocator_stats(use.core->allocator, options, &text, &problem);
	agent_unlock(&use, false);
	/* Not under the lock: the program may call us again. */
	for (size_t at = 0; done && at < text.size; at += PIECE_BYTES) {
		const size_t left = text.size - at;
		if (write(context, text.data + at, left < PIECE_BYTES ? left : PIECE_BYTES) != 0)
			break;
	}
	buffer_deinit(&text);
	return done ? HEAPCTL_OK : fail(&problem, err);
}

static void fill_status(struct core *core, struct heapctl_status *status)
{
	struct allocator *const allocator = core->allocator;
	struct allocator_memory memory = { 0 };
	struct error reason = { 0 };
	struct error ignored;
	bool active = false;

	status->available = allocator_available(allocator, &reason);
	memcpy(status->reason, reason.message, sizeof status->reason);
	memcpy(status->hint, reason.hint, sizeof status->hint);
	memcpy(status->allocator, allocator->identity.name, sizeof status->allocator);
	memcpy(status->version, allocator->identity.version, sizeof status->version);
	status->lg_sample = allocator->profiling.lg_sample;
	if (status->available && core_observe(core, &active, &ignored) &&
		!allocator_lg_sample(allocator, &status->lg_sample, &ignored))
		status->lg_sample = allocator->profiling.lg_sample;
	status->active = active;
	if (allocator_memory(allocator, &memory, &ignored)) {
		status->allocated = memory.allocated;
		status->resident = memory.resident;
	}
	status->running = core_is_running(core);
	if (status->running) {
		status->run_id = core->machine.run.id;
		status->run_remaining_ms = core_remaining_ms(core, &core->machine.run);
	}
	snprintf(
		status->prof_prefix, sizeof status->prof_prefix, "%s", allocator->profiling.prefix);
	status->last_dump_time_ms = core->last_dump.time_ms;
	status->last_dump_ms = core->last_dump.duration_ms;
	status->last_dump_bytes = core->last_dump.size_bytes;
	status->last_dump_stacks = core->last_dump.stack_count;
}

int heapctl_get_status(struct heapctl_status *status, struct heapctl_error *err)
{
	struct heapctl_status filled = { 0 };
	struct agent_use use;
	struct error problem;

	if (!check_structure("status", status, sizeof status->size, err))
		return HEAPCTL_USAGE;
	if (!agent_lock(&use, &problem))
		return fail(&problem, err);
	fill_status(use.core, &filled);
	listener_path(use.listener, filled.socket, sizeof filled.socket);
	agent_unlock(&use, false);
	copy_out(status, status->size, &filled, sizeof filled);
	return HEAPCTL_OK;
}

struct warning_visit {
	void (*call)(void *context, const char *code, const char *message, const char *hint);
	void *context;
};

static void visit_warning(void *context, const struct allocator_warning *warning)
{
	const struct warning_visit *const visit = context;

	visit->call(visit->context, warning->code, warning->message, warning->hint);
}

int heapctl_warnings(
	void (*visit)(void *context, const char *code, const char *message, const char *hint),
	void *context, struct heapctl_error *err)
{
	struct warning_visit each = { .call = visit, .context = context };
	struct agent_use use;
	struct error problem;

	if (visit == NULL)
		return fail_usage(err, "no function to call");
	if (!agent_lock(&use, &problem))
		return fail(&problem, err);
	struct allocator *const allocator = use.core->allocator;
	agent_unlock(&use, false);
	/* The allocator lasts as long as the process; the program may call us again. */
	allocator_warnings(allocator, visit_warning, &each);
	return HEAPCTL_OK;
}

int heapctl_parse_duration(const char *text, int64_t *duration_ms, struct heapctl_error *err)
{
	struct error problem;

	if (text == NULL || duration_ms == NULL)
		return fail_usage(err, "no text or no place for the duration");
	return duration_parse_run(text, duration_ms, &problem) ? HEAPCTL_OK : fail(&problem, err);
}

static void give_run(const struct core *core, const struct run *from, bool already_running,
	struct heapctl_run *run)
{
	if (run == NULL)
		return;
	struct heapctl_run filled = { .state = (int)from->state,
		.already_running = already_running,
		.id = from->id,
		.started_ms = from->started_ms,
		.ended_ms = from->ended_ms,
		.duration_ms = from->duration_ms,
		.remaining_ms = core_remaining_ms(core, from),
		.start_bytes = from->start_bytes,
		.profile_bytes = from->profile_bytes,
		.lg_sample = from->lg_sample,
		.sampling_gaps = from->sampling_gaps,
		.resets = from->resets,
		.pid = from->pid,
		.ended_by = (int)from->ended_by };
	memcpy(filled.error, from->error, sizeof filled.error);
	copy_out(run, run->size, &filled, sizeof filled);
}

_Static_assert(RUN_TEXT_MAX == sizeof(((struct heapctl_run *)0)->error), "it is copied whole");
_Static_assert((int)RUN_RUNNING == (int)HEAPCTL_RUN_RUNNING &&
		       (int)RUN_FINISHED == (int)HEAPCTL_RUN_FINISHED &&
		       (int)RUN_FAILED == (int)HEAPCTL_RUN_FAILED,
	"states have the same numbers");
_Static_assert((int)RUN_END_NONE == (int)HEAPCTL_RUN_END_NONE &&
		       (int)RUN_END_DEADLINE == (int)HEAPCTL_RUN_END_DEADLINE &&
		       (int)RUN_END_STOP == (int)HEAPCTL_RUN_END_STOP &&
		       (int)RUN_END_EXIT == (int)HEAPCTL_RUN_END_EXIT,
	"and so have ends");

int heapctl_run_start(int64_t duration_ms, struct heapctl_run *run, struct heapctl_error *err)
{
	struct agent_use use;
	struct error problem;
	struct run started;
	bool already_running = false;

	if (run != NULL && !check_structure("run", run, sizeof run->size, err))
		return HEAPCTL_USAGE;
	if (!agent_lock(&use, &problem))
		return fail(&problem, err);
	const struct core_run_request request = {
		.duration_ms = duration_ms == 0 ? DURATION_DEFAULT_RUN_MS : duration_ms,
		.lg_sample = ALLOCATOR_LG_SAMPLE_KEEP,
	};
	const bool done = core_run_start(use.core, &request, &started, &already_running, &problem);
	if (done)
		give_run(use.core, &started, already_running, run);
	agent_unlock(&use, true);
	return done ? HEAPCTL_OK : fail(&problem, err);
}

int heapctl_run_stop(struct heapctl_run *run, struct heapctl_error *err)
{
	struct agent_use use;
	struct error problem;
	struct run stopped;

	if (run != NULL && !check_structure("run", run, sizeof run->size, err))
		return HEAPCTL_USAGE;
	if (!agent_lock(&use, &problem))
		return fail(&problem, err);
	const bool done = core_run_stop(use.core, &stopped, &problem);
	if (done)
		give_run(use.core, &stopped, false, run);
	agent_unlock(&use, true);
	return done ? HEAPCTL_OK : fail(&problem, err);
}

static bool find_run(struct core *core, int64_t id, struct run *found, struct error *err)
{
	if (id == 0)
		id = core_newest_run(core);
	if (id == 0)
		return error_set(err, ERROR_NOT_FOUND, "there is no run");
	return core_run_find(core, id, found, err);
}

int heapctl_run_get(int64_t id, struct heapctl_run *run, struct heapctl_error *err)
{
	struct agent_use use;
	struct error problem;
	struct run found;

	if (!check_structure("run", run, sizeof run->size, err))
		return HEAPCTL_USAGE;
	if (!agent_lock(&use, &problem))
		return fail(&problem, err);
	const bool done = find_run(use.core, id, &found, &problem);
	if (done)
		give_run(use.core, &found, false, run);
	agent_unlock(&use, false);
	return done ? HEAPCTL_OK : fail(&problem, err);
}

int heapctl_run_dump_fd(int64_t id, int start, int fd, struct heapctl_error *err)
{
	struct descriptor file = DESCRIPTOR_NONE;
	uint64_t size_bytes = 0;
	struct agent_use use;
	struct error problem;
	struct run found;

	if (fd < 0)
		return fail_usage(err, NO_DESCRIPTOR);
	if (!agent_lock(&use, &problem))
		return fail(&problem, err);
	const bool opened =
		find_run(use.core, id, &found, &problem) &&
		core_run_open(use.core, found.id, start != 0 ? RUN_STORE_START : RUN_STORE_END,
			&file, &size_bytes, &problem);
	agent_unlock(&use, false);
	const bool done = opened && capture_copy_to_fd(&file, fd, &problem);
	descriptor_close(&file);
	return done ? HEAPCTL_OK : fail(&problem, err);
}

/* What a response holds on to, and copies of texts that the routes write into. */
struct owned_response {
	struct response response;
	char method[16];
	char target[2048];
	char form[2048];
};

static bool copy_text(char *to, size_t size, const char *from)
{
	const size_t length = strlen(from);

	if (length >= size)
		return false;
	memcpy(to, from, length + 1);
	return true;
}

static bool copy_request(const struct heapctl_request *request, struct owned_response *owned)
{
	return copy_text(owned->method, sizeof owned->method, request->method) &&
	       copy_text(owned->target, sizeof owned->target, request->target) &&
	       (request->form == NULL || copy_text(owned->form, sizeof owned->form, request->form));
}

static bool answer(struct owned_response *owned, struct error *err)
{
	const struct agent_request request = {
		.method = owned->method, .target = owned->target, .form = owned->form
	};
	struct agent_use use;

	if (!agent_lock(&use, err))
		return false;
	routes_handle(use.core, &request, &owned->response);
	agent_unlock(&use, true);
	return true;
}

static void give_response(struct owned_response *owned, struct heapctl_response *response)
{
	const struct response *const from = &owned->response;
	const struct heapctl_response filled = { .status = from->status,
		.fd = from->file.fd,
		.body_size = response_size(from),
		.body = from->file.fd >= 0 ? NULL : from->body.data,
		.content_type = from->content_type,
		.dump_ms = from->dump_ms,
		.owner = owned };

	copy_out(response, response->size, &filled, sizeof filled);
}

int heapctl_handle(const struct heapctl_request *request, struct heapctl_response *response,
	struct heapctl_error *err)
{
	enum {
		/* All that the first header had. */
		REQUEST_BYTES_MIN = offsetof(struct heapctl_request, form) + sizeof request->form,
		RESPONSE_BYTES_MIN =
			offsetof(struct heapctl_response, owner) + sizeof response->owner,
	};
	struct error problem;

	if (!check_structure("request", request, REQUEST_BYTES_MIN, err) ||
		!check_structure("response", response, RESPONSE_BYTES_MIN, err))
		return HEAPCTL_USAGE;
	if (request->method == NULL || request->target == NULL)
		return fail_usage(err, "the request's method or target is not set");
	struct owned_response *const owned = memory_resize(&memory_private, NULL, 0, sizeof *owned);
	if (owned == NULL) {
		error_set(&problem, ERROR_MEMORY, "no memory for the answer");
		return fail(&problem, err);
	}
	response_init(&owned->response, &memory_private);
	const bool fits = copy_request(request, owned);
	if (fits && answer(owned, &problem)) {
		give_response(owned, response);
		return HEAPCTL_OK;
	}
	memory_resize(&memory_private, owned, sizeof *owned, 0);
	return fits ? fail(&problem, err) : fail_usage(err, "the request is too long");
}

void heapctl_response_release(struct heapctl_response *response)
{
	if (response == NULL || response->owner == NULL)
		return;
	struct owned_response *const owned = response->owner;
	response_deinit(&owned->response);
	memory_resize(&memory_private, owned, sizeof *owned, 0);
	response->owner = NULL;
	response->body = NULL;
	response->fd = -1;
}
