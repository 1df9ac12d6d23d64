/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/dispatch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/xalloc.h"
#include "gateway/router.h"
#include "wire/http_target.h"

enum { FORM_BYTES = 4096 };

static unsigned parse_method(const char *method)
{
	if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
		return METHOD_GET;
	return strcmp(method, "POST") == 0 ? METHOD_POST : 0;
}

size_t dispatch_body_limit(const struct route *routes, const char *method, const char *target)
{
	struct request request = { .method = parse_method(method) };
	struct http_target parsed;
	struct error err;
	unsigned allowed;
	CLEANUP(free_cleanup) char *text = xstrdup(target);
	CLEANUP(free_cleanup) char *path = NULL;

	if (!http_target_parse(text, &parsed, &err))
		return FORM_BYTES;
	path = xstrdup(parsed.path);
	if (!router_match(routes, path, &request, &allowed, &err) || request.route->body_limit == 0)
		return FORM_BYTES;
	return request.route->body_limit;
}

static void reply_not_allowed(unsigned allowed, const struct error *err, struct reply *reply)
{
	reply_error(reply, err);
	reply->status = 405;
	reply_header(reply, "Allow", "%s%s%s", (allowed & METHOD_GET) != 0 ? "GET, HEAD" : "",
		allowed == (METHOD_GET | METHOD_POST) ? ", " : "",
		(allowed & METHOD_POST) != 0 ? "POST" : "");
}

/*
 * A program, or a browser that opens the address, may have the token as the password of the URL,
 * and sends it when it is asked for. For a request of the page's own a browser would ask its user.
 */
static bool may_have_password(const struct incoming *incoming)
{
	return incoming->policy.fetch_mode == NULL ||
	       strcmp(incoming->policy.fetch_mode, "navigate") == 0;
}

static void reply_without_token(const struct incoming *incoming, struct reply *reply)
{
	struct error err = { 0 };

	error_set(&err, ERROR_DENIED, "the token is missing or wrong");
	error_hint(&err, "send 'Authorization: Bearer TOKEN' with what the gateway's --token-file "
			 "holds");
	reply_error(reply, &err);
	reply->status = 401;
	reply_header(reply, "WWW-Authenticate", "Bearer realm=\"heapctl\"");
	/* Chromium reads one challenge in a line. */
	if (may_have_password(incoming))
		reply_header(reply, "WWW-Authenticate", "Basic realm=\"heapctl\"");
}

static bool is_form(const struct incoming *incoming)
{
	static const char form[] = "application/x-www-form-urlencoded";

	return incoming->content_type != NULL &&
	       strncasecmp(incoming->content_type, form, sizeof form - 1) == 0;
}

/* What the request is about, taken out of its bytes; owns the texts that `request` points into. */
struct parsed {
	char *text;
	char *form;
	struct http_target target;
	struct request request;
};

static void parsed_deinit(struct parsed *parsed)
{
	free(parsed->text);
	free(parsed->form);
}

/* A wrong target or method is answered here. */
static bool parse(const struct gateway *gateway, const struct incoming *incoming,
	struct parsed *parsed, struct reply *reply)
{
	struct error err = { 0 };
	unsigned allowed = 0;

	parsed->text = xstrdup(incoming->target);
	parsed->request.method = parse_method(incoming->method);
	parsed->request.body = incoming->body;
	parsed->request.body_size = incoming->body_size;
	parsed->request.accept = incoming->accept == NULL ? "" : incoming->accept;
	parsed->request.if_none_match =
		incoming->if_none_match == NULL ? "" : incoming->if_none_match;
	parsed->request.client_fd = incoming->client_fd;
	if (!http_target_parse(parsed->text, &parsed->target, &err)) {
		reply_error(reply, &err);
		return false;
	}
	/* The path lives in our own copy of the text, in front of the query. */
	char *const path = parsed->text + (parsed->target.path - parsed->text);
	if (router_match(gateway->routes, path, &parsed->request, &allowed, &err))
		return true;
	if (allowed != 0)
		reply_not_allowed(allowed, &err, reply);
	else
		reply_error(reply, &err);
	return false;
}

