/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent_client.h"

#include <ctype.h>
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "client/process.h"
#include "client/wake.h"
#include "client/target_agent.h"

enum {
	/* Taking a profile of a million stacks takes seconds, and there may be a queue. */
	ANSWER_IDLE_MS = 120 * 1000,
	ANSWER_TOTAL_MS = 60 * 60 * 1000,
	/* Objects and statistics are sent at once, so more than the wait is not an agent's. */
	SMALL_ANSWER_TOTAL_MS = ANSWER_IDLE_MS + 30 * 1000,
	/* Reported to the user. */
	SILENCE_MS = 2000,
	/* Until the thread of an agent that is ending has ended. */
	ENDING_MS = 1000,
	ENDING_POLL_MS = 10,
};

const json_t *json_at(const json_t *object, const char *path)
{
	while (object != NULL && *path != '\0') {
		char key[64];
		const size_t size = strcspn(path, ".");

		snprintf(key, sizeof key, "%.*s", (int)size, path);
		object = json_object_get(object, key);
		path += size + (path[size] == '.');
	}
	return object;
}

const char *json_text(const json_t *object, const char *path)
{
	const char *const text = json_string_value(json_at(object, path));

	return text == NULL ? "" : text;
}

const char *json_hint(const json_t *object)
{
	return json_text(object, json_object_get(object, "hint") != NULL ? "hint" : "cure");
}

int64_t json_number(const json_t *object, const char *path)
{
	const json_t *const value = json_at(object, path);

	if (!json_is_real(value))
		return json_integer_value(value);
	const double number = json_real_value(value);
	return number >= 9.2233720368547758e18	  ? INT64_MAX
	       : number <= -9.2233720368547758e18 ? INT64_MIN
						  : (int64_t)number;
}

bool json_flag(const json_t *object, const char *path)
{
	return json_is_true(json_at(object, path));
}

static enum error_kind kind_of_code(const char *code, int status)
{
	for (int kind = ERROR_SYSTEM; kind <= ERROR_TIMEOUT; kind++) {
		if (strcmp(code, error_kind_name((enum error_kind)kind)) == 0)
			return (enum error_kind)kind;
	}
	switch (status) {
	case 400:
		return ERROR_USAGE;
	case 401:
	case 403:
		return ERROR_DENIED;
	case 404:
		return ERROR_NOT_FOUND;
	case 409:
		return ERROR_STATE;
	case 501:
		return ERROR_UNSUPPORTED;
	default:
		return ERROR_SYSTEM;
	}
}

/* What to do about an answer that no agent or gateway gives. */
static void advise(const struct http_answer *answer, struct error *err)
{
	const char *const place = http_answer_field(answer, "location");

	if (answer->status >= 300 && answer->status < 400 && place != NULL)
		error_hint(err,
			"it leads to %.200s: use the address of an agent or a gateway there",
			place);
	else if (answer->status >= 502 && answer->status <= 504)
		error_hint(err, "a proxy answers there: check that the server behind it runs");
	else
		error_hint(err, "another program or a proxy answers there: check the address");
}

/* The first line of an answer that is no JSON: a proxy in between, an old gateway. */
static void describe_text(struct http_answer *answer, struct error *err)
{
	const char *const text = buffer_string(&answer->body);

	error_set(err, kind_of_code("", answer->status), "the answer was %d %s%s%.*s",
		answer->status, http_reason(answer->status), *text == '\0' ? "" : ": ",
		(int)strcspn(text, "\r\n"), text);
	advise(answer, err);
}

static bool describe_failure(
	const struct target *target, struct http_answer *answer, struct error *err)
{
	CLEANUP(json_cleanup)
	json_t *body = json_loadb(answer->body.data == NULL ? "" : answer->body.data,
		answer->body.size, JSON_REJECT_DUPLICATES, NULL);
	const char *const message = json_text(body, "error.message");
	const char *const hint = json_text(body, "error.hint");

	if (*message == '\0') {
		describe_text(answer, err);
	} else {
		error_set(err, kind_of_code(json_text(body, "error.code"), answer->status), "%s",
			message);
		if (*hint != '\0')
			error_hint(err, "%s", hint);
	}
	if (answer->status == 401)
		error_hint(err, "put the gateway's token into HEAPCTL_TOKEN");
	return error_prefix(err, "%s", target->label);
}

