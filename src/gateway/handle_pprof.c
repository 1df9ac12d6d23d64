/* SPDX-License-Identifier: Apache-2.0 */
/* /pprof/ of gperftools and jeprof, and /debug/pprof/ of Go (gzipped protobuf). */
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "gateway/handlers.h"
#include "gateway/merged_render.h"
#include "gateway/profile_render.h"
#include "gateway/worker.h"

enum { TEXT_BYTES = 16 * 1024 * 1024 };

static bool read_proc(
	const struct backend *backend, const char *file, struct buffer *out, struct error *err)
{
	char path[64];

	if (backend->pid == 0)
		return error_set(
			err, ERROR_UNSUPPORTED, "%s is not on this machine", backend->target.label);
	snprintf(path, sizeof path, "/proc/%d/%s", (int)backend->pid, file);
	out->limit = TEXT_BYTES;
	return file_read(path, out, err);
}

/* The words of its command line with `separator` between them. */
static bool read_command(
	const struct backend *backend, char separator, struct buffer *out, struct error *err)
{
	if (!read_proc(backend, "cmdline", out, err))
		return false;
	/* Servers that set their title leave blanks and NULs after it. */
	while (out->size > 0 &&
		(out->data[out->size - 1] == '\0' || out->data[out->size - 1] == ' '))
		out->size--;
	for (size_t i = 0; i < out->size; i++) {
		if (out->data[i] == '\0')
			out->data[i] = separator;
	}
	return true;
}

bool pprof_heap(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(waiting_clients_deinit) struct waiting_clients clients = WAITING_CLIENTS_NONE;
	struct backend_answer answer;

	waiting_clients_add(&clients, request->client_fd);
	if (!gateway_find(gateway, request, &backend, err) ||
		!backend_get_profile(backend, "/v1/profile", &clients, &answer, err))
		return false;
	reply_blob(reply, 200, "text/plain; charset=utf-8", answer.body);
	blob_drop(answer.body);
	return true;
}

bool pprof_growth(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;

	(void)reply;
	if (request->target_name != NULL && !gateway_find(gateway, request, &backend, err))
		return false;
	error_set(err, ERROR_UNSUPPORTED, "jemalloc does not record the growth of the heap");
	return error_hint(err, "compare two profiles instead: /debug/pprof/heap?seconds=60");
}

static bool reply_command(struct gateway *gateway, const struct request *request, char separator,
	const char *end, struct reply *reply, struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (!gateway_find(gateway, request, &backend, err) ||
		!read_command(backend, separator, &text, err))
		return false;
	buffer_append_string(&text, end);
	reply_buffer(reply, 200, "text/plain; charset=utf-8", &text);
	return true;
}

bool pprof_cmdline(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	return reply_command(gateway, request, '\n', "\n", reply, err);
}

bool go_cmdline(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	return reply_command(gateway, request, '\0', "", reply, err);
}

/* "0xa+0xb" as one address in a line; false when it is something else. */
static bool append_addresses(const struct request *request, struct buffer *out, struct error *err)
{
	static const char allowed[] = "0123456789abcdefABCDEFxX+ \r\n";

	for (size_t i = 0; i < request->body_size; i++) {
		const char c = request->body[i];
		if (c == '\0' || strchr(allowed, c) == NULL)
			return error_set(err, ERROR_USAGE,
				"byte %zu of the request does not fit 0xADDRESS+0xADDRESS", i);
		buffer_append_char(out, c == '+' || c == ' ' || c == '\r' ? '\n' : c);
	}
	buffer_append_char(out, '\n');
	return true;
}

/* The worker's input: mappings, an empty line, addresses. */
static bool make_question(const struct backend *backend, const struct request *request,
	struct buffer *out, struct error *err)
{
	if (!read_proc(backend, "maps", out, err))
		return false;
	out->limit = SIZE_MAX;
	buffer_append_char(out, '\n');
	return append_addresses(request, out, err);
}

