/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void run_machine_init(struct run_machine *machine, int64_t last_id)
{
	*machine = (struct run_machine){ .state = RUN_IDLE, .last_id = last_id };
}

static enum run_action start(struct run_machine *machine, const struct run_input *input)
{
	if (machine->state == RUN_RUNNING)
		return RUN_ACTION_ALREADY;
	machine->last_id =
		input->wall_ms > machine->last_id ? input->wall_ms : machine->last_id + 1;
	machine->run = (struct run){
		.id = machine->last_id,
		.state = RUN_IDLE,
		.started_ms = input->wall_ms,
		.duration_ms = input->duration_ms,
	};
	return RUN_ACTION_BEGIN;
}

static enum run_action begun(struct run_machine *machine, const struct run_input *input)
{
	machine->state = RUN_RUNNING;
	machine->run.state = RUN_RUNNING;
	machine->deadline_ms = input->now_ms + machine->run.duration_ms;
	machine->sampling_seen_off = false;
	return RUN_ACTION_NONE;
}

static enum run_action finish(struct run_machine *machine, enum run_end end)
{
	machine->run.ended_by = end;
	return RUN_ACTION_FINISH;
}

static enum run_action ended(
	struct run_machine *machine, const struct run_input *input, enum run_state state)
{
	machine->state = RUN_IDLE;
	machine->run.state = state;
	machine->run.ended_ms = input->wall_ms;
	if (input->error != NULL)
		snprintf(machine->run.error, sizeof machine->run.error, "%s", input->error);
	return RUN_ACTION_NONE;
}

/* One gap each time that sampling is switched off. */
static enum run_action observe_sampling(struct run_machine *machine, bool is_off)
{
	if (is_off && !machine->sampling_seen_off)
		machine->run.sampling_gaps++;
	machine->sampling_seen_off = is_off;
	return RUN_ACTION_NONE;
}

/* What can only happen while a run is on. */
static enum run_action step_running(struct run_machine *machine, const struct run_input *input)
{
	switch (input->event) {
	case RUN_EVENT_TICK:
		if (input->now_ms < machine->deadline_ms)
			return RUN_ACTION_NONE;
		return finish(machine, RUN_END_DEADLINE);
	case RUN_EVENT_STOP:
		return finish(machine, RUN_END_STOP);
	case RUN_EVENT_ENDED:
		return ended(machine, input, RUN_FINISHED);
	case RUN_EVENT_END_FAILED:
		return ended(machine, input, RUN_FAILED);
	case RUN_EVENT_SAMPLING_ON:
	case RUN_EVENT_SAMPLING_OFF:
		return observe_sampling(machine, input->event == RUN_EVENT_SAMPLING_OFF);
	case RUN_EVENT_RESET:
		machine->run.resets++;
		return RUN_ACTION_NONE;
	case RUN_EVENT_START:
	case RUN_EVENT_BEGUN:
	case RUN_EVENT_BEGIN_FAILED:
		break;
	}
	return RUN_ACTION_NONE;
}

enum run_action run_step(struct run_machine *machine, const struct run_input *input)
{
	if (input->event == RUN_EVENT_START)
		return start(machine, input);
	if (machine->state == RUN_RUNNING)
		return step_running(machine, input);
	if (input->event == RUN_EVENT_BEGUN)
		return begun(machine, input);
	return input->event == RUN_EVENT_STOP ? RUN_ACTION_REFUSE : RUN_ACTION_NONE;
}

int64_t run_wait_ms(const struct run_machine *machine, int64_t now_ms)
{
	if (machine->state != RUN_RUNNING)
		return -1;
	return machine->deadline_ms > now_ms ? machine->deadline_ms - now_ms : 0;
}

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

static bool parse_number(const char *text, size_t size, uint64_t max, uint64_t *number)
{
	*number = 0;
	for (size_t i = 0; i < size; i++) {
		if (text[i] < '0' || text[i] > '9' ||
			__builtin_mul_overflow(*number, UINT64_C(10), number) ||
			__builtin_add_overflow(*number, (uint64_t)(text[i] - '0'), number))
			return false;
	}
	return size > 0 && *number <= max;
}

static bool read_value(const struct field *field, const char *text, size_t size, void *value)
{
	static const uint64_t max[] = {
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
	if (!parse_number(text, size, max[field->type], &number))
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

static const char *state_name(enum run_state state)
{
	static const char *const names[] = {
		[RUN_IDLE] = "idle",
		[RUN_RUNNING] = "running",
		[RUN_FINISHED] = "finished",
		[RUN_FAILED] = "failed",
	};
	return names[state];
}

/* NULL while the run is on. */
static const char *end_name(enum run_end end)
{
	static const char *const names[] = {
		[RUN_END_NONE] = NULL,
		[RUN_END_DEADLINE] = "deadline",
		[RUN_END_STOP] = "stop",
		[RUN_END_EXIT] = "exit",
	};
	return names[end];
}

void run_write_json(
	struct json_writer *json, const struct run *run, int64_t remaining_ms, bool already_running)
{
	json_object_begin(json);
	json_member_integer(json, "id", run->id);
	json_member_integer(json, "pid", run->pid);
	json_member_string(json, "state", state_name(run->state));
	json_member_integer(json, "started_ms", run->started_ms);
	json_key(json, "ended_ms");
	if (run->state == RUN_RUNNING)
		json_put_null(json);
	else
		json_put_integer(json, run->ended_ms);
	json_member_integer(json, "duration_ms", run->duration_ms);
	json_member_integer(json, "remaining_ms", remaining_ms);
	json_member_string(json, "ended_by", end_name(run->ended_by));
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