static bool is_loopback(const struct target *target)
{
	return strncmp(target->url.host, "127.", 4) == 0 || strcmp(target->url.host, "::1") == 0 ||
	       strcmp(target->url.host, "localhost") == 0;
}

/* The token, but never in clear text over a network. */
static bool make_authorization(
	const struct target *target, char *value, size_t size, struct error *err)
{
	const char *const token = getenv("HEAPCTL_TOKEN");

	value[0] = '\0';
	if (target->kind != TARGET_GATEWAY || token == NULL || *token == '\0')
		return true;
	if (!target->url.use_tls && !is_loopback(target)) {
		error_set(err, ERROR_DENIED,
			"%s: HEAPCTL_TOKEN would cross the network unencrypted", target->label);
		return error_hint(err, "use https://, or unset HEAPCTL_TOKEN");
	}
	if ((size_t)snprintf(value, size, "Bearer %s", token) >= size)
		return error_set(err, ERROR_USAGE, "HEAPCTL_TOKEN is too long");
	return true;
}

/* Whether there may be no agent any more; after a reset the next attempt shows that. */
static bool is_lost(const struct error *err)
{
	return err->kind == ERROR_NOT_FOUND || err->errnum == ECONNABORTED;
}

/* A program that is no agent may listen where one would, and break off its answers. */
static bool is_connectable(const struct target *target)
{
	CLEANUP(stream_close) struct stream stream = { .fd = -1 };
	struct error ignored;

	stream_init(&stream, ENDING_MS, ENDING_MS);
	return target_connect(target, &stream, &ignored);
}

/*
 * An agent that ends, or whose process executes another program, closes its connections some time
 * before its socket, and that before its thread is gone.
 */
static bool has_agent_ended(const struct target *target)
{
	const int64_t until_ms = clock_monotonic_ms() + ENDING_MS;

	while (process_has_agent_thread(&target->process) || is_connectable(target)) {
		if (clock_monotonic_ms() > until_ms)
			return false;
		poll(NULL, 0, ENDING_POLL_MS);
	}
	return true;
}

/*
 * A process that is killed closes its connections some time before it has ended, and then has no
 * program already. Neither can be seen of a program with more rights, which it may have executed.
 */
static bool has_process_ended(const struct target *target)
{
	const int64_t until_ms = clock_monotonic_ms() + ENDING_MS;
	struct process now;
	struct error ignored;

	while (!process_has_ended(&target->process)) {
		if (target->process.exe[0] == '\0' || clock_monotonic_ms() > until_ms ||
			(process_read(target->process.pid, &now, &ignored) && now.exe[0] != '\0'))
			return false;
		poll(NULL, 0, ENDING_POLL_MS);
	}
	return true;
}

static bool executes_another(const struct target *target)
{
	struct process now;
	struct error ignored;

	return process_read(target->process.pid, &now, &ignored) &&
	       strcmp(now.exe, target->process.exe) != 0;
}

/* Another command has detached it, or the process has executed another program. */
static bool explain_loss(const struct target *target, struct error *err)
{
	const int pid = (int)target->process.pid;

	if (has_process_ended(target))
		return error_set(err, ERROR_NOT_FOUND, "%s has ended", target->label);
	if (executes_another(target)) {
		error_set(err, ERROR_NOT_FOUND, "%s executes another program now", target->label);
		return error_hint(
			err, "try again; if that has no agent, heapctl attach %d loads one", pid);
	}
	error_set(err, ERROR_NOT_FOUND, "%s has no agent any more: the agent has ended",
		target->label);
	return error_hint(err, "heapctl attach %d starts it again", pid);
}

/* Names the target that failed, unless the connection's own message does. */
static bool name_target(const struct target *target, const struct stream *stream, struct error *err)
{
	if (strncmp(err->message, target->label, strlen(target->label)) == 0)
		return false;
	if (target->process.pid != 0 && has_process_ended(target))
		return error_set(err, ERROR_NOT_FOUND, "%s has ended", target->label);
	if (target->process.pid != 0 && is_lost(err) &&
		(executes_another(target) || has_agent_ended(target)))
		return explain_loss(target, err);
	if (strcmp(stream->peer, target->label) == 0 && strstr(err->message, stream->peer) != NULL)
		return false;
	return error_prefix(err, "%s", target->label);
}

