/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapctl serve --store: the database of a fleet, which processes of `heapctl fleet` ask for the
 * page. Only questions are asked, and their load is limited: two at a time, each answered once a
 * minute at most, and none for a while after the database has failed. Any thread.
 */
#pragma once

#include "gateway/request.h"
#include "gateway/worker.h"

enum {
	FLEET_STORE_QUESTIONS = 2,	 /* at a time */
	FLEET_STORE_FRESH_MS = 60 * 1000 /* how old an answer may be */
};

struct fleet_store {
	const char *url, *password_file; /* the file: NULL for none */
	struct worker_pool workers;
	struct result_cache answers;

	pthread_mutex_t mutex; /* of what follows */
	int64_t retry_ms;      /* by the monotonic clock; before it nothing is asked */
	struct error failure;  /* the answer until then */
};

/* Keeps both texts. */
void fleet_store_init(struct fleet_store *store, const char *url, const char *password_file);
void fleet_store_deinit(struct fleet_store *store);

/*
 * The answer to `heapctl fleet QUESTION`, whose arguments are in `question`; the database is added
 * to them, and cancelled when the client of the request leaves. ERROR_NOT_FOUND and ERROR_USAGE are
 * the question's own, others the database's.
 */
MUST_CHECK bool fleet_store_ask(struct fleet_store *store, const struct request *request,
	struct command_line *question, struct blob **answer, struct error *err);

/* The arguments as one text, which no other arguments have; free it. */
char *command_line_key(const struct command_line *line);
