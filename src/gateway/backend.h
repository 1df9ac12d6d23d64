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
#include <stdint.h>

#include <jansson.h>

#include "base/memory.h"
#include "client/target.h"
#include "gateway/blob.h"
#include "gateway/live_metrics.h"

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
};

/* One reference; the texts are copied. */
struct backend *backend_new(const struct target *target, const char *name);
/* One more reference; returns `backend`. */
struct backend *backend_share(struct backend *backend);
/* One reference less; NULL is fine. */
void backend_drop(struct backend *backend);

static inline void backend_cleanup(struct backend **backend)
{
	backend_drop(*backend);
}

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

/* A profile into a scratch file; `path` as "/v1/profile" or "/v1/runs/ID/profile". */
MUST_CHECK bool backend_get_profile(struct backend *backend, const char *path,
	struct backend_answer *answer, struct error *err);

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
