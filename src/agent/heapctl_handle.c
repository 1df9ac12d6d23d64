/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl_handle: the agent's routes behind the program's HTTP server. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "agent/agent.h"
#include "base/memory.h"
#include "agent/routes.h"
#include "heapctl.h"

/* What a response holds on to, and copies of texts that the routes write into. */
struct owned_response {
	struct response response;
	char method[16];
	char target[2048];
	char form[2048];
};

static int fail(int code, const char *message, struct heapctl_error *err)
{
	if (err != NULL) {
		*err = (struct heapctl_error){ .code = code };
		snprintf(err->message, sizeof err->message, "%s", message);
	}
	return code;
}

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

static void answer(struct core *core, struct owned_response *owned)
{
	const struct agent_request request = {
		.method = owned->method, .target = owned->target, .form = owned->form
	};

	routes_handle(core, &request, &owned->response);
}

static void give(struct owned_response *owned, struct heapctl_response *response)
{
	const struct response *const from = &owned->response;
	const size_t size = response->size;
	const struct heapctl_response filled = { .size = size,
		.status = from->status,
		.fd = from->file.fd,
		.body_size = response_size(from),
		.body = from->file.fd >= 0 ? NULL : from->body.data,
		.content_type = from->content_type,
		.dump_ms = from->dump_ms,
		.owner = owned };

	memset(response, 0, size);
	memcpy(response, &filled, size < sizeof filled ? size : sizeof filled);
}

int heapctl_handle(const struct heapctl_request *request, struct heapctl_response *response,
	struct heapctl_error *err)
{
	enum {
		/* What is larger was never set. */
		LARGEST = 65536,
		/* All that the first header had. */
		REQUEST_BYTES_MIN = offsetof(struct heapctl_request, form) + sizeof request->form,
		RESPONSE_BYTES_MIN =
			offsetof(struct heapctl_response, owner) + sizeof response->owner,
	};
	struct agent_use use;
	struct error problem;

	if (request == NULL || request->size < REQUEST_BYTES_MIN || request->size > LARGEST ||
		request->method == NULL || request->target == NULL)
		return fail(
			HEAPCTL_USAGE, "the request or its size, method or target is not set", err);
	if (response == NULL || response->size < RESPONSE_BYTES_MIN || response->size > LARGEST)
		return fail(HEAPCTL_USAGE, "the response or its size is not set", err);
	struct owned_response *const owned = memory_resize(&memory_private, NULL, 0, sizeof *owned);
	if (owned == NULL)
		return fail(HEAPCTL_MEMORY, "no memory for the answer", err);
	response_init(&owned->response, &memory_private);
	if (!copy_request(request, owned)) {
		memory_resize(&memory_private, owned, sizeof *owned, 0);
		return fail(HEAPCTL_USAGE, "the request is too long", err);
	}
	if (!agent_lock(&use, &problem)) {
		memory_resize(&memory_private, owned, sizeof *owned, 0);
		return fail(HEAPCTL_STATE, problem.message, err);
	}
	answer(use.core, owned);
	agent_unlock(&use, true);
	give(owned, response);
	return HEAPCTL_OK;
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
