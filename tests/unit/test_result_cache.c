/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/result_cache.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "unit.h"

/* Makes "made N" with a count of its own; fails while `fails`. */
struct maker {
	unsigned count;
	bool fails, is_partial;
	pthread_barrier_t *barrier; /* not NULL: wait there once, so that others can join */
	size_t bytes;
};

static bool make(
	void *context, struct waiting_clients *clients, struct blob **blob, struct error *err)
{
	struct maker *const maker = context;
	const unsigned count = __atomic_add_fetch(&maker->count, 1, __ATOMIC_RELAXED);
	struct buffer text;

	(void)clients;
	if (maker->barrier != NULL)
		pthread_barrier_wait(maker->barrier);
	if (maker->fails)
		return error_set(err, ERROR_INPUT, "attempt %u failed", count);
	buffer_init(&text, &memory_or_exit);
	buffer_printf(&text, "made %u", count);
	while (text.size < maker->bytes)
		buffer_append_char(&text, '.');
	*blob = blob_take(&text);
	(*blob)->is_partial = maker->is_partial;
	buffer_deinit(&text);
	return true;
}

static void keeps_what_may_be_kept(void **state)
{
	struct result_cache cache;
	struct maker maker = { 0 };
	struct error err = { 0 };
	struct blob *first = NULL, *second = NULL;

	(void)state;
	result_cache_init(&cache, 1000);
	assert_true(result_cache_get(&cache, "a", 0, true, -1, make, &maker, &first, &err));
	assert_true(result_cache_get(&cache, "a", 0, true, -1, make, &maker, &second, &err));
	assert_ptr_equal(first, second);
	assert_int_equal(maker.count, 1);
	blob_drop(first);
	blob_drop(second);
	result_cache_deinit(&cache);
}

static void makes_anew_what_may_not(void **state)
{
	struct result_cache cache;
	struct maker maker = { 0 };
	struct error err = { 0 };
	struct blob *first = NULL, *second = NULL;

	(void)state;
	result_cache_init(&cache, 1000);
	assert_true(result_cache_get(&cache, "now", 0, false, -1, make, &maker, &first, &err));
	assert_true(result_cache_get(&cache, "now", 0, false, -1, make, &maker, &second, &err));
	assert_string_equal(first->data, "made 1");
	assert_string_equal(second->data, "made 2");
	blob_drop(first);
	blob_drop(second);
	assert_int_equal(cache.kept_bytes, 0);
	result_cache_deinit(&cache);
}

static void makes_anew_what_was_partial(void **state)
{
	struct result_cache cache;
	struct maker maker = { .is_partial = true };
	struct error err = { 0 };
	struct blob *partial = NULL, *whole = NULL, *again = NULL;

	(void)state;
	result_cache_init(&cache, 1000);
	assert_true(result_cache_get(&cache, "a", 0, true, -1, make, &maker, &partial, &err));
	maker.is_partial = false;
	assert_true(result_cache_get(&cache, "a", 0, true, -1, make, &maker, &whole, &err));
	assert_true(result_cache_get(&cache, "a", 0, true, -1, make, &maker, &again, &err));
	assert_string_equal(whole->data, "made 2");
	assert_ptr_equal(whole, again);
	blob_drop(partial);
	blob_drop(whole);
	blob_drop(again);
	result_cache_deinit(&cache);
}

static void a_failure_is_not_remembered(void **state)
{
	struct result_cache cache;
	struct maker maker = { .fails = true };
	struct error err = { 0 };
	struct blob *blob = NULL;

	(void)state;
	result_cache_init(&cache, 1000);
	assert_false(result_cache_get(&cache, "a", 0, true, -1, make, &maker, &blob, &err));
	assert_string_equal(err.message, "attempt 1 failed");
	assert_null(blob);
	maker.fails = false;
	assert_true(result_cache_get(&cache, "a", 0, true, -1, make, &maker, &blob, &err));
	blob_drop(blob);
	result_cache_deinit(&cache);
}

static void removes_the_least_recently_used(void **state)
{
	struct result_cache cache;
	struct maker maker = { .bytes = 400 };
	struct error err = { 0 };
	struct blob *blob = NULL;

	(void)state;
	result_cache_init(&cache, 1000);
	for (const char *key = "ab"; *key != '\0'; key++) {
		const char name[] = { *key, '\0' };
		assert_true(result_cache_get(&cache, name, 0, true, -1, make, &maker, &blob, &err));
		blob_drop(blob);
	}
	assert_true(result_cache_get(&cache, "a", 0, true, -1, make, &maker, &blob, &err));
	blob_drop(blob);
	assert_int_equal(maker.count, 2);
	assert_true(result_cache_get(&cache, "c", 0, true, -1, make, &maker, &blob, &err));
	blob_drop(blob);
	assert_int_equal(maker.count, 3);
	assert_true(result_cache_get(&cache, "a", 0, true, -1, make, &maker, &blob, &err));
	blob_drop(blob);
	assert_int_equal(maker.count, 3);
	assert_true(result_cache_get(&cache, "b", 0, true, -1, make, &maker, &blob, &err));
	blob_drop(blob);
	assert_int_equal(maker.count, 4);
	assert_true(cache.kept_bytes <= 1000);
	result_cache_deinit(&cache);
}

