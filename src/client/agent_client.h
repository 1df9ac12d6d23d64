/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's protocol (docs/protocol.md), from the client's side. A gateway speaks it too, under
 * its target's prefix, so that every call works on both. One connection per call.
 *
 * An answer that is an error becomes a `struct error` with the agent's own words.
 */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "client/http_client.h"
#include "client/target.h"

struct agent_call {
	const char *method; /* "GET", "POST" */
	const char *path;   /* "/v1/status", query included, encoded */
	const char *body;   /* NULL for none */
	size_t body_size;
	int out_fd;		      /* where the body goes when out_name is set */
	const char *out_name;	      /* for errors; NULL: into the answer's buffer */
	int64_t total_ms;	      /* limit for all of it; 0: agent_answer_total_ms */
	uint64_t limit;		      /* of the answer in bytes; 0: one of those below */
	struct byte_budget *budget;   /* shared with other calls; NULL for none */
	const char *type, *beginning; /* of a good answer: see struct http_call */
	/* Asked several times a second while the agent is silent; NULL: never cancelled. */
	bool (*is_cancelled)(void *context);
	void *cancel_context;
};

/*
 * What an answer may have: another program may listen where an agent would. The status and all else
 * that is one JSON object, but for the statistics of an allocator.
 */
#define AGENT_JSON_BYTES (UINT64_C(1) << 20)
/* Statistics of a server with hundreds of arenas. */
#define AGENT_STATS_BYTES (UINT64_C(64) << 20)
/* A profile that is read into memory. */
#define AGENT_ANSWER_BYTES (UINT64_C(256) << 20)
/* Profiles that go into a file: a million stacks, 200 frames deep, fit. */
#define AGENT_PROFILE_BYTES (UINT64_C(4) << 30)

/* The limit of an answer to this path that goes into memory. */
uint64_t agent_answer_limit(const char *path);

/* How long all of an answer to this path may take. */
int64_t agent_answer_total_ms(const char *path);

/* `answer` holds nothing yet, and is the caller's to deinit, on failure too. */
MUST_CHECK bool agent_call(const struct target *target, const struct agent_call *call,
	struct http_answer *answer, struct error *err);

/* The same for a GET without a body. */
MUST_CHECK bool agent_get(const struct target *target, const char *path, struct http_answer *answer,
	struct error *err);

/* For an answer that is a JSON object; release it with json_decref. */
MUST_CHECK bool agent_call_json(const struct target *target, const char *method, const char *path,
	json_t **value, struct error *err);

/* The same within `total_ms`; 0: as long as it takes. */
MUST_CHECK bool agent_call_json_within(const struct target *target, const char *method,
	const char *path, int64_t total_ms, json_t **value, struct error *err);

/* Status of one of many targets: one that is busy or hangs does not hold up the others. */
enum { AGENT_SURVEY_MS = 2000 };

/*
 * Called once for each call when an agent has not answered for two seconds and the call continues,
 * to notify the user. For the whole process; NULL: none.
 */
typedef void agent_silence_function(const struct target *target);
void agent_on_silence(agent_silence_function *notice);

/*
 * The status of a target that can be profiled; release it with json_decref. ERROR_UNSUPPORTED, with
 * the reason and the hint of one that cannot.
 */
MUST_CHECK bool agent_check_profiling(
	const struct target *target, json_t **status, struct error *err);

/*
 * A GET whose body is written to `fd`, and the name of the agent's process behind it; ERROR_INPUT
 * unless it looks like a profile. A gateway has written the name itself.
 */
MUST_CHECK bool agent_fetch_profile(const struct target *target, const char *path, int fd,
	const char *fd_name, struct http_answer *answer, struct error *err);

/*
 * Writes the line "#process NAME" behind a profile of an agent, where readers that do not know it
 * skip it; nothing where `name` is "". The mappings name the program's file alone, and Debian's
 * redis-server is a link to redis-check-rdb.
 */
MUST_CHECK bool agent_append_process_name(
	const char *name, int fd, const char *fd_name, struct error *err);

DEFINE_CLEANUP(json_cleanup, json_t *, json_decref)

/*
 * Whether a successful answer has this media type: other programs answer every path, too. `what`
 * is what was asked for.
 */
MUST_CHECK bool agent_check_type(const struct target *target, const char *type, const char *what,
	const struct http_answer *answer, struct error *err);

/*
 * Parses an answer. Many small values take many times the memory of their text, so there is a limit
 * on them, too. `flags` as of json_loadb: jemalloc's statistics have a key twice. NULL with the
 * reason in `problem`.
 */
enum { AGENT_JSON_VALUES_MAX = 1 << 18 };
json_t *agent_json_parse(const char *text, size_t size, size_t flags, json_error_t *problem);

/* Parts of a JSON object by a path of keys: "profiling.sample_interval". NULL when not there. */
const json_t *json_at(const json_t *object, const char *path);
/*
 * Member `hint` of a status' "profiling" or of a warning: what to do, "" for nothing. Agents before
 * 0.2 call it "cure", and a server keeps its agent for months.
 */
const char *json_hint(const json_t *object);
/* "", 0 or false when it is not there or something else. The string belongs to the object. */
const char *json_text(const json_t *object, const char *path);
int64_t json_number(const json_t *object, const char *path);
bool json_flag(const json_t *object, const char *path);

/*
 * Whether an agent's answer has the shape of a heap profile, before it is kept for days: another
 * program may listen where an agent would, and send anything. Checks lines, in one pass and without
 * memory; src/profile reads what they mean. ERROR_INPUT, with the line.
 */
MUST_CHECK bool heap_text_check(const char *text, size_t size, struct error *err);