static bool look_up(struct gateway *gateway, const struct request *request, struct blob **answer,
	struct error *err)
{
	const char *const arguments[] = { "symbols", NULL };
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(buffer_deinit) struct buffer question = BUFFER_OR_EXIT;

	if (!gateway_find(gateway, request, &backend, err) ||
		!make_question(backend, request, &question, err))
		return false;
	const struct worker_job job = {
		.owner = backend->owner,
		.arguments = arguments,
		.standard_input = question.data,
		.standard_input_size = question.size,
	};
	return worker_run(&gateway->workers, &job, answer, err);
}

bool pprof_symbol(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	CLEANUP(blob_cleanup) struct blob *answer = NULL;

	if (request->target_name != NULL && !gateway_find(gateway, request, &backend, err))
		return false;
	if (request->method == METHOD_GET || request->body_size == 0) {
		reply_text(reply, 200, "num_symbols: 1\n");
		return true;
	}
	if (!look_up(gateway, request, &answer, err))
		return false;
	reply_blob(reply, 200, "text/plain; charset=utf-8", answer);
	return true;
}

bool go_index(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;

	if (!gateway_find(gateway, request, &backend, err))
		return false;
	reply_text(reply, 200,
		"/debug/pprof/ of %s\n\n"
		"heap              objects in use, as pprof\n"
		"heap?seconds=30   the difference of two profiles, sampling stays as it is\n"
		"heap?debug=1      as jemalloc wrote it\n"
		"heap?merge=1      the sum of all processes of the name\n"
		"heap?normalize=1  addresses as the files have them; also symbols=none, "
		"labels=none\n"
		"allocs            the same with all allocations, where prof_accum is on\n"
		"cmdline           the command line\n\n"
		"There is no profile, goroutine, mutex, block or trace: switch them off in the "
		"scraper.\n",
		backend->target.label);
	return true;
}

static bool draw_two(struct gateway *gateway, struct backend *backend,
	const struct request *request, const struct profile_render *render, struct blob **result,
	struct error *err)
{
	CLEANUP(run_profiles_deinit) struct run_profiles before = { 0 };
	CLEANUP(run_profiles_deinit) struct run_profiles now = { 0 };
	CLEANUP(waiting_clients_deinit) struct waiting_clients clients = WAITING_CLIENTS_NONE;

	waiting_clients_add(&clients, request->client_fd);
	if (!run_profiles_load(gateway, backend, RUN_PROFILES_NOW, &clients, &before, err))
		return false;
	if (!gateway_wait(gateway, request, request_number(request, "seconds", 0) * 1000))
		return error_set(err, ERROR_TIMEOUT, "the wait was cancelled");
	return run_profiles_load(gateway, backend, RUN_PROFILES_NOW, &clients, &now, err) &&
	       profile_render_run(gateway, backend, render, &clients, now.profile, before.profile,
		       result, err);
}

/* Two snapshots with the time between them. */
static bool draw_difference(struct gateway *gateway, struct backend *backend,
	const struct request *request, const struct profile_render *render, struct blob **result,
	struct error *err)
{
	if (!gateway_begin_wait(gateway, err))
		return false;
	const bool ok = draw_two(gateway, backend, request, render, result, err);
	gateway_end_wait(gateway);
	return ok;
}

/* The profiles of single processes, and those that merge=1 adds up. */
static bool render_heap(struct gateway *gateway, const struct request *request,
	const struct profile_render *render, struct blob **result, struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	const bool is_difference = render->base_id == RUN_PROFILES_NOW;

	if (request_number(request, "merge", 0) != 0) {
		if (!is_difference)
			return merged_render_get(gateway, request, render, result, err);
		error_set(err, ERROR_USAGE, "merge=1 adds up what is in use now");
		return error_hint(err, "leave out seconds, or merge=1 and choose /targets/PID/");
	}
	return gateway_find(gateway, request, &backend, err) &&
	       (is_difference ? draw_difference(gateway, backend, request, render, result, err)
			      : profile_render_get(gateway, backend, request, render, result, err));
}

