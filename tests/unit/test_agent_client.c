/* SPDX-License-Identifier: Apache-2.0 */
/* How much an agent may answer: limits of one answer, and a budget of several. */
#include "client/agent_client.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/memory.h"
#include "canned_agent.h"
#include "unit.h"

static bool call(struct canned_agent *agent, const char *path, uint64_t limit,
	struct byte_budget *budget, struct http_answer *answer, struct error *err)
{
	const struct agent_call wanted = {
		.method = "GET",
		.path = path,
		.total_ms = 20000,
		.limit = limit,
		.budget = budget,
	};

	*err = (struct error){ 0 };
	return agent_call(&agent->target, &wanted, answer, err);
}

static void an_answer_that_does_not_come_has_a_hint(void **state)
{
	json_t *answer = NULL;
	struct canned_agent agent;
	struct error err = { 0 };

	(void)state;
	canned_agent_start(&agent, "", 0);
	/* It accepts nothing. */
	kill(agent.pid, SIGSTOP);
	assert_false(
		agent_call_json_within(&agent.target, "GET", "/v1/status", 100, &answer, &err));
	assert_int_equal(err.kind, ERROR_TIMEOUT);
	assert_contains(err.message, "no answer in time");
	assert_contains(err.hint, "try again later");
	canned_agent_stop(&agent);
}

static const char without_length[] = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";

static void an_answer_may_have_its_limit_and_no_byte_more(void **state)
{
	struct http_answer answer;
	struct canned_agent agent;
	struct error err;

	(void)state;
	canned_agent_start(&agent, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", 100);
	assert_true(call(&agent, "/v1/status", 100, NULL, &answer, &err));
	assert_int_equal(answer.body_bytes, 100);
	http_answer_deinit(&answer);
	assert_false(call(&agent, "/v1/status", 99, NULL, &answer, &err));
	assert_int_equal(err.kind, ERROR_INPUT);
	assert_contains(err.message, "more than 99 bytes");
	assert_int_equal(answer.body.size, 0);
	http_answer_deinit(&answer);
	canned_agent_stop(&agent);
}

static void an_answer_of_no_known_length_has_the_same_limit(void **state)
{
	struct http_answer answer;
	struct canned_agent agent;
	struct error err;

	(void)state;
	canned_agent_start(&agent, without_length, 1000000);
	assert_false(call(&agent, "/v1/profile", 5000, NULL, &answer, &err));
	assert_int_equal(err.kind, ERROR_INPUT);
	assert_contains(err.message, "more than 5000 bytes");
	assert_true(answer.body.size <= 5000);
	http_answer_deinit(&answer);
	canned_agent_stop(&agent);
}

/* One that announces a byte more than its kind may have is refused before anything is read. */
static void each_kind_of_answer_has_a_limit_of_its_own(void **state)
{
	static const struct {
		const char *path;
		uint64_t bytes;
	} kinds[] = {
		{ "/v1/status", AGENT_JSON_BYTES },
		{ "/v1/runs", AGENT_JSON_BYTES },
		{ "/v1/runs/17", AGENT_JSON_BYTES },
		{ "/v1/mallctl/prof.active", AGENT_JSON_BYTES },
		{ "/v1/stats?format=text", AGENT_STATS_BYTES },
		{ "/v1/profile", AGENT_ANSWER_BYTES },
		{ "/v1/runs/17/profile", AGENT_ANSWER_BYTES },
		{ "/v1/runs/17/start", AGENT_ANSWER_BYTES },
	};

	(void)state;
	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
		struct http_answer answer;
		struct canned_agent agent;
		struct error err;
		char head[96];
		assert_int_equal(agent_answer_limit(kinds[i].path), kinds[i].bytes);
		/* Of a huge profile the agent may send for long; all else it has at once. */
		if (kinds[i].bytes < AGENT_ANSWER_BYTES)
			assert_in_range(agent_answer_total_ms(kinds[i].path), 1, 200 * 1000);
		else
			assert_in_range(
				agent_answer_total_ms(kinds[i].path), 1800 * 1000, 3600 * 1000);
		snprintf(head, sizeof head, "HTTP/1.1 200 OK\r\nContent-Length: %llu\r\n\r\n",
			(unsigned long long)kinds[i].bytes + 1);
		canned_agent_start(&agent, head, 0);
		assert_false(call(&agent, kinds[i].path, 0, NULL, &answer, &err));
		snprintf(head, sizeof head, "more than %llu bytes",
			(unsigned long long)kinds[i].bytes);
		assert_contains(err.message, head);
		http_answer_deinit(&answer);
		canned_agent_stop(&agent);
	}
}

