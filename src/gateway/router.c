/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/router.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/units.h"
#include "base/xalloc.h"
#include "wire/http_target.h"

enum { FORM_BYTES = 4096 };

#define TARGETS_PREFIX "/targets/"

/* Cuts the segment at `*rest` off at its slash; `*rest` moves behind it, NULL after the last. */
static char *next_segment(char **rest)
{
	char *const segment = *rest;
	char *const slash = strchr(segment, '/');

	*rest = slash == NULL ? NULL : slash + 1;
	if (slash != NULL)
		*slash = '\0';
	return segment;
}

static const struct parameter *path_parameter(
	const struct route *route, const char *name, size_t size, size_t *position)
{
	for (size_t i = 0; route->parameters != NULL && route->parameters[i].name != NULL; i++) {
		const struct parameter *const parameter = &route->parameters[i];
		if (parameter->is_in_path && strlen(parameter->name) == size &&
			strncmp(parameter->name, name, size) == 0) {
			*position = i;
			return parameter;
		}
	}
	return NULL;
}

/* Whether `path` has the shape of the pattern; no memory, nothing written. */
static bool matches(const char *pattern, const char *path)
{
	while (*pattern != '\0') {
		if (*pattern == '{') {
			const size_t size = strcspn(path, "/");
			if (size == 0)
				return false;
			path += size;
			pattern += strcspn(pattern, "}") + 1;
		} else if (*pattern++ != *path++) {
			return false;
		}
	}
	return *path == '\0';
}

/* Points the request's values at the segments that match {name}. */
static void bind_path(const struct route *route, char *path, struct request *request)
{
	const char *pattern = route->pattern + 1;
	char *rest = path + 1;

	while (rest != NULL) {
		const size_t size = strcspn(pattern, "/");
		char *const segment = next_segment(&rest);
		size_t position;
		if (*pattern == '{' &&
			path_parameter(route, pattern + 1, size - 2, &position) != NULL)
			request->values[position].text = segment;
		pattern += pattern[size] == '/' ? size + 1 : size;
	}
}

static bool find_route(const struct route *routes, char *path, enum route_scope min,
	struct request *request, unsigned *allowed)
{
	bool is_named = false;

	for (const struct route *route = routes; route->pattern != NULL; route++) {
		const bool has_value = strchr(route->pattern, '{') != NULL;
		/* The last part of "/v1/runs/stop" is no id. */
		if (route->scope < min || (has_value && is_named) || !matches(route->pattern, path))
			continue;
		is_named = !has_value;
		*allowed |= route->methods;
		if ((route->methods & request->method) == 0)
			continue;
		request->route = route;
		bind_path(route, path, request);
		return true;
	}
	return false;
}

bool router_match(const struct route *routes, char *path, struct request *request,
	unsigned *allowed, struct error *err)
{
	const size_t prefix = strlen(TARGETS_PREFIX);
	char *const name = path + prefix;
	char *const slash = strncmp(path, TARGETS_PREFIX, prefix) == 0 ? strchr(name, '/') : NULL;

	*allowed = 0;
	if (slash != NULL && slash != name) {
		/* The name moves one byte to the left, so that the rest keeps its slash. */
		memmove(name - 1, name, (size_t)(slash - name));
		slash[-1] = '\0';
		request->target_name = name - 1;
		if (find_route(routes, slash, ROUTE_TARGET, request, allowed))
			return true;
	} else if (find_route(routes, path, ROUTE_GLOBAL, request, allowed)) {
		return true;
	}
	if (*allowed != 0) {
		error_set(err, ERROR_USAGE, "method not allowed");
		return error_hint(err, "send %s",
			*allowed == METHOD_GET	  ? "GET"
			: *allowed == METHOD_POST ? "POST"
						  : "GET or POST");
	}
	error_set(err, ERROR_NOT_FOUND, "there is no such page");
	return error_hint(err, "/openapi.json lists all of them");
}

static bool parse_number(
	const struct parameter *parameter, struct request_value *value, struct error *err)
{
	char *end;

	errno = 0;
	value->number = strtoll(value->text, &end, 10);
	/* strtoll would take blanks and a plus. */
	const bool begins_well =
		*value->text == '-' || (*value->text >= '0' && *value->text <= '9');
	if (errno != 0 || !begins_well || *end != '\0' || value->number < parameter->min ||
		value->number > parameter->max)
		return error_set(err, ERROR_USAGE,
			"%s must be a whole number from %lld to %lld, not '%.40s'", parameter->name,
			(long long)parameter->min, (long long)parameter->max, value->text);
	return true;
}

