/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of a target in memory, and how much memory its answers may take together. */
#include "gateway/backend.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/xalloc.h"
#include "canned_agent.h"
#include "gateway/result_cache.h"
#include "unit.h"

typedef bool get_function(
	struct backend *backend, struct backend_answer *answer, struct error *err);

static bool get_status(struct backend *backend, struct backend_answer *answer, struct error *err)
{
	return backend_get(backend, "/v1/status", 10000, answer, err);
}

static bool get_profile(struct backend *backend, struct backend_answer *answer, struct error *err)
{
	return backend_get_profile(backend, "/v1/profile", NULL, answer, err);
}

/* Two targets, one budget of 1000 bytes, answers of 400: large ones get three quarters together. */
static void check_sharing(struct byte_budget *budget, get_function *get)
{
	const uint64_t usual = budget->limit;
	struct backend_answer first, second;
	struct canned_agent one, other;
	struct error err = { 0 };

	canned_agent_start(&one, "HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n", 400);
	canned_agent_start(&other, "HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n", 400);
	CLEANUP(backend_cleanup) struct backend *a = backend_new(&one.target, "a");
	CLEANUP(backend_cleanup) struct backend *b = backend_new(&other.target, "b");
	budget->limit = 1000;
	assert_true(get(a, &first, &err));
	assert_int_equal(budget->used, 400);
	assert_false(get(b, &second, &err));
	assert_int_equal(err.kind, ERROR_TIMEOUT);
	assert_contains(err.message, "no memory for the answer");
	assert_int_equal(budget->used, 400);
	/* A caller that shares the answer keeps its bytes, too. */
	struct blob *const shared = blob_share(first.body);
	blob_drop(first.body);
	assert_int_equal(budget->used, 400);
	blob_drop(shared);
	assert_int_equal(budget->used, 0);
	assert_true(get(b, &second, &err));
	blob_drop(second.body);
	assert_int_equal(budget->used, 0);
	budget->limit = usual;
	canned_agent_stop(&one);
	canned_agent_stop(&other);
}

static void answers_in_memory_share_a_budget(void **state)
{
	(void)state;
	assert_int_equal(backend_memory_budget.limit, BACKEND_MEMORY_BYTES);
	check_sharing(&backend_memory_budget, get_status);
}

static void profiles_in_scratch_files_share_another(void **state)
{
	(void)state;
	assert_int_equal(backend_scratch_budget.limit, BACKEND_SCRATCH_BYTES);
	check_sharing(&backend_scratch_budget, get_profile);
	assert_int_equal(backend_memory_budget.used, 0);
}

/* A request whose client can leave. */
struct waiting_request {
	struct backend *backend;
	int client, far_end;
	pthread_t thread;
	bool has_answer;
	struct error err;
};

static void *wait_for_profile(void *context)
{
	struct waiting_request *const request = context;
	CLEANUP(waiting_clients_deinit) struct waiting_clients clients = WAITING_CLIENTS_NONE;
	struct backend_answer answer;

	waiting_clients_add(&clients, request->client);
	request->has_answer = backend_get_profile(
		request->backend, "/v1/profile", &clients, &answer, &request->err);
	return NULL;
}

static unsigned count_callers(struct backend *backend)
{
	pthread_mutex_lock(&backend->mutex);
	const unsigned count = backend->callers[true];
	pthread_mutex_unlock(&backend->mutex);
	return count;
}

