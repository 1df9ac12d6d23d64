/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a long history one answer has. */
#include "store/store.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jansson.h>
#include <sqlite3.h>

#include "base/xalloc.h"
#include "client/agent_client.h"
#include "store/store_index.h"
#include "gateway/gateway.h"
#include "gateway/router.h"
#include "gateway/handlers.h"
#include "remove_folder.h"
#include "unit.h"
#include "wire/http_target.h"

enum { SNAPSHOTS = 25000 };
static const int64_t START_MS = 1700000000000;

struct scene {
	char folder[64];
	struct gateway gateway;
};

/* Rows alone: files are read for profiles only. */
static void add_snapshots(sqlite3 *index, int count)
{
	char text[512];

	snprintf(text, sizeof text,
		"WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d) "
		"INSERT INTO snapshot (time_ms, target, pid, file, bytes, allocated, active, "
		"metadata, resident, mapped, retained, rss) SELECT %lld + i, 'one', 7, 'file' || "
		"i, "
		"1, 1, 1, 1, 1, 1, 1, 1 FROM n",
		count - 1, (long long)START_MS);
	if (sqlite3_exec(index, text, NULL, NULL, NULL) != SQLITE_OK)
		fail_msg("%s", sqlite3_errmsg(index));
}

static int set_up(void **state)
{
	struct scene *const scene = xcalloc(1, sizeof *scene);
	const struct store_limits limits = { .keep_ms = INT64_MAX / 2, .bytes = UINT64_MAX };
	struct error err;

	strcpy(scene->folder, "/tmp/hc-timeline.XXXXXX");
	assert_non_null(mkdtemp(scene->folder));
	assert_true(store_open(scene->folder, STORE_HISTORY, &limits, &scene->gateway.store, &err));
	add_snapshots(scene->gateway.store->index, SNAPSHOTS);
	*state = scene;
	return 0;
}

static int tear_down(void **state)
{
	struct scene *const scene = *state;

	store_close(scene->gateway.store);
	remove_folder(scene->folder);
	free(scene);
	return 0;
}

/* What the gateway answers to /targets/one/api/v1/timeline with that query; NULL when refused. */
static json_t *ask(struct scene *scene, const char *query)
{
	struct request request = { .method = METHOD_GET, .client_fd = -1 };
	struct http_target target;
	struct reply reply;
	struct error err;
	unsigned allowed;
	char text[128];

	snprintf(text, sizeof text, "/targets/one/api/v1/timeline%s", query);
	assert_true(http_target_parse(text, &target, &err));
	assert_true(router_match(routes, text, &request, &allowed, &err));
	if (!router_check(&target, &request, &err))
		return NULL;
	reply_init(&reply);
	assert_true(request.route->handle(&scene->gateway, &request, &reply, &err));
	assert_int_equal(reply.status, 200);
	json_t *const answer = json_loadb(reply.body->data, reply.body->size, 0, NULL);
	reply_deinit(&reply);
	assert_non_null(answer);
	return answer;
}

static void check(struct scene *scene, const char *query, size_t listed, int64_t total)
{
	CLEANUP(json_cleanup) json_t *answer = ask(scene, query);
	const json_t *const snapshots = json_object_get(answer, "snapshots");

	assert_int_equal(json_array_size(snapshots), listed);
	assert_int_equal(json_number(answer, "total"), total);
	assert_int_equal(json_number(json_array_get(snapshots, 0), "time_ms"), START_MS);
	assert_int_equal(json_number(json_array_get(snapshots, listed - 1), "time_ms"),
		START_MS + total - 1);
	/* Evenly spread: no gap is more than one longer than another. */
	const int64_t gap = (total - 1) / (int64_t)(listed - 1);
	for (size_t i = 1; i < listed; i++) {
		const int64_t step = json_number(json_array_get(snapshots, i), "time_ms") -
				     json_number(json_array_get(snapshots, i - 1), "time_ms");
		assert_in_range(step, gap, gap + 1);
	}
}

static void has_5000_snapshots_by_default_and_says_how_many_there_are(void **state)
{
	check(*state, "", 5000, SNAPSHOTS);
}

static void has_as_many_as_asked_for_up_to_20000(void **state)
{
	check(*state, "?max=2", 2, SNAPSHOTS);
	check(*state, "?max=333", 333, SNAPSHOTS);
	check(*state, "?most=333", 333, SNAPSHOTS);
	check(*state, "?max=20000", 20000, SNAPSHOTS);
	assert_null(ask(*state, "?max=20001"));
	assert_null(ask(*state, "?max=1"));
	assert_null(ask(*state, "?max=0"));
}

static void total_is_of_the_time_asked_for(void **state)
{
	char query[64];

	snprintf(query, sizeof query, "?to_ms=%lld", (long long)START_MS + 5999);
	check(*state, query, 5000, 6000);
	snprintf(query, sizeof query, "?to_ms=%lld", (long long)START_MS + 99);
	check(*state, query, 100, 100);
}

static void a_process_has_all_its_snapshots_in_its_count(void **state)
{
	CLEANUP(json_cleanup) json_t *answer = ask(*state, "?max=2");
	const json_t *const process = json_array_get(json_object_get(answer, "processes"), 0);

	assert_int_equal(json_number(process, "snapshots"), SNAPSHOTS);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(has_5000_snapshots_by_default_and_says_how_many_there_are),
	cmocka_unit_test(has_as_many_as_asked_for_up_to_20000),
	cmocka_unit_test(total_is_of_the_time_asked_for),
	cmocka_unit_test(a_process_has_all_its_snapshots_in_its_count),
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