static agent_silence_function *on_silence;

void agent_on_silence(agent_silence_function *notice)
{
	on_silence = notice;
}

/* While an agent is silent. */
struct answer_wait {
	struct process_watch watch;
	const struct target *target;
	const struct agent_call *call;
	int64_t begun_ms;
	bool is_noticed;
};

static void notice_wait(struct answer_wait *answer_wait)
{
	if (answer_wait->is_noticed || on_silence == NULL)
		return;
	answer_wait->is_noticed = true;
	on_silence(answer_wait->target);
}

static bool is_long(const struct answer_wait *answer_wait)
{
	return clock_monotonic_ms() - answer_wait->begun_ms >= SILENCE_MS;
}

static bool check_silence(void *context, struct error *err)
{
	struct answer_wait *const answer_wait = context;
	const struct agent_call *const call = answer_wait->call;

	if (call->is_cancelled != NULL && call->is_cancelled(call->cancel_context))
		return error_set(err, ERROR_TIMEOUT, "%s: cancelled", answer_wait->target->label);
	if (answer_wait->watch.process->pid != 0 && !process_watch_check(&answer_wait->watch, err))
		return false;
	if (!is_long(answer_wait))
		return true;
	if (answer_wait->watch.process->pid != 0 &&
		!wake_can_accept(answer_wait->watch.process, err))
		return false;
	notice_wait(answer_wait);
	return true;
}

static bool begins(const char *path, const char *beginning)
{
	return strncmp(path, beginning, strlen(beginning)) == 0;
}

uint64_t agent_answer_limit(const char *path)
{
	if (begins(path, "/v1/stats"))
		return AGENT_STATS_BYTES;
	/* All that is left of the protocol is one object each; the rest are pages of a gateway. */
	return begins(path, "/v1/") && strstr(path, "profile") == NULL &&
			       strstr(path, "/start") == NULL
		       ? AGENT_JSON_BYTES
		       : AGENT_ANSWER_BYTES;
}

int64_t agent_answer_total_ms(const char *path)
{
	return agent_answer_limit(path) < AGENT_ANSWER_BYTES ? SMALL_ANSWER_TOTAL_MS
							     : ANSWER_TOTAL_MS;
}

/* One that answers byte by byte is never silent. A large answer may take its time. */
static void check_progress(void *context, const struct http_answer *answer)
{
	struct answer_wait *const answer_wait = context;

	if (is_long(answer_wait) &&
		(answer->status == 0 ||
			agent_answer_total_ms(answer_wait->call->path) < ANSWER_TOTAL_MS))
		notice_wait(answer_wait);
}

static uint64_t limit_of(const struct agent_call *call)
{
	if (call->limit != 0)
		return call->limit;
	return call->out_name == NULL ? agent_answer_limit(call->path) : AGENT_PROFILE_BYTES;
}

/* One connection, one request, one answer. */
static bool exchange_once(const struct target *target, const struct agent_call *call,
	struct http_answer *answer, struct error *err)
{
	char authorization[4096], path[2048];
	CLEANUP(stream_close) struct stream stream = { .fd = -1 };
	struct answer_wait answer_wait = {
		.watch.process = &target->process,
		.target = target,
		.call = call,
		.begun_ms = clock_monotonic_ms(),
	};

	if (!make_authorization(target, authorization, sizeof authorization, err))
		return false;
	if ((size_t)snprintf(path, sizeof path, "%s%s", target->url.prefix, call->path) >=
		sizeof path) {
		error_set(err, ERROR_USAGE, "%s: too long a request", target->label);
		return error_hint(
			err, "an agent takes %zu bytes of path and parameters", sizeof path - 1);
	}
	if (call->total_ms > 0)
		stream_init(&stream, call->total_ms, call->total_ms);
	else
		stream_init(&stream, ANSWER_IDLE_MS, agent_answer_total_ms(call->path));
	if (target->cancel_fd != NULL)
		stream.cancel_fd = *target->cancel_fd;
	stream.check = check_silence;
	stream.check_context = &answer_wait;
	stream.check_ms = PROCESS_WATCH_INTERVAL_MS;
	if (target->process.pid != 0 && !process_state_check(&target->process, err))
		return false;
	if (!target_connect(target, &stream, err))
		return name_target(target, &stream, err);

