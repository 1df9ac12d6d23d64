/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rendering in a process of its own: heapctl report with limits on memory, processor and wall time,
 * so that a large or damaged profile cannot end the gateway. The worker reads its inputs from
 * descriptors and never gets a path or a name from a client.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/user_name.h"
#include "gateway/result_cache.h"

enum {
	/* The worker's descriptor of input 0; the next input is the next descriptor. */
	WORKER_FIRST_FD = 3,
	WORKER_WALL_MS = 60 * 1000,
	WORKER_OUTPUT_BYTES = 256 * 1024 * 1024,
	WORKER_QUEUE_MS = 90 * 1000,
	WORKER_PLACES_MAX = 8,
	/* Exit code of a worker that knows the kind of its failure: this, and the kind. */
	WORKER_EXIT_KIND = 64,
	/* That of one whose output is good, but lacks what servers may say another time. */
	WORKER_EXIT_PARTIAL = 63,
};

struct worker_waiter;

/*
 * Limits how many workers run at a time. Any thread. A user whose profiles take long to render
 * delays no other: one more worker may run for a user that has none, and of those that wait the
 * user with the fewest workers is served first.
 */
struct worker_pool {
	unsigned places; /* below WORKER_PLACES_MAX */
	int cancel_fd;	 /* -1, or cancels all jobs once it is readable; set before use */

	pthread_mutex_t mutex; /* of what follows */
	pthread_cond_t changed;
	uid_t owners[WORKER_PLACES_MAX]; /* of the jobs that run */
	unsigned taken;
	struct worker_waiter *waiters; /* in the order in which they came */
};

void worker_pool_init(struct worker_pool *pool, unsigned places);
void worker_pool_deinit(struct worker_pool *pool);

struct worker_job {
	uid_t owner; /* whose process is profiled; USER_ANY where that is not known */
	struct waiting_clients *clients; /* that cancel it by leaving; NULL for none */
	const char *const *arguments;	 /* of heapctl render-worker, ends with NULL */
	struct blob *const *inputs;	 /* each from a file */
	const char *const *names;	 /* of the inputs in errors; NULL: the descriptor's */
	size_t input_count;
	const char *standard_input; /* NULL for none */
	size_t standard_input_size;
};

/*
 * Runs the job once a slot is free; the output may be partial. ERROR_TIMEOUT when none became free,
 * the job took too long, or was cancelled, by its clients or the pool's cancel_fd; ERROR_INPUT with
 * the worker's message when it failed or ran out of memory, or the kind that the worker gave.
 */
MUST_CHECK bool worker_run(struct worker_pool *pool, const struct worker_job *job,
	struct blob **output, struct error *err);

/* The arguments of a job, built piece by piece; owns its texts. Starts as { 0 }. */
struct command_line {
	const char **arguments; /* ends with NULL; NULL before the first */
	size_t count, capacity;
};

/* Adds "NAME", or "NAME=VALUE" as one argument, so that a value can never become an option. */
void command_line_add(struct command_line *line, const char *name, const char *value);

/* Adds "NAME=VALUE" unless `value` is NULL. */
void command_line_add_given(struct command_line *line, const char *name, const char *value);

void command_line_deinit(struct command_line *line);
