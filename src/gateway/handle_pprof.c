/* SPDX-License-Identifier: Apache-2.0 */
/* /pprof/, as gperftools' and jeprof's users know it. */
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"
#include "client/agent_client.h"
#include "gateway/handlers.h"
#include "gateway/process_text.h"
#include "gateway/worker.h"

void pprof_heap(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	struct backend_answer answer;
	struct error err = { 0 };

	if (!gateway_find(gateway, request, &backend, &err) ||
		!backend_get_profile(backend, "/v1/profile", &answer, &err)) {
		reply_failure(request, &err, reply);
		return;
	}
	reply_blob(reply, 200, "text/plain; charset=utf-8", answer.body);
	blob_drop(answer.body);
}

void pprof_growth(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	struct error err = { 0 };

	(void)gateway;
	error_set(&err, ERROR_UNSUPPORTED, "jemalloc does not record the growth of the heap");
	error_hint(&err, "compare two profiles instead: /debug/pprof/heap?seconds=60");
	reply_failure(request, &err, reply);
}

void pprof_cmdline(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	CLEANUP(backend_cleanup) struct backend *backend = NULL;
	struct error err = { 0 };
	struct buffer text;

	buffer_init(&text, &memory_or_exit);
	if (gateway_find(gateway, request, &backend, &err) &&
		process_text_command(backend, '\n', &text, &err)) {
		buffer_append_char(&text, '\n');
		reply_buffer(reply, 200, "text/plain; charset=utf-8", &text);
	} else {
		reply_failure(request, &err, reply);
	}
	buffer_deinit(&text);
}

/* "0xa+0xb" as one address in a line; false when it is something else. */
static bool append_addresses(const struct request *request, struct buffer *out, struct error *err)
{
	static const char allowed[] = "0123456789abcdefABCDEFxX+ \r\n";

	for (size_t i = 0; i < request->body_size; i++) {
		const char c = request->body[i];
		if (c == '\0' || strchr(allowed, c) == NULL)
			return error_set(err, ERROR_USAGE,
				"byte %zu of the request is no part of 0xADDRESS+0xADDRESS", i);
		buffer_append_char(out, c == '+' || c == ' ' || c == '\r' ? '\n' : c);
	}
	buffer_append_char(out, '\n');
	return true;
}

/* Mappings, an empty line, addresses: what the worker wants. */
static bool make_question(const struct backend *backend, const struct request *request,
	struct buffer *out, struct error *err)
{
	if (!process_text_maps(backend, out, err))
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
	struct buffer question;

	buffer_init(&question, &memory_or_exit);
	bool ok = gateway_find(gateway, request, &backend, err) &&
		  make_question(backend, request, &question, err);
	if (ok) {
		const struct worker_job job = {
			.arguments = arguments,
			.standard_input = question.data,
			.standard_input_size = question.size,
		};
		ok = worker_run(&gateway->workers, &job, answer, err);
	}
	buffer_deinit(&question);
	return ok;
}

void pprof_symbol(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	CLEANUP(blob_cleanup) struct blob *answer = NULL;
	struct error err = { 0 };

	if (request->method == METHOD_GET || request->body_size == 0)
		reply_text(reply, 200, "num_symbols: 1\n");
	else if (look_up(gateway, request, &answer, &err))
		reply_blob(reply, 200, "text/plain; charset=utf-8", answer);
	else
		reply_failure(request, &err, reply);
}