	const struct http_field fields[] = {
		{ "Connection", "close" },
		{ authorization[0] == '\0' ? NULL : "Authorization", authorization },
		{ NULL, NULL },
	};
	const struct http_call request = {
		.method = call->method,
		.target = path,
		.host = target->kind == TARGET_AGENT ? "agent" : target->url.host,
		.fields = fields,
		.body = call->body,
		.body_size = call->body_size,
		.out_fd = call->out_fd,
		.out_name = call->out_name,
		.limit = limit_of(call),
		.budget = call->budget,
		.type = call->type,
		.beginning = call->beginning,
		.on_progress = check_progress,
		.progress_context = &answer_wait,
	};
	if (http_call(&stream, &request, answer, err))
		return true;
	/* A survey's limit may be shorter than what tells a long wait from short ones. */
	if (err->kind == ERROR_TIMEOUT && answer_wait.watch.asleep > 0 &&
		!process_explain_silence(&answer_wait.watch, err))
		return false;
	return !answer->output_failed && name_target(target, &stream, err);
}

/*
 * A program may close the agent's descriptors; then the next connection is reset before anything
 * was read, and the agent listens again.
 */
static bool exchange(const struct target *target, const struct agent_call *call,
	struct http_answer *answer, struct error *err)
{
	for (int attempt = 0;; attempt++) {
		http_answer_init(answer);
		if (exchange_once(target, call, answer, err))
			return true;
		if (attempt > 0 || answer->status != 0 || target->kind != TARGET_AGENT ||
			(err->errnum != ECONNRESET && err->errnum != EPIPE))
			return false;
		http_answer_deinit(answer);
		poll(NULL, 0, 100);
	}
}

json_t *agent_json_parse(const char *text, size_t size, size_t flags, json_error_t *problem)
{
	/* Of a status there are some hundred, of statistics some for each 20 bytes. */
	const size_t limit =
		size <= AGENT_JSON_BYTES ? AGENT_JSON_VALUES_MAX / 16 : AGENT_JSON_VALUES_MAX;
	size_t values = 0;

	for (size_t i = 0; i < size; i++)
		values += text[i] == ',' || text[i] == '[' || text[i] == '{';
	if (values > limit) {
		memset(problem, 0, sizeof *problem);
		snprintf(problem->text, sizeof problem->text, "it has more than %zu values", limit);
		return NULL;
	}
	json_t *const value = json_loadb(text, size, flags, problem);
	if (value != NULL || json_error_code(problem) != json_error_numeric_overflow)
		return value;
	/* A number too large for an integer: round all rather than refuse the answer. */
	return json_loadb(text, size, flags | JSON_DECODE_INT_AS_REAL, problem);
}

bool agent_call(const struct target *target, const struct agent_call *call,
	struct http_answer *answer, struct error *err)
{
	if (!exchange(target, call, answer, err))
		return false;
	if (answer->status >= 200 && answer->status < 300)
		return true;
	return describe_failure(target, answer, err);
}

bool agent_get(const struct target *target, const char *path, struct http_answer *answer,
	struct error *err)
{
	const struct agent_call call = { .method = "GET", .path = path };

	return agent_call(target, &call, answer, err);
}

bool agent_check_type(const struct target *target, const char *type, const char *what,
	const struct http_answer *answer, struct error *err)
{
	const char *const content = http_answer_field(answer, "content-type");

	if (content != NULL && strncmp(content, type, strlen(type)) == 0)
		return true;
	error_set(err, ERROR_INPUT, "%s: the answer is no %s but %.80s", target->label, what,
		content == NULL ? "a body without a type" : content);
	return error_hint(err, "check that it is an agent or a gateway of heapctl");
}

bool agent_call_json(const struct target *target, const char *method, const char *path,
	json_t **value, struct error *err)
{
	return agent_call_json_within(target, method, path, 0, value, err);
}

