/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run_record.h"

#include <inttypes.h>
#include <string.h>

enum field_type {
	FIELD_I64,
	FIELD_U64,
	FIELD_I32,
	FIELD_UNSIGNED,
	FIELD_STATE,
	FIELD_END,
	FIELD_TEXT,
};

static const struct field {
	const char *name;
	enum field_type type;
	size_t offset;
	size_t size;
} fields[] = {
	{ "id", FIELD_I64, offsetof(struct run, id), 0 },
	{ "pid", FIELD_I32, offsetof(struct run, pid), 0 },
	{ "state", FIELD_STATE, offsetof(struct run, state), 0 },
	{ "ended_by", FIELD_END, offsetof(struct run, ended_by), 0 },
	{ "started_ms", FIELD_I64, offsetof(struct run, started_ms), 0 },
	{ "ended_ms", FIELD_I64, offsetof(struct run, ended_ms), 0 },
	{ "duration_ms", FIELD_I64, offsetof(struct run, duration_ms), 0 },
	{ "lg_sample", FIELD_UNSIGNED, offsetof(struct run, lg_sample), 0 },
	{ "was_active", FIELD_UNSIGNED, offsetof(struct run, was_active), 0 },
	{ "sampling_gaps", FIELD_UNSIGNED, offsetof(struct run, sampling_gaps), 0 },
	{ "resets", FIELD_UNSIGNED, offsetof(struct run, resets), 0 },
	{ "start_bytes", FIELD_U64, offsetof(struct run, start_bytes), 0 },
	{ "profile_bytes", FIELD_U64, offsetof(struct run, profile_bytes), 0 },
	{ "version", FIELD_TEXT, offsetof(struct run, version),
		sizeof(((struct run *)0)->version) },
	{ "error", FIELD_TEXT, offsetof(struct run, error), sizeof(((struct run *)0)->error) },
};

static void write_value(struct buffer *out, const struct field *field, const void *value)
{
	switch (field->type) {
	case FIELD_I64:
	case FIELD_U64:
		buffer_printf(out, "%" PRIu64, *(const uint64_t *)value);
		break;
	case FIELD_I32:
	case FIELD_UNSIGNED:
	case FIELD_STATE:
	case FIELD_END:
		buffer_printf(out, "%u", *(const unsigned *)value);
		break;
	case FIELD_TEXT:
		for (const char *c = value; *c != '\0'; c++)
			buffer_append_char(out, *c == '\n' ? ' ' : *c);
		break;
	}
}

void run_record_write(struct buffer *out, const struct run *run)
{
	for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
		buffer_append_string(out, fields[i].name);
		buffer_append_char(out, ' ');
		write_value(out, &fields[i], (const char *)run + fields[i].offset);
		buffer_append_char(out, '\n');
	}
}

static bool parse_number(const char *text, size_t size, uint64_t most, uint64_t *number)
{
	*number = 0;
	for (size_t i = 0; i < size; i++) {
		if (text[i] < '0' || text[i] > '9' ||
			__builtin_mul_overflow(*number, UINT64_C(10), number) ||
			__builtin_add_overflow(*number, (uint64_t)(text[i] - '0'), number))
			return false;
	}
	return size > 0 && *number <= most;
}

static bool read_value(const struct field *field, const char *text, size_t size, void *value)
{
	static const uint64_t most[] = {
		[FIELD_I64] = INT64_MAX,
		[FIELD_U64] = UINT64_MAX,
		[FIELD_I32] = INT32_MAX,
		[FIELD_UNSIGNED] = UINT32_MAX,
		[FIELD_STATE] = RUN_FAILED,
		[FIELD_END] = RUN_END_EXIT,
	};
	uint64_t number = 0;

	if (field->type == FIELD_TEXT) {
		if (size >= field->size)
			size = field->size - 1;
		memcpy(value, text, size);
		((char *)value)[size] = '\0';
		return true;
	}
	if (!parse_number(text, size, most[field->type], &number))
		return false;
	if (field->type == FIELD_I64 || field->type == FIELD_U64)
		*(uint64_t *)value = number;
	else
		*(unsigned *)value = (unsigned)number;
	return true;
}

static bool read_line(const char *line, size_t size, struct run *run)
{
	const char *const space = memchr(line, ' ', size);
	const size_t name = space == NULL ? size : (size_t)(space - line);

	for (size_t i = 0; space != NULL && i < sizeof fields / sizeof fields[0]; i++) {
		if (strlen(fields[i].name) == name && memcmp(fields[i].name, line, name) == 0)
			return read_value(&fields[i], space + 1, size - name - 1,
				(char *)run + fields[i].offset);
	}
	return true;
}

bool run_record_read(const char *text, size_t size, struct run *run)
{
	struct run parsed = { 0 };

	while (size > 0) {
		const char *const newline = memchr(text, '\n', size);
		if (newline == NULL || !read_line(text, (size_t)(newline - text), &parsed))
			return false;
		size -= (size_t)(newline + 1 - text);
		text = newline + 1;
	}
	if (parsed.id == 0 || parsed.state == RUN_IDLE)
		return false;
	*run = parsed;
	return true;
}

void run_record_json(
	struct json_writer *json, const struct run *run, int64_t remaining_ms, bool already_running)
{
	json_object_begin(json);
	json_member_integer(json, "id", run->id);
	json_member_integer(json, "pid", run->pid);
	json_member_string(json, "state", run_state_name(run->state));
	json_member_integer(json, "started_ms", run->started_ms);
	json_key(json, "ended_ms");
	if (run->state == RUN_RUNNING)
		json_put_null(json);
	else
		json_put_integer(json, run->ended_ms);
	json_member_integer(json, "duration_ms", run->duration_ms);
	json_member_integer(json, "remaining_ms", remaining_ms);
	json_member_string(json, "ended_by", run_end_name(run->ended_by));
	json_member_string(json, "error", run->error[0] == '\0' ? NULL : run->error);
	json_member_unsigned(json, "lg_sample", run->lg_sample);
	json_member_unsigned(json, "sample_interval", sample_interval_bytes(run->lg_sample));
	json_member_bool(json, "was_active", run->was_active != 0);
	json_member_string(json, "jemalloc_version", run->version);
	json_member_unsigned(json, "sampling_gaps", run->sampling_gaps);
	json_member_unsigned(json, "resets", run->resets);
	json_member_unsigned(json, "start_bytes", run->start_bytes);
	json_member_unsigned(json, "profile_bytes", run->profile_bytes);
	json_member_bool(json, "already_running", already_running);
	json_object_end(json);
}
