/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A target of the gateway: the way to its agent, with a time limit on every call, a limit on calls
 * at the same time, and identical reads shared by the requests for them. A target that hangs or has
 * gone costs its own callers an error after that time and does not affect other requests.
 *
 * Counted references; any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/json_writer.h"
#include "base/memory.h"
#include "client/target.h"
#include "gateway/result_cache.h"
#include "gateway/waiting_clients.h"
#include "store/store.h"

/*
 * The memory figures of a target over the last hour. Each request for them takes the next sample,
 * so a target that no page shows is not polled. A *miss* is a sample that could not be taken, and
 * the reason. (What serve --history keeps is in store/.)
 */

enum {
	LIVE_METRICS_SAMPLES_MAX = 3600,
	LIVE_METRICS_STEP_MS = 1000, /* samples are at least this far apart */
	LIVE_METRICS_MISSES_MAX = 64,
};

struct live_sample {
	int64_t time_ms; /* since 1970 */
	uint64_t bytes[FIGURES];
};

struct live_miss {
	int64_t time_ms;
	char reason[200];
};

struct live_metrics {
	struct live_sample *samples; /* a ring; NULL before the first */
	size_t count;
	size_t next;
	struct live_miss *misses; /* a ring; NULL before the first */
	size_t miss_count;
	size_t miss_next;
};

void live_metrics_deinit(struct live_metrics *history);

/* Whether the last sample is old enough for another one. */
bool live_metrics_is_due(const struct live_metrics *history, int64_t now_ms);
void live_metrics_add(struct live_metrics *history, const struct live_sample *sample);

/* Of misses in a row for the same reason the first is kept. */
void live_metrics_add_miss(struct live_metrics *history, int64_t time_ms, const char *reason);

/*
 * {"figures": [...], "samples": [[time_ms, bytes...], ...], "misses": [[time_ms, reason], ...]}
 * with what is newer than `since_ms`.
 */
void live_metrics_write(
	const struct live_metrics *history, int64_t since_ms, struct json_writer *json);

enum {
	/* The agent serves 8; the rest is left to the command. */
	BACKEND_CALLS_MAX = 4,
	BACKEND_READ_MS = 5 * 1000,
	BACKEND_CHANGE_MS = 20 * 1000,
	BACKEND_PROFILE_MS = 120 * 1000,
	/*
	 * Requests that wait for an answer of any target, including those that share another's. One
	 * target may have as many as are free for the others, so that targets that hang never take
	 * all: each of n such targets gets one part in n + 1.
	 */
	BACKEND_CALLERS_MAX = 256,
};

/* Of one profile; of all answers that are held at a time, on disk and in memory. */
#define BACKEND_PROFILE_BYTES (UINT64_C(1) << 30)
#define BACKEND_SCRATCH_BYTES (UINT64_C(2) << 30)
#define BACKEND_MEMORY_BYTES (UINT64_C(256) << 20)

/* Shared by all targets, so that they cannot fill the disk or memory together either. */
extern struct byte_budget backend_scratch_budget, backend_memory_budget;

struct shared_read;

struct backend {
	unsigned references;
	struct target target;
	char name[128];	     /* as in URLs */
	uid_t owner;	     /* USER_ANY of a target behind another gateway */
	pid_t pid;	     /* 0: not known, behind another gateway */
	uint64_t generation; /* differs between targets that had the same pid */

	pthread_mutex_t mutex; /* of what follows */
	pthread_cond_t changed;
	unsigned calls;
	unsigned callers[2]; /* [1] that wait for a profile, [0] for anything else */
	struct shared_read *reads;
	struct live_metrics history;
	json_t *identity; /* of backend_identity; NULL: not known yet */
	int64_t identity_asked_ms;
};

/* One reference; the texts are copied. */
struct backend *backend_new(const struct target *target, const char *name);
/* One more reference; returns `backend`. */
struct backend *backend_share(struct backend *backend);
/* One reference less; NULL is fine. */
void backend_drop(struct backend *backend);

DEFINE_CLEANUP(backend_cleanup, struct backend *, backend_drop)

/* An agent's answer to a reading; release the body with blob_drop. */
struct backend_answer {
	struct blob *body;
	double milliseconds; /* how long the agent took for a profile; else for the call */
	int64_t time_ms;     /* when a profile was taken, since 1970; 0 when it does not say */
};

/*
 * GET of a path of the agent's protocol. Joins the same reading when that is under way already.
 * ERROR_TIMEOUT when the agent did not answer, ERROR_NOT_FOUND when the process is gone; else the
 * agent's own error.
 */
MUST_CHECK bool backend_get(struct backend *backend, const char *path, int64_t limit_ms,
	struct backend_answer *answer, struct error *err);

/* The same, parsed; release with json_decref. */
MUST_CHECK bool backend_get_json(
	struct backend *backend, const char *path, json_t **value, struct error *err);

/*
 * What the agent's status says of the environment, as {"environment": {...}}: it stays the same, so
 * it is asked for once, and of a target that does not answer once a minute. A new reference; NULL
 * when it is not known within that time.
 */
json_t *backend_identity(struct backend *backend, int64_t limit_ms);

/*
 * A profile into a scratch file; `path` as "/v1/profile" or "/v1/runs/ID/profile". The wait for it
 * ends when the clients of all that wait for the same have left; an agent that is writing it goes
 * on to its end. `clients` NULL: they never leave.
 */
MUST_CHECK bool backend_get_profile(struct backend *backend, const char *path,
	struct waiting_clients *clients, struct backend_answer *answer, struct error *err);

/* POST; never shared. `created` (may be NULL): whether the status was 201. */
MUST_CHECK bool backend_post(struct backend *backend, const char *path, struct blob **body,
	bool *created, struct error *err);
MUST_CHECK bool backend_post_json(struct backend *backend, const char *path, json_t **value,
	bool *created, struct error *err);

/*
 * The memory figures: what the agent's status (the answer to /v1/status) says, and the kernel's
 * resident set. 0 for what is not known.
 */
void backend_memory_figures(
	const struct backend *backend, const json_t *status, uint64_t bytes[FIGURES]);

/* Resident memory of the process in bytes, 0 when it is on another machine. */
uint64_t backend_resident_bytes(const struct backend *backend);