bool agent_call_json_within(const struct target *target, const char *method, const char *path,
	int64_t total_ms, json_t **value, struct error *err)
{
	const struct agent_call call = { .method = method, .path = path, .total_ms = total_ms };
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	json_error_t problem;

	if (!agent_call(target, &call, &answer, err))
		return false;
	json_t *const body = agent_json_parse(answer.body.data == NULL ? "" : answer.body.data,
		answer.body.size, JSON_REJECT_DUPLICATES, &problem);
	if (!json_is_object(body)) {
		json_decref(body);
		error_set(err, ERROR_INPUT, "%s: the answer to %s is not a JSON object: %s",
			target->label, path, body == NULL ? problem.text : "something else");
		return error_hint(err, "check that it is an agent or a gateway of heapctl");
	}
	*value = body;
	return true;
}

bool agent_check_profiling(const struct target *target, json_t **status, struct error *err)
{
	CLEANUP(json_cleanup) json_t *answer = NULL;

	if (!agent_call_json(target, "GET", "/v1/status", &answer, err))
		return false;
	if (!json_flag(answer, "profiling.available")) {
		error_set(err, ERROR_UNSUPPORTED, "%s cannot be profiled: %s", target->label,
			json_text(answer, "profiling.reason"));
		return error_hint(err, "%s", json_hint(json_at(answer, "profiling")));
	}
	*status = TAKE(answer);
	return true;
}

#define PROCESS_LINE "#process "
enum { PROCESS_LINE_BYTES_MAX = 128 };

bool agent_append_process_name(const char *name, int fd, const char *fd_name, struct error *err)
{
	char line[PROCESS_LINE_BYTES_MAX];

	if (*name == '\0')
		return true;
	const int size = snprintf(line, sizeof line, PROCESS_LINE "%.100s\n", name);
	return file_write_fd(fd, fd_name, line, (size_t)size, err);
}

bool agent_fetch_profile(const struct target *target, const char *path, int fd, const char *fd_name,
	struct http_answer *answer, struct error *err)
{
	static const char type[] = "application/x-jemalloc-heap-profile";
	static const char beginning[] = "heap_v2/";
	const struct agent_call call = {
		.method = "GET",
		.path = path,
		.out_fd = fd,
		.out_name = fd_name,
		.type = type,
		.beginning = beginning,
	};

	if (!agent_call(target, &call, answer, err))
		return false;
	const char *const content = http_answer_field(answer, "content-type");
	const bool has_type = content != NULL && strncmp(content, type, sizeof type - 1) == 0;
	if (has_type && !answer->is_refused && answer->body_bytes >= sizeof beginning - 1)
		return agent_append_process_name(target->process.name, fd, fd_name, err);
	if (has_type)
		error_set(err, ERROR_INPUT,
			"%s: the answer to %s is not a profile: it does not begin with '%s'",
			target->label, path, beginning);
	else
		error_set(err, ERROR_INPUT, "%s: the answer to %s is not a profile but %s",
			target->label, path, content == NULL ? "a body without a type" : content);
	return error_hint(err, "check that it is an agent or a gateway of heapctl");
}

enum {
	/* Lines of other kinds, such as ClickHouse's of its frames' names. */
	OTHER_BYTES_MAX = 4 * 1024 * 1024,
	/* A path, and what a map has in front of it. */
	MAP_LINE_BYTES_MAX = 8192,
};

struct heap_line {
	const char *text;
	size_t size;
};

static bool line_begins(const struct heap_line *line, const char *text)
{
	const size_t size = strlen(text);

	return line->size >= size && memcmp(line->text, text, size) == 0;
}

static size_t count_digits(const struct heap_line *line, size_t at)
{
	const size_t begin = at;

	while (at < line->size && isdigit((unsigned char)line->text[at]))
		at++;
	return at - begin;
}

/* "heap_v2/524288" */
static bool is_head(const struct heap_line *line)
{
	static const char head[] = "heap_v2/";
	const size_t size = sizeof head - 1;
	const size_t digits = line_begins(line, head) ? count_digits(line, size) : 0;

	return digits > 0 && size + digits == line->size;
}