/* heapctl dump: nothing of it reaches the file. */
static void a_profile_for_a_file_has_a_limit(void **state)
{
	struct http_answer answer;
	struct canned_agent agent;
	struct error err = { 0 };
	char head[192];
	const int fd = memfd_create("profile", MFD_CLOEXEC);

	(void)state;
	snprintf(head, sizeof head,
		"HTTP/1.1 200 OK\r\nContent-Type: application/x-jemalloc-heap-profile\r\n"
		"Content-Length: %llu\r\n\r\n",
		(unsigned long long)AGENT_PROFILE_BYTES + 1);
	canned_agent_start(&agent, head, 4096);
	assert_false(
		agent_fetch_profile(&agent.target, "/v1/profile", fd, "a.heap", &answer, &err));
	assert_contains(err.message, "more than 4294967296 bytes");
	assert_int_equal(lseek(fd, 0, SEEK_END), 0);
	http_answer_deinit(&answer);
	canned_agent_stop(&agent);
	close(fd);
}

static void an_error_of_an_agent_is_short(void **state)
{
	struct http_answer answer;
	struct canned_agent agent;
	struct error err;

	(void)state;
	canned_agent_start(&agent, "HTTP/1.1 500 No\r\nConnection: close\r\n\r\n", 1000000);
	assert_false(call(&agent, "/v1/profile", 0, NULL, &answer, &err));
	assert_true(answer.body.size <= 64 * 1024);
	http_answer_deinit(&answer);
	canned_agent_stop(&agent);
}

static void answers_that_are_held_share_a_budget(void **state)
{
	struct byte_budget budget = { .limit = 1000 };
	struct http_answer first, second, third;
	struct canned_agent agent;
	struct error err;

	(void)state;
	canned_agent_start(&agent, "HTTP/1.1 200 OK\r\nContent-Length: 400\r\n\r\n", 400);
	assert_true(call(&agent, "/v1/profile", 0, &budget, &first, &err));
	assert_int_equal(budget.used, 400);
	/* Large ones get three quarters together. */
	assert_false(call(&agent, "/v1/profile", 0, &budget, &second, &err));
	assert_int_equal(err.kind, ERROR_TIMEOUT);
	assert_contains(err.message, "no memory for the answer");
	http_answer_deinit(&second);
	assert_int_equal(budget.used, 400);
	/* The new owner of an answer returns its share of the budget. */
	const uint64_t taken = http_answer_take_budget(&first);
	assert_int_equal(taken, 400);
	http_answer_deinit(&first);
	assert_int_equal(budget.used, 400);
	byte_budget_give(&budget, taken);
	assert_true(call(&agent, "/v1/profile", 0, &budget, &third, &err));
	http_answer_deinit(&third);
	assert_int_equal(budget.used, 0);
	canned_agent_stop(&agent);
}

static void the_last_quarter_of_a_budget_is_for_small_answers(void **state)
{
	struct byte_budget budget = { .limit = 1600 };

	(void)state;
	assert_true(byte_budget_take(&budget, 0, 1200));
	assert_false(byte_budget_take(&budget, 0, 101));
	assert_false(byte_budget_take(&budget, 100, 1));
	assert_int_equal(budget.used, 1200);
	for (int i = 0; i < 4; i++)
		assert_true(byte_budget_take(&budget, 0, 100));
	assert_false(byte_budget_take(&budget, 0, 1));
	assert_int_equal(budget.used, 1600);
	byte_budget_give(&budget, 1600);
	assert_int_equal(budget.used, 0);
}

static bool check(const char *text)
{
	struct error err;

	return heap_text_check(text, strlen(text), &err);
}