static bool parse_choice(
	const struct parameter *parameter, struct request_value *value, struct error *err)
{
	char known[160] = "";
	size_t size = 0;

	for (size_t i = 0; parameter->choices[i] != NULL; i++) {
		if (strcmp(parameter->choices[i], value->text) == 0) {
			value->number = (int64_t)i;
			return true;
		}
		if (size < sizeof known)
			size += (size_t)snprintf(known + size, sizeof known - size, "%s%s",
				i == 0 ? "" : ", ", parameter->choices[i]);
	}
	return error_set(err, ERROR_USAGE, "%s must be one of %s, not '%.40s'", parameter->name,
		known, value->text);
}

static bool parse_value(
	const struct parameter *parameter, struct request_value *value, struct error *err)
{
	switch (parameter->kind) {
	case PARAMETER_TEXT:
		return true;
	case PARAMETER_NUMBER:
		return parse_number(parameter, value, err);
	case PARAMETER_DURATION:
		return duration_parse_run(value->text, &value->number, err) ||
		       error_prefix(err, "%s", parameter->name);
	case PARAMETER_CHOICE:
		return parse_choice(parameter, value, err);
	}
	return false;
}

static bool refuse_unknown(
	const struct http_target *target, const struct route *route, struct error *err)
{
	for (unsigned i = 0; i < target->parameter_count; i++) {
		bool is_known = false;
		for (size_t j = 0; route->parameters != NULL && route->parameters[j].name != NULL;
			j++)
			is_known = is_known || (!route->parameters[j].is_in_path &&
						       strcmp(route->parameters[j].name,
							       target->parameters[i].name) == 0);
		if (!is_known) {
			error_set(err, ERROR_USAGE, "there is no parameter '%.60s'",
				target->parameters[i].name);
			return error_hint(err, "/openapi.json describes them");
		}
	}
	return true;
}

bool router_check(const struct http_target *target, struct request *request, struct error *err)
{
	const struct route *const route = request->route;

	if (!refuse_unknown(target, route, err))
		return false;
	for (size_t i = 0; route->parameters != NULL && route->parameters[i].name != NULL; i++) {
		const struct parameter *const parameter = &route->parameters[i];
		struct request_value *const value = &request->values[i];
		if (!parameter->is_in_path)
			value->text = http_target_parameter(target, parameter->name);
		if (value->text != NULL && !parse_value(parameter, value, err))
			return false;
		if (value->text == NULL && parameter->is_required) {
			error_set(err, ERROR_USAGE, "the parameter %s is missing", parameter->name);
			return error_hint(err, "/openapi.json describes it");
		}
	}
	return true;
}

bool router_is_change(const struct request *request)
{
	const struct route *const route = request->route;

	return route->changes ||
	       (route->changes_with != NULL && request_text(request, route->changes_with) != NULL);
}

static unsigned parse_method(const char *method)
{
	if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
		return METHOD_GET;
	return strcmp(method, "POST") == 0 ? METHOD_POST : 0;
}

/* The route of a request whose body is not there yet; NULL when there is none. */
static const struct route *route_of(
	const struct route *routes, const char *method, const char *target)
{
	struct request request = { .method = parse_method(method) };
	struct http_target parsed;
	struct error err;
	unsigned allowed;
	CLEANUP(free_cleanup) char *text = xstrdup(target);
	CLEANUP(free_cleanup) char *path = NULL;

	if (!http_target_parse(text, &parsed, &err))
		return NULL;
	path = xstrdup(parsed.path);
	return router_match(routes, path, &request, &allowed, &err) ? request.route : NULL;
}

uint64_t router_upload_limit(const struct route *routes, const char *method, const char *target)
{
	const struct route *const route = route_of(routes, method, target);

	return route == NULL ? 0 : route->upload_limit;
}

