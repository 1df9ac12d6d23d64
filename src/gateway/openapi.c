/* SPDX-License-Identifier: Apache-2.0 */
/* /openapi.json: a description of all routes. */
#include "gateway/handlers.h"

#include <stdio.h>
#include <string.h>

#include "base/json_writer.h"
#include "base/xalloc.h"
#include "gateway/answer_schemas.h"

/* What any route may answer. */
static const struct route_status common_statuses[] = {
	{ 400, "the request is invalid" },
	{ 401, "the token is missing or wrong" },
	{ 403, "requested by a page of another site" },
	{ 404, "no such target, run or name" },
	{ 409, "not now, or the target's name is not unique" },
	{ 413, "the request's body is too large" },
	{ 500, "the agent failed" },
	{ 501, "never in this process: no profile can be taken, or the allocator lacks it" },
	{ 503, "the target or the gateway is too busy, or the target has just ended" },
	{ 0 },
};

static void put_schema(struct json_writer *json, const struct parameter *parameter)
{
	json_member_object(json, "schema");
	switch (parameter->kind) {
	case PARAMETER_NUMBER:
		json_member_string(json, "type", "integer");
		json_member_integer(json, "minimum", parameter->min);
		json_member_integer(json, "maximum", parameter->max);
		break;
	case PARAMETER_CHOICE:
		json_member_string(json, "type", "string");
		json_member_array(json, "enum");
		for (size_t i = 0; parameter->choices[i] != NULL; i++)
			json_put_string(json, parameter->choices[i]);
		json_array_end(json);
		break;
	case PARAMETER_DURATION:
		json_member_string(json, "type", "string");
		json_member_string(json, "example", "5mins");
		break;
	case PARAMETER_TEXT:
		json_member_string(json, "type", "string");
		break;
	}
	json_object_end(json);
}

static void put_parameter(struct json_writer *json, const struct parameter *parameter)
{
	json_object_begin(json);
	json_member_string(json, "name", parameter->name);
	json_member_string(json, "in", parameter->is_in_path ? "path" : "query");
	json_member_bool(json, "required", parameter->is_in_path || parameter->is_required);
	json_member_string(json, "description", parameter->help);
	put_schema(json, parameter);
	json_object_end(json);
}

static const struct parameter target_parameter = {
	.name = "target",
	.is_in_path = true,
	.help = "name or pid of the target",
};

static void put_parameters(struct json_writer *json, const struct route *route, bool has_target)
{
	json_member_array(json, "parameters");
	if (has_target)
		put_parameter(json, &target_parameter);
	for (size_t i = 0; route->parameters != NULL && route->parameters[i].name != NULL; i++)
		put_parameter(json, &route->parameters[i]);
	json_array_end(json);
}

static bool has_status(const struct route_status *statuses, int status)
{
	for (; statuses != NULL && statuses->status != 0; statuses++) {
		if (statuses->status == status)
			return true;
	}
	return false;
}

/* A binary body has an empty schema. */
static void put_body_schema(struct json_writer *json, const char *name)
{
	char reference[64];

	json_member_object(json, "schema");
	if (name != NULL) {
		snprintf(reference, sizeof reference, "#/components/schemas/%s", name);
		json_member_string(json, "$ref", reference);
	}
	json_object_end(json);
}

static void put_content(struct json_writer *json, const char *media_type, const char *schema)
{
	char type[64];

	/* The key is the media type without its parameters. */
	snprintf(type, sizeof type, "%.*s", (int)strcspn(media_type, ";"), media_type);
	json_member_object(json, type);
	put_body_schema(json, schema);
	json_object_end(json);
}

static const struct parameter *find_format(const struct route *route)
{
	for (const struct parameter *parameter = route->parameters;
		parameter != NULL && parameter->name != NULL; parameter++) {
		if (strcmp(parameter->name, "format") == 0)
			return parameter;
	}
	return NULL;
}

static bool is_type(const char *a, const char *b)
{
	const size_t size = strcspn(a, ";");

	return size == strcspn(b, ";") && strncmp(a, b, size) == 0;
}

static const char *schema_of_format(const char *type)
{
	if (is_type(type, "application/json"))
		return "Drawing";
	return strncmp(type, "text/", 5) == 0 || is_type(type, "image/svg+xml") ? "Picture" : NULL;
}

/* The other media types that `format` selects: each once. */
static void put_other_formats(struct json_writer *json, const struct route *route)
{
	const char *const *const names = find_format(route)->choices;

	for (size_t i = 0; names[i] != NULL; i++) {
		const char *const type = route->format_media_type(names[i]);
		bool is_known = is_type(type, route->media_type);
		for (size_t j = 0; j < i; j++)
			is_known |= is_type(type, route->format_media_type(names[j]));
		if (!is_known)
			put_content(json, type, schema_of_format(type));
	}
}

static void put_status(
	struct json_writer *json, const struct route *route, const struct route_status *status)
{
	const bool is_error = status->status >= 400;
	char number[16];

