/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the handlers of the gateway share: its targets, its renders, its counters. One per process;
 * each part has its own lock, so any thread may use all of it.
 */
#pragma once

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gateway/backend_set.h"
#include "gateway/request.h"
#include "gateway/result_cache.h"
#include "gateway/worker.h"

enum {
	GATEWAY_STATUS_CLASSES = 6,
	/*
	 * Requests that are answered at a time and may wait for a target, and those of them that
	 * wait for minutes because they were asked to. Each has a connection and a thread; the rest
	 * of the connections (SERVER_CONNECTIONS_MAX) are for the page and for refusals. Whatever
	 * the requests for one target wait for (its agent, a result, a worker), they may take only
	 * as many places as are free for the others.
	 */
	GATEWAY_WORKING_MAX = 384,
	GATEWAY_WAITING_MAX = 64,
};

/* Changed with atomic operations only. */
struct gateway_counters {
	uint64_t answers[GATEWAY_STATUS_CLASSES]; /* by the first digit of the status */
	uint64_t refused;			  /* by the guard */
	unsigned waiting;			  /* of GATEWAY_WAITING_MAX */
	int64_t active; /* requests being answered and snapshots being kept now */
};

/* A request that is being answered. */
struct work_place {
	struct work_place *next;
	const char *target; /* what shares the places: a target's name, or a path of the gateway */
};

struct work_places {
	pthread_mutex_t mutex; /* of what follows */
	struct work_place *taken;
};

void work_places_init(struct work_places *places);
void work_places_deinit(struct work_places *places);

/* A sum of profiles that is being made. */
struct merge_turn {
	struct merge_turn *next;
	uid_t owner; /* of its processes */
};

/*
 * Profiles of many processes are added up for one request of a user's processes at a time: while
 * the others wait, they have none of the space, the descriptors and the processors that this takes.
 * Users do not wait for each other, since processes of one may never answer.
 */
struct merge_queue {
	pthread_mutex_t mutex; /* of what follows */
	pthread_cond_t changed;
	struct merge_turn *running; /* one of a user at most */
};

void merge_queue_init(struct merge_queue *queue);
void merge_queue_deinit(struct merge_queue *queue);

struct fleet_store;
struct send_supervisor;
struct store;
struct watch_manager;

struct gateway {
	const struct route *routes;
	struct backend_set backends;
	struct result_cache profile_cache; /* of runs, as the agents gave them */
	struct result_cache render_cache;  /* what was rendered from them */
	struct worker_pool workers;
	struct store *store;		     /* NULL: no history is kept */
	const char *source_root;	     /* NULL: no source of this machine is shown */
	const char *debuginfod;		     /* servers for names and sources; NULL for none */
	bool shows_disasm;		     /* of programs that profiles of targets name */
	const char *symbols_folder;	     /* NULL: no symbols are served */
	struct watch_manager *watch_manager; /* NULL: nothing is watched */
	struct send_supervisor *sender;	     /* NULL: nothing is sent */
	struct fleet_store *fleet_store;     /* NULL: no fleet is shown */
	struct gateway_counters counters;
	struct work_places places;
	struct merge_queue merges;
	const char *token; /* NULL when none is needed */
	bool has_tls;
	int64_t started_ms;
	int stop_fd; /* readable once the gateway is to stop: nothing new is begun */
	void (*log)(const char *line);
};

/*
 * Waits `duration_ms`. Returns false as soon as the client of the request leaves or the gateway
 * stops.
 */
bool gateway_wait(
	const struct gateway *gateway, const struct request *request, int64_t duration_ms);

/*
 * Takes a place among the requests that wait for minutes, until gateway_end_wait. ERROR_TIMEOUT
 * when there is none.
 */
MUST_CHECK bool gateway_begin_wait(struct gateway *gateway, struct error *err);
void gateway_end_wait(struct gateway *gateway);

/* The same for any request that may wait for `place->target`; the place is the caller's. */
MUST_CHECK bool gateway_begin_work(
	struct gateway *gateway, struct work_place *place, struct error *err);
void gateway_end_work(struct gateway *gateway, struct work_place *place);

/* The target that the request is for; drop the reference. */
MUST_CHECK bool gateway_find(struct gateway *gateway, const struct request *request,
	struct backend **backend, struct error *err);

/*
 * The name whose history is requested. A target that has ended is no longer among the backends, but
 * its history can still be requested. At the root it is the gateway's own target.
 */
enum { GATEWAY_NAME_BYTES = 128 };
MUST_CHECK bool gateway_find_name(struct gateway *gateway, const struct request *request,
	char name[GATEWAY_NAME_BYTES], struct error *err);

/* Whether it keeps a history. ERROR_NOT_FOUND. */
MUST_CHECK bool gateway_check_history(const struct gateway *gateway, struct error *err);

/* Both. */
MUST_CHECK bool gateway_find_history(struct gateway *gateway, const struct request *request,
	char name[GATEWAY_NAME_BYTES], struct error *err);

/*
 * A thread of the gateway, which the code that starts it joins. `purpose` completes "starting ..."
 * in the error.
 */
MUST_CHECK bool thread_start(pthread_t *thread, size_t stack_bytes, void *(*work)(void *context),
	void *context, const char *purpose, struct error *err);

/*
 * Calls work(context, i) for each i below `count`, in up to `threads_max` threads, of which this is
 * one. There may be fewer when the gateway has many already.
 */
enum { GATEWAY_THREADS_MAX = 16 };
typedef void gateway_work(void *context, size_t i);
void gateway_work_together(size_t count, unsigned threads_max, gateway_work *work, void *context);

/*
 * Asks many targets the same question at once: those that hang delay the others by one time limit.
 */
enum { TARGET_POLL_LIMIT_MS = 2000 };

struct poll_result {
	struct backend *backend; /* borrowed from the list */
	json_t *value;		 /* NULL when the target did not answer: see err */
	struct error err;
	double milliseconds; /* how long the answer took */
};

struct target_poll {
	struct poll_result *items; /* as in the list */
	size_t count;
};

/*
 * GET of `path` from each target of the list. A target that did not answer in the `earlier` poll
 * of the same list (NULL: there is none) is not asked again: it would take the time limit once
 * more. Release with target_poll_deinit, before the list.
 */
void target_poll_run(struct target_poll *poll, const struct backend_list *list, const char *path,
	const struct target_poll *earlier);
void target_poll_deinit(struct target_poll *poll);