size_t router_body_limit(const struct route *routes, const char *method, const char *target)
{
	const struct route *const route = route_of(routes, method, target);

	return route == NULL || route->body_limit == 0 ? FORM_BYTES : route->body_limit;
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
 * A program, or a browser that opens the address, may have the token as the URL's password and
 * sends it when challenged. For the page's own requests a browser would ask its user.
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
	error_hint(&err,
		"send 'Authorization: Bearer TOKEN' with the token in the gateway's --token-file");
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
	parsed->request.upload = incoming->upload;
	parsed->request.host = incoming->policy.host == NULL ? "" : incoming->policy.host;
	parsed->request.accept = incoming->accept == NULL ? "" : incoming->accept;
	parsed->request.if_none_match =
		incoming->if_none_match == NULL ? "" : incoming->if_none_match;
	parsed->request.client_fd = incoming->client_fd;
	if (!http_target_parse(parsed->text, &parsed->target, &err)) {
		reply_error(reply, &err);
		return false;
	}
	/* The path is in our own copy of the text, before the query. */
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
	/* Pages of other sites do not have the token; a proxy may have any name. */
	if (gateway->token == NULL && !request_policy_check_host(incoming->policy.host, err))
		return false;
	return request_policy_check_site(&incoming->policy, is_change, err);
}

/* The log may be a terminal: only plain text of a client gets there. */
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

/* What the request may have to wait for: a target, or many of them. */
static const char *name_target(const struct request *request)
{
	if (request->target_name != NULL)
		return request->target_name;
	return request->route->scope == ROUTE_TARGET ? "" : request->route->pattern;
}

/* The page's own files and /openapi.json need no target, so they take no place. */
static void handle(struct gateway *gateway, const struct request *request, struct reply *reply)
{
	struct work_place place = { .target = name_target(request) };
	struct error err = { 0 };
	bool ok;

	if (request->route->is_open) {
		ok = request->route->handle(gateway, request, reply, &err);
	} else {
		ok = gateway_begin_work(gateway, &place, &err);
		if (ok) {
			ok = request->route->handle(gateway, request, reply, &err);
			gateway_end_work(gateway, &place);
		}
	}
	if (!ok)
		reply_failure(request, &err, reply);
}

/* Origin, token and parameters, in this order. */
static bool check_request(struct gateway *gateway, const struct incoming *incoming,
	struct parsed *parsed, struct reply *reply)
{
	struct request *const request = &parsed->request;
	struct error err = { 0 };
	const bool is_valid = check_parameters(incoming, parsed, &err);
	const bool is_change = router_is_change(request);
	struct error guard_err = { 0 };

	if (!check_origin(gateway, incoming, is_change, &guard_err)) {
		__atomic_add_fetch(&gateway->counters.refused, 1, __ATOMIC_RELAXED);
		reply_error(reply, &guard_err);
		return false;
	}
	if (gateway->token != NULL && !incoming->is_private && !request->route->is_open &&
		!request_policy_has_token(incoming->policy.authorization, gateway->token)) {
		__atomic_add_fetch(&gateway->counters.refused, 1, __ATOMIC_RELAXED);
		reply_without_token(incoming, reply);
		return false;
	}
	if (!is_valid)
		reply_failure(request, &err, reply);
	return is_valid;
}

static void answer(struct gateway *gateway, const struct incoming *incoming, struct parsed *parsed,
	struct reply *reply)
{
	struct request *const request = &parsed->request;
	struct error err = { 0 };

	if (!check_request(gateway, incoming, parsed, reply))
		return;
	const bool is_change = router_is_change(request);
	/* HEAD, as sent by link checkers, must change nothing. */
	if (is_change && strcmp(incoming->method, "HEAD") == 0) {
		error_set(&err, ERROR_USAGE, "HEAD is not allowed for a change");
		error_hint(&err, "send POST, or GET where /openapi.json lists it");
		reply_not_allowed(request->route->methods, &err, reply);
		return;
	}
	handle(gateway, request, reply);
	if (is_change)
		log_change(gateway, incoming, reply->status);
}

bool router_admits(struct gateway *gateway, const struct incoming *incoming, struct reply *reply)
{
	struct parsed parsed = { 0 };
	const bool ok = parse(gateway, incoming, &parsed, reply) &&
			check_request(gateway, incoming, &parsed, reply);

	parsed_deinit(&parsed);
	return ok;
}

void router_answer(struct gateway *gateway, const struct incoming *incoming, struct reply *reply)
{
	struct parsed parsed = { 0 };

	if (incoming->body_too_large)
		reply_text(reply, 413, "the request's body is too large\n");
	else if (parse(gateway, incoming, &parsed, reply))
		answer(gateway, incoming, &parsed, reply);
	parsed_deinit(&parsed);
}