/* Returns once it waits, as request number `count`. */
static void begin_to_wait(struct waiting_request *request, struct backend *backend, unsigned count)
{
	int ends[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
	*request = (struct waiting_request){
		.backend = backend, .client = ends[0], .far_end = ends[1]
	};
	assert_int_equal(pthread_create(&request->thread, NULL, wait_for_profile, request), 0);
	while (count_callers(backend) < count)
		usleep(1000);
}

static void leave(struct waiting_request *request)
{
	close(request->far_end);
	pthread_join(request->thread, NULL);
	close(request->client);
	assert_false(request->has_answer);
	assert_int_equal(request->err.kind, ERROR_TIMEOUT);
	assert_contains(request->err.message, "cancelled");
}

/* The agent takes connections, and answers none. */
static void a_wait_for_a_profile_ends_when_all_its_clients_have_left(void **state)
{
	struct canned_agent agent = { .target = { .kind = TARGET_AGENT, .owner = geteuid() } };
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct waiting_request first, second;

	(void)state;
	strcpy(agent.folder, "/tmp/hc-agent.XXXXXX");
	assert_non_null(mkdtemp(agent.folder));
	snprintf(address.sun_path, sizeof address.sun_path, "%s/1.sock", agent.folder);
	strcpy(agent.target.socket_path, address.sun_path);
	strcpy(agent.target.label, "agent");
	const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
	assert_int_equal(listen(listener, 8), 0);
	CLEANUP(backend_cleanup) struct backend *backend = backend_new(&agent.target, "agent");

	begin_to_wait(&first, backend, 1);
	begin_to_wait(&second, backend, 2);
	leave(&second);
	assert_int_equal(count_callers(backend), 1);
	/* What the first has begun serves the other, too. */
	begin_to_wait(&second, backend, 2);
	close(first.far_end);
	first.far_end = -1;
	leave(&second);
	leave(&first);
	assert_int_equal(count_callers(backend), 0);
	close(listener);
	unlink(address.sun_path);
	rmdir(agent.folder);
}

static void expect_misses(const struct live_metrics *history, int64_t since_ms, const char *wanted)
{
	struct buffer body;
	struct json_writer json;

	buffer_init(&body, &memory_or_exit);
	json_init(&json, &body);
	live_metrics_write(history, since_ms, &json);
	const char *const found = strstr(buffer_string(&body), "\"misses\":");
	assert_non_null(found);
	assert_string_equal(found, wanted);
	buffer_deinit(&body);
}

static void reports_why_a_sample_is_missing(void **state)
{
	struct live_metrics history = { 0 };

	(void)state;
	live_metrics_add_miss(&history, 1000, "it hung");
	expect_misses(&history, 0, "\"misses\":[[1000,\"it hung\"]]}");
	expect_misses(&history, 1000, "\"misses\":[]}");
	live_metrics_deinit(&history);
}

static void says_a_reason_once_until_there_is_a_sample(void **state)
{
	const struct live_sample sample = { .time_ms = 4000 };
	struct live_metrics history = { 0 };

	(void)state;
	live_metrics_add_miss(&history, 1000, "it hung");
	live_metrics_add_miss(&history, 2000, "it hung");
	live_metrics_add_miss(&history, 3000, "it is gone");
	live_metrics_add(&history, &sample);
	live_metrics_add_miss(&history, 5000, "it is gone");
	expect_misses(&history, 0,
		"\"misses\":[[1000,\"it hung\"],[3000,\"it is gone\"],[5000,\"it is gone\"]]}");
	live_metrics_deinit(&history);
}

static void forgets_the_oldest_reasons(void **state)
{
	struct live_metrics history = { 0 };
	char reason[16];

	(void)state;
	for (int i = 0; i <= LIVE_METRICS_MISSES_MAX; i++) {
		snprintf(reason, sizeof reason, "reason %d", i);
		live_metrics_add_miss(&history, i, reason);
	}
	assert_int_equal(history.miss_count, LIVE_METRICS_MISSES_MAX);
	/* The same reason again removes no other. */
	live_metrics_add_miss(&history, LIVE_METRICS_MISSES_MAX + 1, reason);
	expect_misses(&history, LIVE_METRICS_MISSES_MAX - 1, "\"misses\":[[64,\"reason 64\"]]}");
	assert_string_equal(history.misses[1].reason, "reason 1");
	live_metrics_deinit(&history);
}

static void a_sample_is_due_once_a_second_also_by_a_clock_that_was_set_back(void **state)
{
	const struct live_sample sample = { .time_ms = 100000 };
	struct live_metrics history = { 0 };

	(void)state;
	assert_true(live_metrics_is_due(&history, 0));
	live_metrics_add(&history, &sample);
	assert_false(live_metrics_is_due(&history, 100500));
	assert_true(live_metrics_is_due(&history, 101000));
	assert_true(live_metrics_is_due(&history, 99000));
	live_metrics_deinit(&history);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(answers_in_memory_share_a_budget),
	cmocka_unit_test(profiles_in_scratch_files_share_another),
	cmocka_unit_test(a_wait_for_a_profile_ends_when_all_its_clients_have_left),
	cmocka_unit_test(a_sample_is_due_once_a_second_also_by_a_clock_that_was_set_back),
	cmocka_unit_test(reports_why_a_sample_is_missing),
	cmocka_unit_test(says_a_reason_once_until_there_is_a_sample),
	cmocka_unit_test(forgets_the_oldest_reasons),
};

UNIT_MAIN(tests)
