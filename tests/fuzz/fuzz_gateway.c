/* SPDX-License-Identifier: Apache-2.0 */
/* What a client may send: method, target and the headers that the guard reads, a line each. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "gateway/request_policy.h"
#include "gateway/router.h"
#include "gateway/handlers.h"
#include "wire/http_target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LINES = 6 };

/* Cuts the text at its newlines; missing lines are NULL. */
static void cut(char *text, char *lines[LINES])
{
	for (size_t i = 0; i < LINES; i++) {
		lines[i] = text;
		if (text == NULL)
			continue;
		char *const newline = strchr(text, '\n');
		if (newline != NULL)
			*newline = '\0';
		text = newline == NULL ? NULL : newline + 1;
	}
}

static void check_request(unsigned method, const char *target)
{
	CLEANUP(free_cleanup) char *text = xstrdup(target);
	struct request request = { .method = method };
	struct http_target parsed;
	struct error err = { 0 };
	struct reply reply;
	unsigned allowed;

	if (!http_target_parse(text, &parsed, &err))
		return;
	char *const path = text + (parsed.path - text);
	if (!router_match(routes, path, &request, &allowed, &err))
		return;
	assert(request.route != NULL && (request.route->methods & method) != 0);
	if (!router_check(&parsed, &request, &err)) {
		reply_init(&reply);
		reply_failure(&request, &err, &reply);
		assert(reply.status >= 400 && reply.body != NULL);
		reply_deinit(&reply);
		return;
	}
	(void)router_is_change(&request);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(free_cleanup) char *text = xstrndup((const char *)data, size);
	struct error err = { 0 };
	char *lines[LINES];

	cut(text, lines);
	const struct request_policy_headers headers = {
		.host = lines[1],
		.origin = lines[2],
		.referer = lines[3],
		.fetch_site = lines[4],
		.authorization = lines[5],
	};
	check_request(METHOD_GET, lines[0]);
	check_request(METHOD_POST, lines[0]);
	(void)router_body_limit(routes, "POST", lines[0]);
	const bool knows_host = request_policy_check_host(headers.host, &err);
	const bool is_own = request_policy_check_site(&headers, true, &err);
	/* A request that may change something may also read. */
	assert(!is_own || request_policy_check_site(&headers, false, &err));
	(void)knows_host;
	assert(!request_policy_has_token(headers.authorization, ""));
	return 0;
}