/* Parameters from the query and from a form. Needed before the guard: they may mean a change. */
static bool check_parameters(
	const struct incoming *incoming, struct parsed *parsed, struct error *err)
{
	struct request *const request = &parsed->request;

	if (request->method == METHOD_POST && request->route->body_limit == 0 &&
		is_form(incoming) && incoming->body_size > 0) {
		parsed->form = xstrndup(incoming->body, incoming->body_size);
		if (!http_target_add_query(parsed->form, &parsed->target, err))
			return false;
	}
	return router_check(&parsed->target, request, err);
}

static bool check_origin(const struct gateway *gateway, const struct incoming *incoming,
	bool is_change, struct error *err)
{
	if (incoming->is_private)
		return true;
	/* A page of another site does not have the token; a proxy may have any name. */
	if (gateway->token == NULL && !request_policy_check_host(incoming->policy.host, err))
		return false;
	return request_policy_check_site(&incoming->policy, is_change, err);
}

/* The log may be a terminal: a client's bytes that are no plain text stay out of it. */
static void log_change(const struct gateway *gateway, const struct incoming *incoming, int status)
{
	char line[400], target[256];

	if (gateway->log == NULL)
		return;
	snprintf(target, sizeof target, "%s", incoming->target);
	for (char *c = target; *c != '\0'; c++)
		*c = *c > ' ' && *c <= '~' ? *c : '?';
	snprintf(line, sizeof line, "%s asked for %s %s: %d", incoming->protocol_peer,
		incoming->method, target, status);
	gateway->log(line);
}

/* The page's own files and the description of all paths need no target, and so no place. */
static void handle(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	struct error err = { 0 };

	if (request->route->is_open) {
		request->route->handle(gateway, request, reply);
	} else if (!gateway_begin_work(gateway, &err)) {
		reply_failure(request, &err, reply);
	} else {
		request->route->handle(gateway, request, reply);
		gateway_end_work(gateway);
	}
}

static void answer(struct gateway *gateway, const struct incoming *incoming, struct parsed *parsed,
	struct reply *reply)
{
	struct request *const request = &parsed->request;
	struct error err = { 0 };
	const bool is_valid = check_parameters(incoming, parsed, &err);
	const bool is_change = router_is_change(request);
	struct error guard_err = { 0 };

	if (!check_origin(gateway, incoming, is_change, &guard_err)) {
		__atomic_add_fetch(&gateway->counters.refused, 1, __ATOMIC_RELAXED);
		reply_error(reply, &guard_err);
		return;
	}
	if (gateway->token != NULL && !incoming->is_private && !request->route->is_open &&
		!request_policy_has_token(incoming->policy.authorization, gateway->token)) {
		__atomic_add_fetch(&gateway->counters.refused, 1, __ATOMIC_RELAXED);
		reply_without_token(incoming, reply);
		return;
	}
	if (!is_valid) {
		reply_failure(request, &err, reply);
		return;
	}
	/* A client that asks for a head only, such as a checker of links, must change nothing. */
	if (is_change && strcmp(incoming->method, "HEAD") == 0) {
		error_set(&err, ERROR_USAGE, "HEAD is not allowed for a change");
		reply_not_allowed(request->route->methods, &err, reply);
		return;
	}
	handle(gateway, request, reply);
	if (is_change)
		log_change(gateway, incoming, reply->status);
}

void dispatch(struct gateway *gateway, const struct incoming *incoming, struct reply *reply)
{
	struct parsed parsed = { 0 };

	if (incoming->body_too_large)
		reply_text(reply, 413, "the request's body is too large\n");
	else if (parse(gateway, incoming, &parsed, reply))
		answer(gateway, incoming, &parsed, reply);
	parsed_deinit(&parsed);
}