/* "  t*: 28: 1500 [0: 0]", or of a thread, whose name may follow. */
static bool is_counter(const struct heap_line *line)
{
	size_t at = 3;

	if (!line_begins(line, "  t") || line->size < 6)
		return false;
	at += line->text[at] == '*' ? 1 : count_digits(line, at);
	if (at == 3 || at + 2 > line->size || memcmp(line->text + at, ": ", 2) != 0)
		return false;
	return count_digits(line, at + 2) > 0;
}

/* "@ 0x7f06a3a2630 0x55d41fef4427" */
static bool is_stack(const struct heap_line *line)
{
	if (!line_begins(line, "@"))
		return false;
	for (size_t i = 1; i < line->size; i++) {
		const unsigned char c = (unsigned char)line->text[i];
		if (c != ' ' && c != 'x' && !isxdigit(c))
			return false;
	}
	return true;
}

/* "55d41fef2000-55d41fef4000 r--p ..." */
static bool is_map(const struct heap_line *line)
{
	size_t at = 0;

	while (at < line->size && isxdigit((unsigned char)line->text[at]))
		at++;
	if (at == 0 || at >= line->size || line->text[at] != '-')
		return false;
	return line->size <= MAP_LINE_BYTES_MAX && isxdigit((unsigned char)line->text[at + 1]);
}

/* "#temporary 12: 900" */
static bool is_temporary(const struct heap_line *line)
{
	static const char beginning[] = "#temporary ";
	const size_t size = sizeof beginning - 1;
	const size_t digits = line_begins(line, beginning) ? count_digits(line, size) : 0;
	const size_t at = size + digits + 2;

	return digits > 0 && at < line->size && memcmp(line->text + at - 2, ": ", 2) == 0 &&
	       at + count_digits(line, at) == line->size;
}

/* "#sampling heapctl since 1763716881123 attached 1763716881100 at 1763717601200 mapped" */
static bool is_sampling(const struct heap_line *line)
{
	enum { SAMPLING_LINE_BYTES_MAX = 120 };

	if (!line_begins(line, "#sampling ") || line->size > SAMPLING_LINE_BYTES_MAX)
		return false;
	for (size_t i = 1; i < line->size; i++) {
		const unsigned char c = (unsigned char)line->text[i];
		if (c != ' ' && c != '-' && !isalnum(c))
			return false;
	}
	return true;
}

/* What agent_append_process_name writes. */
static bool is_process_name(const struct heap_line *line)
{
	return line_begins(line, PROCESS_LINE) && line->size <= PROCESS_LINE_BYTES_MAX &&
	       memchr(line->text, '\0', line->size) == NULL;
}

static bool refuse(size_t number, struct error *err)
{
	return error_set(err, ERROR_INPUT, "the answer is not a heap profile: line %zu", number);
}

bool heap_text_check(const char *text, size_t size, struct error *err)
{
	const char *const end = text + size;
	bool has_total = false, is_in_maps = false;
	size_t other_bytes = 0, number = 0;

	while (text < end) {
		const char *const stop = memchr(text, '\n', (size_t)(end - text));
		const struct heap_line line = { text,
			(size_t)((stop == NULL ? end : stop) - text) };
		text = stop == NULL ? end : stop + 1;
		number++;
		if (number == 1) {
			if (!is_head(&line))
				return refuse(number, err);
		} else if (is_in_maps) {
			if (line.size > 0 && !is_map(&line) && !is_process_name(&line) &&
				!is_sampling(&line))
				return refuse(number, err);
		} else if (line.size == 0 || is_stack(&line) || is_temporary(&line)) {
			continue;
		} else if (is_counter(&line)) {
			has_total = true;
		} else if (line_begins(&line, "MAPPED_LIBRARIES:")) {
			is_in_maps = true;
		} else {
			other_bytes += line.size;
			if (memchr(line.text, '\0', line.size) != NULL ||
				other_bytes > OTHER_BYTES_MAX)
				return refuse(number, err);
		}
		if (number > 1 && line.size > 0 && !has_total && other_bytes == 0)
			return refuse(number, err);
	}
	return has_total || refuse(number, err);
}
