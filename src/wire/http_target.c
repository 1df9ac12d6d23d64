/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/http_target.h"

#include <string.h>

#include "base/cursor.h"

/* Decodes in place; false for a bad escape or a control character. */
static bool decode(char *text, bool plus_is_space)
{
	char *to = text;

	for (const char *from = text; *from != '\0'; from++) {
		char c = *from;
		if (c == '%') {
			const int high = hex_digit(from[1]);
			const int low = high < 0 ? -1 : hex_digit(from[2]);
			if (low < 0)
				return false;
			c = (char)(high * 16 + low);
			from += 2;
		} else if (c == '+' && plus_is_space) {
			c = ' ';
		}
		if ((unsigned char)c < 0x20 || c == 0x7f)
			return false;
		*to++ = c;
	}
	*to = '\0';
	return true;
}

static bool add_parameter(char *text, struct http_target *target, struct error *err)
{
	char *const equals = strchr(text, '=');
	char *const value = equals == NULL ? text + strlen(text) : equals + 1;

	if (equals != NULL)
		*equals = '\0';
	if (!decode(text, true) || !decode(value, true)) {
		error_set(err, ERROR_USAGE, "a parameter is badly percent-encoded");
		return error_hint(err, "write %%25 for a '%%'; %%00 is refused");
	}
	if (target->parameter_count == HTTP_PARAMETERS_MAX) {
		error_set(err, ERROR_USAGE, "more than %d parameters", HTTP_PARAMETERS_MAX);
		return error_hint(err, "leave out those that the request does not need");
	}
	if (http_target_parameter(target, text) != NULL) {
		error_set(err, ERROR_USAGE, "duplicate parameter '%.64s'", text);
		return error_hint(err, "give it once");
	}
	target->parameters[target->parameter_count++] =
		(struct http_parameter){ .name = text, .value = value };
	return true;
}

bool http_target_add_query(char *text, struct http_target *target, struct error *err)
{
	while (*text != '\0') {
		char *const part = text;
		text += strcspn(text, "&");
		if (*text == '&')
			*text++ = '\0';
		if (*part != '\0' && !add_parameter(part, target, err))
			return false;
	}
	return true;
}

/* Skips "http://host" in front of the path. */
static char *skip_authority(char *text)
{
	char *const colon = strstr(text, "://");

	if (text[0] == '/' || colon == NULL)
		return text;
	return colon + 3 + strcspn(colon + 3, "/?");
}

bool http_target_parse(char *text, struct http_target *target, struct error *err)
{
	char *const path = skip_authority(text);
	struct http_target parsed = { .path = path };

	if (path[0] != '/') {
		error_set(err, ERROR_USAGE, "the request's path does not begin with '/'");
		return error_hint(err, "write it as in http://HOST/PATH");
	}
	char *const hash = strchr(path, '#');
	if (hash != NULL)
		*hash = '\0';
	char *const query = strchr(path, '?');
	if (query != NULL) {
		*query = '\0';
		if (!http_target_add_query(query + 1, &parsed, err))
			return false;
	}
	if (!decode(path, false)) {
		error_set(err, ERROR_USAGE, "the path is badly percent-encoded");
		return error_hint(err, "write %%25 for a '%%'; %%00 is refused");
	}
	*target = parsed;
	return true;
}

const char *http_target_parameter(const struct http_target *target, const char *name)
{
	for (unsigned i = 0; i < target->parameter_count; i++) {
		if (strcmp(target->parameters[i].name, name) == 0)
			return target->parameters[i].value;
	}
	return NULL;
}

static bool is_listed(const char *name, const char *const *names)
{
	for (; *names != NULL; names++) {
		if (strcmp(*names, name) == 0)
			return true;
	}
	return false;
}

bool http_target_allow(
	const struct http_target *target, const char *const *names, struct error *err)
{
	for (unsigned i = 0; i < target->parameter_count; i++) {
		if (!is_listed(target->parameters[i].name, names))
			return error_set(err, ERROR_USAGE, "'%s' has no parameter '%.64s'",
				target->path, target->parameters[i].name);
	}
	return true;
}

void http_append_encoded(struct buffer *out, const char *text)
{
	for (const char *c = text; *c != '\0'; c++) {
		const bool letter = (*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z');
		if (letter || (*c >= '0' && *c <= '9') || strchr("-._~", *c) != NULL)
			buffer_append_char(out, *c);
		else
			buffer_printf(out, "%%%02X", (unsigned)(unsigned char)*c);
	}
}