static void a_user_with_many_results_displaces_no_other(void **state)
{
	struct result_cache cache;
	struct maker maker = { .bytes = 100 };
	struct error err = { 0 };
	struct blob *blob = NULL;
	char key[16];

	(void)state;
	result_cache_init(&cache, 1000);
	assert_true(result_cache_get(&cache, "mine", 1, true, -1, make, &maker, &blob, &err));
	blob_drop(blob);
	for (int i = 0; i < 3 * RESULT_CACHE_ENTRIES_MAX; i++) {
		snprintf(key, sizeof key, "%d", i);
		/* First too many bytes, then too many results. */
		maker.bytes = i < RESULT_CACHE_ENTRIES_MAX ? 100 : 1;
		assert_true(result_cache_get(&cache, key, 2, true, -1, make, &maker, &blob, &err));
		blob_drop(blob);
		assert_true(cache.kept_bytes <= 1000);
	}
	const unsigned made = maker.count;
	assert_true(result_cache_get(&cache, "mine", 1, true, -1, make, &maker, &blob, &err));
	blob_drop(blob);
	assert_int_equal(maker.count, made);
	result_cache_deinit(&cache);
}

struct request_thread {
	struct result_cache *cache;
	struct maker *maker;
	struct blob *blob;
	bool ok;
};

static void *request(void *context)
{
	struct request_thread *const thread = context;
	struct error err = { 0 };

	thread->ok = result_cache_get(
		thread->cache, "same", 0, false, -1, make, thread->maker, &thread->blob, &err);
	return NULL;
}

/* All callers that come while the first one works get its result. */
static void simultaneous_requests_share_one_result(void **state)
{
	enum { THREADS = 8 };
	struct result_cache cache;
	pthread_barrier_t barrier;
	struct maker maker = { .barrier = &barrier };
	struct request_thread threads[THREADS];
	pthread_t ids[THREADS];
	bool all_wait = false;

	(void)state;
	pthread_barrier_init(&barrier, NULL, 2);
	result_cache_init(&cache, 1000);
	for (size_t i = 0; i < THREADS; i++) {
		threads[i] = (struct request_thread){ .cache = &cache, .maker = &maker };
		assert_int_equal(pthread_create(&ids[i], NULL, request, &threads[i]), 0);
	}
	while (!all_wait) {
		pthread_mutex_lock(&cache.mutex);
		all_wait = cache.shared == THREADS - 1;
		pthread_mutex_unlock(&cache.mutex);
	}
	pthread_barrier_wait(&barrier);
	for (size_t i = 0; i < THREADS; i++) {
		pthread_join(ids[i], NULL);
		assert_true(threads[i].ok);
		assert_string_equal(threads[i].blob->data, "made 1");
		blob_drop(threads[i].blob);
	}
	assert_int_equal(maker.count, 1);
	assert_int_equal(cache.kept_bytes, 0);
	result_cache_deinit(&cache);
	pthread_barrier_destroy(&barrier);
}

static bool wait_until_they_left(
	void *context, struct waiting_clients *clients, struct blob **blob, struct error *err)
{
	(void)blob;
	__atomic_store_n((bool *)context, true, __ATOMIC_RELEASE);
	while (!waiting_clients_have_left(clients))
		usleep(1000);
	return error_set(err, ERROR_TIMEOUT, "cancelled");
}

struct leaving_client {
	struct result_cache *cache;
	int fd;
	bool has_begun, has_ended;
	bool ok;
};

static void *wait_for_result(void *context)
{
	struct leaving_client *const client = context;
	struct blob *blob = NULL;
	struct error err = { 0 };

	client->ok = result_cache_get(client->cache, "a", 0, true, client->fd, wait_until_they_left,
		&client->has_begun, &blob, &err);
	__atomic_store_n(&client->has_ended, true, __ATOMIC_RELEASE);
	return NULL;
}

static void a_result_is_cancelled_when_its_last_client_leaves(void **state)
{
	enum { CLIENTS = 2 };
	struct result_cache cache;
	struct leaving_client clients[CLIENTS];
	pthread_t threads[CLIENTS];
	struct maker maker = { 0 };
	struct error err = { 0 };
	struct blob *blob = NULL;
	int peers[CLIENTS];
	uint64_t shared = 0;

	(void)state;
	result_cache_init(&cache, 1000);
	for (size_t i = 0; i < CLIENTS; i++) {
		int ends[2];
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
		peers[i] = ends[0];
		clients[i] = (struct leaving_client){ .cache = &cache, .fd = ends[1] };
		assert_int_equal(
			pthread_create(&threads[i], NULL, wait_for_result, &clients[i]), 0);
		while (i == 0 && !__atomic_load_n(&clients[0].has_begun, __ATOMIC_ACQUIRE))
			usleep(1000);
	}
	while (shared == 0) {
		pthread_mutex_lock(&cache.mutex);
		shared = cache.shared;
		pthread_mutex_unlock(&cache.mutex);
	}
	close(peers[0]);
	/* It waits for the other one: it is made as long as that is there. */
	for (int i = 0; i < 20; i++) {
		usleep(1000);
		assert_false(__atomic_load_n(&clients[0].has_ended, __ATOMIC_ACQUIRE));
	}
	close(peers[1]);
	for (size_t i = 0; i < CLIENTS; i++) {
		pthread_join(threads[i], NULL);
		assert_false(clients[i].ok);
		close(clients[i].fd);
	}
	assert_false(clients[1].has_begun);
	/* Not their failure for the next client. */
	assert_true(result_cache_get(&cache, "a", 0, true, -1, make, &maker, &blob, &err));
	assert_string_equal(blob->data, "made 1");
	blob_drop(blob);
	result_cache_deinit(&cache);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(keeps_what_may_be_kept),
	cmocka_unit_test(makes_anew_what_may_not),
	cmocka_unit_test(makes_anew_what_was_partial),
	cmocka_unit_test(a_failure_is_not_remembered),
	cmocka_unit_test(removes_the_least_recently_used),
	cmocka_unit_test(a_user_with_many_results_displaces_no_other),
	cmocka_unit_test(simultaneous_requests_share_one_result),
	cmocka_unit_test(a_result_is_cancelled_when_its_last_client_leaves),
};

UNIT_MAIN(tests)