static void a_profile_of_jemalloc_is_one(void **state)
{
	(void)state;
	assert_true(check("heap_v2/524288\n  t*: 0: 0 [0: 0]\n"));
	assert_true(check("heap_v2/524288\n  t*: 28: 1500 [0: 0]\n  t3: 20: 1000 [0: 0] worker 3\n"
			  "@ 0x7f06a3a2630 0x55d41fef4427\n  t*: 28: 1500 [0: 0]\n\n"
			  "MAPPED_LIBRARIES:\n55d41fef2000-55d41fef4000 r--p 00000000 fe:01 12 /x\n"
			  "#sampling heapctl since 1763716881123\n#process a server\n"));
	assert_true(check("heap_v2/1\n  t*: 1: 2 [0: 0]\n\nMAPPED_LIBRARIES:\n"
			  "#sampling jemalloc since 1763716881123 attached 1763716881100 at "
			  "1763717601200\n"));
	assert_true(check("heap_v2/1\n  t*: 1: 2 [0: 0]\n\nMAPPED_LIBRARIES:\n"
			  "#sampling heapctl since 1763716881123 attached 1763716881100 at "
			  "1763717601200 mapped\n"));
	assert_true(
		check("heap_v2/1\n  t*: 1: 2 [3: 4]\n#temporary 2: 2\n@ 0x1\n  t*: 1: 2 [3: 4]\n"
		      "#temporary 2: 2\n"));
	assert_true(check("heap_v2/1\nf: 1 name\n  t*: 1: 2 [0: 0]\n@\n  t*: 1: 2 [0: 0]\n"));
}

static void anything_else_is_none(void **state)
{
	(void)state;
	static const char *const texts[] = { "", "\n", "heap_v2/", "heap_v2/1", "heap_v2/1\n",
		"heap_v2/x\n  t*: 0: 0 [0: 0]\n", "#!/bin/sh\nid\n", "heap_v2/1\n  t*: x\n",
		"heap_v2/1\n@ 0x1\n", "{\"protocol\": 1}\n",
		"heap_v2/1\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\nrm -rf /\n",
		"heap_v2/1\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n#rm -rf /\n",
		"heap_v2/1\n  t*: 0: 0 [0: 0]\n\nMAPPED_LIBRARIES:\n#sampling $(id)\n",
		"heap_v2/1x\n  t*: 0: 0 [0: 0]\n" };

	for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
		struct error err = { 0 };
		if (heap_text_check(texts[i], strlen(texts[i]), &err))
			fail_msg("'%s' was taken for a profile", texts[i]);
		assert_int_equal(err.kind, ERROR_INPUT);
		assert_contains(err.message, "not a heap profile");
	}
}

static void bytes_of_no_meaning_are_bounded(void **state)
{
	(void)state;
	static const char head[] = "heap_v2/1\n  t*: 0: 0 [0: 0]\n";
	const size_t size = 5 * 1024 * 1024;
	char *const text = malloc(size);
	struct error err;

	assert_non_null(text);
	memset(text, 'f', size);
	memcpy(text, head, sizeof head - 1);
	assert_false(heap_text_check(text, size, &err));
	assert_true(heap_text_check(text, 100000, &err));
	text[100] = '\0';
	assert_false(heap_text_check(text, 100000, &err));
	free(text);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(an_answer_that_does_not_come_has_a_hint),
	cmocka_unit_test(an_answer_may_have_its_limit_and_no_byte_more),
	cmocka_unit_test(an_answer_of_no_known_length_has_the_same_limit),
	cmocka_unit_test(each_kind_of_answer_has_a_limit_of_its_own),
	cmocka_unit_test(a_profile_for_a_file_has_a_limit),
	cmocka_unit_test(an_error_of_an_agent_is_short),
	cmocka_unit_test(answers_that_are_held_share_a_budget),
	cmocka_unit_test(the_last_quarter_of_a_budget_is_for_small_answers),
	cmocka_unit_test(a_profile_of_jemalloc_is_one),
	cmocka_unit_test(anything_else_is_none),
	cmocka_unit_test(bytes_of_no_meaning_are_bounded),
};

UNIT_MAIN(tests)
