/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/router.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "wire/http_target.h"

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

/* Points the request's values at the segments that stand in for {name}. */
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
	for (const struct route *route = routes; route->pattern != NULL; route++) {
		if (route->scope < min || !matches(route->pattern, path))
			continue;
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
	if (*allowed != 0)
		return error_set(err, ERROR_USAGE, "method not allowed");
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

	if (!route->is_lenient && !refuse_unknown(target, route, err))
		return false;
	for (size_t i = 0; route->parameters != NULL && route->parameters[i].name != NULL; i++) {
		const struct parameter *const parameter = &route->parameters[i];
		struct request_value *const value = &request->values[i];
		if (!parameter->is_in_path)
			value->text = http_target_parameter(target, parameter->name);
		if (value->text != NULL && !parse_value(parameter, value, err))
			return false;
		if (value->text == NULL && parameter->is_required)
			return error_set(
				err, ERROR_USAGE, "the parameter %s is missing", parameter->name);
	}
	return true;
}

bool router_is_change(const struct request *request)
{
	const struct route *const route = request->route;

	return route->changes ||
	       (route->changes_with != NULL && request_text(request, route->changes_with) != NULL);
}