	snprintf(number, sizeof number, "%d", status->status);
	json_member_object(json, number);
	json_member_string(json, "description", status->meaning);
	json_member_object(json, "content");
	if (is_error && route->errors_are_text)
		put_content(json, "text/plain", "ErrorText");
	else if (is_error)
		put_content(json, "application/json", "Error");
	else if (status->status < 300)
		put_content(json, route->media_type, route->schema);
	if (status->status < 300 && route->format_media_type != NULL)
		put_other_formats(json, route);
	if (status->status < 300 && route->other_media_type != NULL)
		put_content(json, route->other_media_type, route->other_schema);
	json_object_end(json);
	json_object_end(json);
}

static void put_responses(struct json_writer *json, const struct route *route)
{
	json_member_object(json, "responses");
	if (!has_status(route->statuses, 200))
		put_status(json, route, &(struct route_status){ 200, "as described" });
	for (const struct route_status *status = route->statuses;
		status != NULL && status->status != 0; status++)
		put_status(json, route, status);
	for (const struct route_status *status = common_statuses; status->status != 0; status++) {
		if (!has_status(route->statuses, status->status))
			put_status(json, route, status);
	}
	json_object_end(json);
}

static void put_body(struct json_writer *json, const struct route *route)
{
	if (route->body_limit == 0 && route->upload_limit == 0)
		return;
	json_member_object(json, "requestBody");
	json_member_object(json, "content");
	json_member_object(json, route->upload_limit > 0 ? "application/octet-stream"
							 : "application/x-www-form-urlencoded");
	json_object_end(json);
	json_object_end(json);
	json_object_end(json);
}

static void put_operation(
	struct json_writer *json, const struct route *route, unsigned method, bool has_target)
{
	json_member_object(json, method == METHOD_GET ? "get" : "post");
	json_member_array(json, "tags");
	json_put_string(json, route->tag);
	json_array_end(json);
	json_member_string(json, "summary", route->summary);
	json_member_bool(json, "x-changes", route->changes);
	put_parameters(json, route, has_target);
	if (method == METHOD_POST)
		put_body(json, route);
	put_responses(json, route);
	json_object_end(json);
}

/* All methods of one path belong into one object, so the table keeps equal patterns together. */
static const struct route *put_path(
	struct json_writer *json, const struct route *route, bool has_target)
{
	const char *const pattern = route->pattern;
	char path[128];

	snprintf(path, sizeof path, "%s%s", has_target ? "/targets/{target}" : "", pattern);
	json_member_object(json, path);
	for (; route->pattern != NULL && strcmp(route->pattern, pattern) == 0; route++) {
		if ((route->methods & METHOD_GET) != 0)
			put_operation(json, route, METHOD_GET, has_target);
		if ((route->methods & METHOD_POST) != 0)
			put_operation(json, route, METHOD_POST, has_target);
	}
	json_object_end(json);
	return route;
}

static void put_paths(struct json_writer *json, const struct route *table, bool has_target)
{
	for (const struct route *route = table; route->pattern != NULL;) {
		if (!has_target || route->scope == ROUTE_TARGET) {
			route = put_path(json, route, has_target);
			continue;
		}
		route++;
	}
}

static void put_info(struct json_writer *json)
{
	json_member_object(json, "info");
	json_member_string(json, "title", "heapctl gateway");
	json_member_string(json, "version", HEAPCTL_VERSION);
	json_member_string(json, "description",
		"Heap profiling of running servers. Each path of a target is at the root for the "
		"gateway's own target, and below /targets/NAME for every target. Where the gateway "
		"has "
		"a token, send it as 'Authorization: Bearer TOKEN'. Browsers on other sites are "
		"refused.");
	json_object_end(json);
}

static void put_components(struct json_writer *json)
{
	json_member_object(json, "components");
	json_key(json, "schemas");
	json_put_raw(json, answer_schemas, sizeof answer_schemas);
	json_member_object(json, "securitySchemes");
	json_member_object(json, "token");
	json_member_string(json, "type", "http");
	json_member_string(json, "scheme", "bearer");
	json_object_end(json);
	json_object_end(json);
	json_object_end(json);
}

static void put_security(struct json_writer *json)
{
	json_member_array(json, "security");
	json_object_begin(json);
	json_object_end(json);
	json_object_begin(json);
	json_member_array(json, "token");
	json_array_end(json);
	json_object_end(json);
	json_array_end(json);
}

void openapi_write(const struct route *table, struct buffer *out)
{
	struct json_writer json;

	json_init(&json, out);
	json_object_begin(&json);
	json_member_string(&json, "openapi", "3.1.0");
	put_info(&json);
	json_member_object(&json, "paths");
	put_paths(&json, table, false);
	put_paths(&json, table, true);
	json_object_end(&json);
	put_components(&json);
	put_security(&json);
	json_object_end(&json);
	buffer_append_char(out, '\n');
}

bool api_openapi(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer body = BUFFER_OR_EXIT;

	(void)request;
	(void)err;
	openapi_write(gateway->routes, &body);
	reply_buffer(reply, 200, "application/json", &body);
	reply->may_be_cached = true;
	return true;
}
