/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes JSON into a buffer; the writer places commas, quotes and escapes. Nothing is indented.
 * Bytes that are not UTF-8 are written as U+FFFD, numbers that JSON has no form for as null.
 * Safe on the resident side with a resident buffer. (Values are "put" because jansson, which is in
 * the same program, has json_string and its like.)
 *
 *	json_object_begin(&json);
 *	json_key(&json, "pid");
 *	json_put_integer(&json, 42);
 *	json_object_end(&json);
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

struct json_writer {
	struct buffer *out;
	bool need_comma;
};

static inline void json_init(struct json_writer *json, struct buffer *out)
{
	*json = (struct json_writer){ .out = out };
}

void json_object_begin(struct json_writer *json);
void json_object_end(struct json_writer *json);
void json_array_begin(struct json_writer *json);
void json_array_end(struct json_writer *json);

void json_key(struct json_writer *json, const char *key);

/* NULL is written as null. */
void json_put_string(struct json_writer *json, const char *text);
void json_put_string_sized(struct json_writer *json, const char *text, size_t size);
void json_put_integer(struct json_writer *json, int64_t value);
void json_put_unsigned(struct json_writer *json, uint64_t value);
void json_put_real(struct json_writer *json, double value);
void json_put_bool(struct json_writer *json, bool value);
void json_put_null(struct json_writer *json);

/* A text that is JSON already. */
void json_put_raw(struct json_writer *json, const char *text, size_t size);

/* Key and value in one. */
void json_member_string(struct json_writer *json, const char *key, const char *text);
void json_member_integer(struct json_writer *json, const char *key, int64_t value);
/* 0 is written as null. */
void json_member_integer_or_null(struct json_writer *json, const char *key, int64_t value);
void json_member_unsigned(struct json_writer *json, const char *key, uint64_t value);
void json_member_real(struct json_writer *json, const char *key, double value);
void json_member_bool(struct json_writer *json, const char *key, bool value);
void json_member_object(struct json_writer *json, const char *key);
void json_member_array(struct json_writer *json, const char *key);
