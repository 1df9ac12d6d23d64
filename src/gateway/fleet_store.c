/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/fleet_store.h"

#include <string.h>

#include "base/clock.h"
#include "base/xalloc.h"

enum {
	ANSWER_BYTES = 64 * 1024 * 1024,
	/*
	 * After a failure, which may be over soon; and after a question that took too long, which
	 * the database may still be working on.
	 */
	RETRY_MS = 5 * 1000,
	TIMEOUT_RETRY_MS = WORKER_WALL_MS,
};

void fleet_store_init(struct fleet_store *store, const char *url, const char *password_file)
{
	*store = (struct fleet_store){ .url = url, .password_file = password_file };
	worker_pool_init(&store->workers, FLEET_STORE_QUESTIONS);
	result_cache_init(&store->answers, ANSWER_BYTES);
	pthread_mutex_init(&store->mutex, NULL);
}

void fleet_store_deinit(struct fleet_store *store)
{
	pthread_mutex_destroy(&store->mutex);
	result_cache_deinit(&store->answers);
	worker_pool_deinit(&store->workers);
}

/* False with the last failure while it is too early for the next attempt. */
static bool may_ask(struct fleet_store *store, struct error *err)
{
	pthread_mutex_lock(&store->mutex);
	const bool may = clock_monotonic_ms() >= store->retry_ms;
	if (!may)
		*err = store->failure;
	pthread_mutex_unlock(&store->mutex);
	return may;
}

static void note_failure(struct fleet_store *store, const struct error *err)
{
	const int64_t wait_ms = err->kind == ERROR_TIMEOUT ? TIMEOUT_RETRY_MS : RETRY_MS;

	pthread_mutex_lock(&store->mutex);
	store->retry_ms = clock_monotonic_ms() + wait_ms;
	store->failure = *err;
	pthread_mutex_unlock(&store->mutex);
}

struct store_question {
	struct fleet_store *store;
	const struct command_line *line;
};

static bool ask(
	void *context, struct waiting_clients *clients, struct blob **answer, struct error *err)
{
	const struct store_question *const question = context;
	struct fleet_store *const store = question->store;
	const struct worker_job job = {
		.owner = USER_ANY,
		.clients = clients,
		.arguments = question->line->arguments,
	};

	if (!may_ask(store, err))
		return false;
	if (worker_run(&store->workers, &job, answer, err))
		return true;
	if (err->kind == ERROR_NOT_FOUND || err->kind == ERROR_USAGE ||
		waiting_clients_have_left(clients))
		return false;
	if (err->kind == ERROR_TIMEOUT) {
		error_set(err, ERROR_TIMEOUT,
			"the fleet's database took more than %d s, or too many questions wait for "
			"it",
			WORKER_WALL_MS / 1000);
		error_hint(err, "ask for one service or a shorter time; it is asked again in a "
				"minute");
	}
	note_failure(store, err);
	return false;
}

char *command_line_key(const struct command_line *line)
{
	CLEANUP(buffer_deinit) struct buffer key = BUFFER_OR_EXIT;

	/* With their sizes, so that nothing in one can be another. */
	for (size_t i = 0; i < line->count; i++)
		buffer_printf(&key, "%zu:%s/", strlen(line->arguments[i]), line->arguments[i]);
	return buffer_take(&key);
}

bool fleet_store_ask(struct fleet_store *store, const struct request *request,
	struct command_line *question, struct blob **answer, struct error *err)
{
	CLEANUP(free_cleanup) char *key = command_line_key(question);

	command_line_add(question, "--store", store->url);
	command_line_add_given(question, "--password-file", store->password_file);
	struct store_question asked = { store, question };
	return result_cache_get(
		&store->answers, key, USER_ANY, true, request->client_fd, ask, &asked, answer, err);
}