static bool reply_heap(struct gateway *gateway, const struct request *request, const char *counter,
	struct reply *reply, struct error *err)
{
	CLEANUP(blob_cleanup) struct blob *result = NULL;
	const bool is_difference = request_number(request, "seconds", 0) > 0;
	const bool is_text = request_number(request, "debug", 0) > 0 && !is_difference;
	const struct profile_render render = {
		.format = profile_format_find(is_text ? "raw" : "pprof"),
		.counter = counter,
		.base_id = is_difference ? RUN_PROFILES_NOW : -1,
		.span_ms = request_number(request, "seconds", 0) * 1000,
		.has_file_addresses = request_number(request, "normalize", 0) != 0,
		.strips_names = request_text(request, "symbols") != NULL,
		.strips_labels = request_text(request, "labels") != NULL,
		.drops_negative = request_number(request, "drop_negative", 0) != 0,
	};

	if (!render_heap(gateway, request, &render, &result, err))
		return false;
	reply_blob(reply, 200, is_text ? "text/plain; charset=utf-8" : "application/octet-stream",
		result);
	if (!is_text)
		reply_attachment(reply, "%s", strrchr(request->route->pattern, '/') + 1);
	return true;
}

bool go_heap(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	return reply_heap(gateway, request, NULL, reply, err);
}

bool go_allocs(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	return reply_heap(gateway, request, "alloc_space", reply, err);
}

/* /mtev/, as in libmtev: GET for everything, and 500 for every failure. */

bool mtev_memory(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	struct backend_answer answer;

	if (!gateway_find(gateway, request, &backend, err) ||
		!backend_get(backend, "/v1/stats?options=J", BACKEND_PROFILE_MS, &answer, err))
		return false;
	reply_blob(reply, 200, "application/json", answer.body);
	blob_drop(answer.body);
	return true;
}

static const char *word(const json_t *status, const char *path)
{
	const json_t *const value = json_at(status, path);

	/* Another allocator has no such settings, which is not false. */
	if (strcmp(json_text(status, "allocator.name"), "jemalloc") != 0)
		return "error";
	return json_is_boolean(value) ? (json_is_true(value) ? "true" : "false") : "error";
}

static bool reply_state(struct backend *backend, struct reply *reply, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	if (!backend_get_json(backend, "/v1/status", &status, err))
		return false;
	const char *const enabled = word(status, "profiling.enabled");
	reply_text(reply, 200, "opt.prof: %s\n%sprof.active: %s\nprof.thread_active_init: %s\n",
		enabled,
		strcmp(enabled, "false") == 0 ? "# it has to be started with "
						"MALLOC_CONF=\"prof:true,prof_active:false\"\n"
					      : "",
		word(status, "profiling.active"), word(status, "profiling.thread_active_init"));
	return true;
}

static bool set_active(struct backend *backend, bool active, struct reply *reply, struct error *err)
{
	CLEANUP(blob_cleanup) struct blob *body = NULL;

	if (!backend_post(backend, active ? "/v1/activate" : "/v1/deactivate", &body, NULL, err))
		return false;
	reply_text(reply, 200, "heap profiling is %s\n", active ? "activated" : "deactivated");
	return true;
}

static bool reply_dump(struct backend *backend, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(waiting_clients_deinit) struct waiting_clients clients = WAITING_CLIENTS_NONE;
	struct backend_answer answer;

	waiting_clients_add(&clients, request->client_fd);
	if (!backend_get_profile(backend, "/v1/profile", &clients, &answer, err))
		return false;
	reply_blob(reply, 200, "application/x-jemalloc-heap-profile", answer.body);
	blob_drop(answer.body);
	return true;
}

bool mtev_heap_profile(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	const char *const active = request_text(request, "active");
	const char *const dump = request_text(request, "trigger_dump");

	if (!gateway_find(gateway, request, &backend, err))
		return false;
	if (active != NULL)
		return set_active(backend, strcmp(active, "true") == 0, reply, err);
	if (dump != NULL && strcmp(dump, "true") == 0)
		return reply_dump(backend, request, reply, err);
	return reply_state(backend, reply, err);
}
