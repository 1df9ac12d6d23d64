/* SPDX-License-Identifier: Apache-2.0 */
/* What all answers together may hold. */
#include "gateway/backend.h"

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
	return backend_get_profile(backend, "/v1/profile", answer, err);
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
	/* Who shares the answer holds it as well. */
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

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(answers_in_memory_share_a_budget),
	cmocka_unit_test(profiles_in_scratch_files_share_another),
};

UNIT_MAIN(tests)
