/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The target of a request, taken apart: a path and named parameters, percent-decoding done.
 *
 * Works in place on the caller's text and takes no memory, so all strings live as long as that
 * text. A decoded NUL or control character is refused; so is the same parameter twice.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/error.h"

enum { HTTP_PARAMETERS_MAX = 16 };

struct http_parameter {
	const char *name;
	const char *value; /* "" for `?name` and `?name=` */
};

struct http_target {
	const char *path; /* decoded; begins with '/' */
	unsigned parameter_count;
	struct http_parameter parameters[HTTP_PARAMETERS_MAX];
};

/*
 * Takes `text` (path and query, or an absolute URL whose host is skipped) apart, writing into it.
 * ERROR_USAGE when it makes no sense.
 */
MUST_CHECK bool http_target_parse(char *text, struct http_target *target, struct error *err);

/* Adds the parameters of "a=1&b=2": a query or a form's body. Writes into `text`. */
MUST_CHECK bool http_target_add_query(char *text, struct http_target *target, struct error *err);

/* The value of the parameter; NULL when it is not there. */
const char *http_target_parameter(const struct http_target *target, const char *name);

/* ERROR_USAGE naming the first parameter that is not in the NULL-terminated list. */
MUST_CHECK bool http_target_allow(
	const struct http_target *target, const char *const *names, struct error *err);

/* Appends `text` percent-encoded, so that it can stand in a path or as a parameter's value. */
void http_append_encoded(struct buffer *out, const char *text);
