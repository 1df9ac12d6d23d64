/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/routes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "allocator_fake.h"
#include "failing_memory.h"
#include "unit.h"

static int64_t now_ms;

static int64_t fake_now(void)
{
	return now_ms;
}

static int64_t fake_wall(void)
{
	return 1700000000000 + now_ms;
}

struct fixture {
	struct allocator_fake fake;
	struct settings settings;
	struct core_activation activation;
	struct core core;
	int status;
	char body[16384]; /* of the last answer */
	char head[1024];
};

static struct fixture f;

static void init_with(const struct memory *memory)
{
	const struct core_options options = { .allocator = &f.fake.allocator,
		.memory = memory,
		.settings = &f.settings,
		.name = "server",
		.activation = &f.activation,
		.now_ms = fake_now,
		.wall_ms = fake_wall };

	now_ms = 1000;
	atomic_store(&f.activation.cause, CORE_CAUSE_NONE);
	allocator_fake_init(&f.fake);
	f.settings = (struct settings){ .keep = 4, .keep_bytes = 1 << 20 };
	core_init(&f.core, &options);
}

static int set_up(void **state)
{
	(void)state;
	init_with(&memory_heap);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	core_deinit(&f.core);
	return 0;
}

static void read_body(struct response *response)
{
	const uint64_t size = response_size(response);

	assert_true(size < sizeof f.body);
	if (response->file.fd >= 0)
		assert_int_equal(pread(response->file.fd, f.body, (size_t)size, 0), size);
	else if (size > 0)
		memcpy(f.body, response->body.data, (size_t)size);
	f.body[size] = '\0';
}

/* Asks and returns the status; body and head are in `f`. */
static int ask_form(const char *method, const char *target, const char *form)
{
	char target_copy[512], form_copy[512] = "";
	struct response response;
	struct buffer head;

	strcpy(target_copy, target);
	strcpy(form_copy, form);
	const struct agent_request request = {
		.method = method, .target = target_copy, .form = form_copy
	};
	response_init(&response, f.core.memory);
	routes_handle(&f.core, &request, &response);
	read_body(&response);
	f.status = response.status;
	buffer_init(&head, &memory_heap);
	response_write_head(&response, true, &head);
	snprintf(f.head, sizeof f.head, "%s", buffer_string(&head));
	buffer_deinit(&head);
	response_deinit(&response);
	return f.status;
}

static int ask(const char *method, const char *target)
{
	return ask_form(method, target, "");
}

static int64_t id_in_body(void)
{
	long long id = 0;

	assert_int_equal(sscanf(strstr(f.body, "\"id\":"), "\"id\":%lld", &id), 1);
	return id;
}

static void answers_status(void **state)
{
	(void)state;
	assert_int_equal(ask("GET", "/v1/status"), 200);
	assert_contains(f.head, "Heapctl-Protocol: 1\r\n");
	assert_contains(f.body, "\"name\":\"server\"");
	assert_contains(f.body, "\"available\":true");
	assert_contains(f.body, "\"lg_sample\":19,\"sample_interval\":524288");
	assert_contains(f.body, "\"run\":null,\"last_dump\":null");
	assert_contains(f.body, "\"activated_by\":null");
	assert_contains(f.body, "\"prof.dump\"");
}

static void activates_and_deactivates(void **state)
{
	(void)state;
	assert_int_equal(ask("POST", "/v1/activate"), 200);
	assert_string_equal(f.body, "{\"active\":true,\"was_active\":false}\n");
	ask("GET", "/v1/status");
	assert_contains(f.body, "\"active_since_ms\":1700000001000,\"activated_by\":\"heapctl\"");
	ask("POST", "/v1/activate");
	assert_string_equal(f.body, "{\"active\":true,\"was_active\":true}\n");
	ask("POST", "/v1/deactivate");
	assert_string_equal(f.body, "{\"active\":false,\"was_active\":true}\n");
	assert_false(atomic_load(&f.fake.active));
}

static void a_pause_ends_by_itself(void **state)
{
	(void)state;
	ask("POST", "/v1/activate");
	assert_int_equal(ask_form("POST", "/v1/deactivate", "duration_ms=5000"), 200);
	assert_string_equal(f.body, "{\"active\":false,\"was_active\":true}\n");
	assert_int_equal(core_wait_ms(&f.core), 5000);
	now_ms += 4999;
	core_tick(&f.core);
	assert_false(atomic_load(&f.fake.active));
	now_ms++;
	core_tick(&f.core);
	assert_true(atomic_load(&f.fake.active));
	assert_int_equal(core_wait_ms(&f.core), -1);
	ask("GET", "/v1/status");
	assert_contains(f.body, "\"activated_by\":\"heapctl\"");
	assert_int_equal(ask_form("POST", "/v1/deactivate", "duration_ms=0"), 400);
	assert_true(atomic_load(&f.fake.active));
}

static void a_pause_of_nothing_switches_nothing_on(void **state)
{
	(void)state;
	ask_form("POST", "/v1/deactivate", "duration_ms=5000");
	assert_int_equal(core_wait_ms(&f.core), -1);
	ask("POST", "/v1/activate");
	ask_form("POST", "/v1/deactivate", "duration_ms=5000");
	ask("POST", "/v1/deactivate");
	assert_int_equal(core_wait_ms(&f.core), -1);
	ask("POST", "/v1/activate");
	ask_form("POST", "/v1/deactivate", "duration_ms=5000");
	ask("POST", "/v1/activate");
	assert_int_equal(core_wait_ms(&f.core), -1);
}

static void a_run_in_a_pause_leaves_sampling_on(void **state)
{
	(void)state;
	ask("POST", "/v1/activate");
	ask_form("POST", "/v1/deactivate", "duration_ms=5000");
	assert_int_equal(ask_form("POST", "/v1/runs", "duration_ms=2000"), 201);
	assert_contains(f.body, "\"was_active\":true");
	assert_int_equal(core_wait_ms(&f.core), 2000);
	now_ms += 2000;
	core_tick(&f.core);
	assert_true(atomic_load(&f.fake.active));
	assert_int_equal(core_wait_ms(&f.core), -1);
}

static void reports_what_else_switched_sampling_on(void **state)
{
	(void)state;
	atomic_store(&f.fake.active, true);
	ask("GET", "/v1/status");
	assert_contains(f.body, "\"active_since_ms\":null,\"activated_by\":\"other\"");
}

static void gives_a_profile(void **state)
{
	(void)state;
	assert_int_equal(ask("GET", "/v1/profile"), 200);
	const size_t size = strlen(f.fake.profile);
	assert_memory_equal(f.body, f.fake.profile, size);
	assert_string_equal(f.body + size, "#sampling jemalloc\n");
	assert_contains(f.head, "application/x-jemalloc-heap-profile");
	assert_contains(f.head, "Heapctl-Dump-Ms: ");
	assert_contains(f.head, "Heapctl-Time-Ms: ");
	ask("GET", "/v1/status");
	assert_contains(f.body, "\"stacks\":1,\"bytes\":");
}

static void says_why_a_profile_failed(void **state)
{
	(void)state;
	allocator_fake_fail_next(&f.fake, ERROR_SYSTEM, ENOSPC, "no room");
	assert_int_equal(ask("GET", "/v1/profile"), 500);
	assert_contains(f.body, "{\"error\":{\"code\":\"system\",\"message\":\"no room\"");
	assert_null(strstr(f.head, "Heapctl-Dump-Ms"));
	f.fake.profile = "";
	assert_int_equal(ask("GET", "/v1/profile"), 500);
	assert_contains(f.body, "empty profile");
}

static void gives_statistics(void **state)
{
	(void)state;
	assert_int_equal(ask("GET", "/v1/stats"), 200);
	assert_string_equal(f.body, "{\"jemalloc\":{}}\n");
	assert_int_equal(ask("GET", "/v1/stats?format=text&options=ma"), 200);
	assert_contains(f.head, "text/plain");
	assert_int_equal(ask("GET", "/v1/stats?format=xml"), 400);
	assert_int_equal(ask("GET", "/v1/stats?options=Z"), 400);
}

static void runs_end_at_their_deadline(void **state)
{
	(void)state;
	char target[64];
	assert_int_equal(ask("POST", "/v1/runs?duration_ms=5000"), 201);
	const int64_t id = id_in_body();
	assert_contains(f.body, "\"state\":\"running\"");
	assert_contains(f.body, "\"remaining_ms\":5000");
	assert_true(atomic_load(&f.fake.active));
	assert_int_equal(core_wait_ms(&f.core), 5000);

	assert_int_equal(ask_form("POST", "/v1/runs", "duration_ms=9000"), 200);
	assert_contains(f.body, "\"already_running\":true");
	assert_int_equal(id_in_body(), id);
	snprintf(target, sizeof target, "/v1/runs/%lld/profile", (long long)id);
	assert_int_equal(ask("GET", target), 409);
	assert_int_equal(ask("POST", "/v1/deactivate"), 409);
	assert_contains(f.body, "stop the run first");
	ask("GET", "/v1/status");
	assert_contains(f.body, "\"activated_by\":\"run\"");
	assert_contains(f.body, "\"run\":{\"id\":");

	now_ms += 4999;
	core_tick(&f.core);
	assert_true(atomic_load(&f.fake.active));
	f.fake.profile = "a later profile\n";
	now_ms++;
	core_tick(&f.core);
	assert_false(atomic_load(&f.fake.active));
	assert_int_equal(core_wait_ms(&f.core), -1);
	assert_int_equal(ask("GET", target), 200);
	assert_string_equal(f.body, "a later profile\n");
	snprintf(target, sizeof target, "/v1/runs/%lld/start", (long long)id);
	assert_int_equal(ask("GET", target), 200);
	assert_contains(f.body, "heap_v2/524288");
	snprintf(target, sizeof target, "/v1/runs/%lld", (long long)id);
	ask("GET", target);
	assert_contains(f.body, "\"state\":\"finished\"");
	assert_contains(f.body, "\"ended_by\":\"deadline\"");
	assert_contains(f.body, "\"ended_ms\":1700000006000");
	assert_contains(f.body, "\"profile_bytes\":16");
}

static void stop_ends_a_run(void **state)
{
	(void)state;
	assert_int_equal(ask("POST", "/v1/runs/stop"), 409);
	assert_contains(f.body, "no run to stop");
	ask("POST", "/v1/runs");
	assert_int_equal(ask("POST", "/v1/runs/stop"), 200);
	assert_contains(f.body, "\"ended_by\":\"stop\"");
	assert_false(atomic_load(&f.fake.active));
	assert_int_equal(ask("GET", "/v1/runs"), 200);
	assert_contains(f.body, "{\"runs\":[{\"id\":");
	char target[64];
	snprintf(target, sizeof target, "/v1/runs/%lld/remove", (long long)id_in_body());
	assert_int_equal(ask("POST", target), 200);
	assert_int_equal(ask("POST", target), 404);
	ask("GET", "/v1/runs");
	assert_string_equal(f.body, "{\"runs\":[]}\n");
}

static void a_run_leaves_sampling_on_where_it_was_kept(void **state)
{
	(void)state;
	atomic_store(&f.fake.active, true);
	assert_int_equal(ask("POST", "/v1/runs?keep_active=true"), 201);
	assert_contains(f.body, "\"was_active\":true");
	assert_int_equal(ask("POST", "/v1/runs/stop"), 200);
	assert_contains(f.body, "\"state\":\"finished\"");
	assert_true(atomic_load(&f.fake.active));
	ask("GET", "/v1/status");
	assert_contains(f.body, "\"activated_by\":\"other\"");
	ask("POST", "/v1/deactivate");
	assert_int_equal(ask("POST", "/v1/runs?keep_active=true"), 201);
	assert_contains(f.body, "\"was_active\":false");
	ask("POST", "/v1/runs/stop");
	assert_false(atomic_load(&f.fake.active));
}

static void intervals_fit_a_signed_number(void **state)
{
	(void)state;
	atomic_store(&f.fake.lg_sample, 63);
	assert_int_equal(ask("GET", "/v1/status"), 200);
	assert_contains(f.body, "\"lg_sample\":63,\"sample_interval\":9223372036854775807");
	assert_int_equal(ask("POST", "/v1/runs"), 201);
	assert_contains(f.body, "\"sample_interval\":9223372036854775807");
	ask("POST", "/v1/runs/stop");
}

static void a_run_may_have_an_interval_of_its_own(void **state)
{
	(void)state;
	assert_int_equal(ask("POST", "/v1/runs?lg_sample=14"), 201);
	assert_contains(f.body, "\"lg_sample\":14,\"sample_interval\":16384");
	assert_int_equal(atomic_load(&f.fake.lg_sample), 14);
	ask("POST", "/v1/runs/stop");
	assert_contains(f.body, "\"lg_sample\":14");
	assert_contains(f.body, "\"resets\":0");
	assert_int_equal(atomic_load(&f.fake.lg_sample), 19);
	/* One that cannot begin leaves things as they were. */
	assert_int_equal(ask("POST", "/v1/runs?lg_sample=5"), 403);
	atomic_store(&f.fake.active, true);
	assert_int_equal(ask("POST", "/v1/runs?lg_sample=14"), 409);
	assert_int_equal(atomic_load(&f.fake.lg_sample), 19);
	assert_int_equal(ask("POST", "/v1/runs?lg_sample=14&keep_active=1"), 201);
	ask("POST", "/v1/runs/stop");
	assert_int_equal(atomic_load(&f.fake.lg_sample), 19);
	assert_true(atomic_load(&f.fake.active));
}

static void a_run_is_refused_while_sampling_is_on(void **state)
{
	(void)state;
	atomic_store(&f.fake.active, true);
	assert_int_equal(ask("POST", "/v1/runs"), 409);
	assert_contains(f.body, "by the program itself");
	ask("POST", "/v1/deactivate");
	ask("POST", "/v1/activate");
	assert_int_equal(ask("POST", "/v1/runs"), 409);
	assert_contains(f.body, "by 'activate'");
	assert_true(atomic_load(&f.fake.active));
}

static void a_run_counts_gaps_and_resets(void **state)
{
	(void)state;
	ask("POST", "/v1/runs");
	assert_int_equal(ask("POST", "/v1/reset"), 200);
	atomic_store(&f.fake.active, false);
	ask("GET", "/v1/status");
	ask("POST", "/v1/runs/stop");
	assert_contains(f.body, "\"sampling_gaps\":1,\"resets\":1");
}

static void a_run_that_cannot_end_well_says_so_and_ends(void **state)
{
	(void)state;
	ask("POST", "/v1/runs?duration_ms=1000");
	now_ms += 1000;
	f.fake.profile = "";
	core_tick(&f.core);
	assert_false(core_is_running(&f.core));
	assert_false(atomic_load(&f.fake.active));
	ask("GET", "/v1/runs");
	assert_contains(f.body, "\"state\":\"failed\"");
	assert_contains(f.body, "\"error\":\"jemalloc wrote an empty profile\"");
	char target[64];
	snprintf(target, sizeof target, "/v1/runs/%lld/profile", (long long)id_in_body());
	assert_int_equal(ask("GET", target), 404);
	assert_contains(f.body, "empty profile");
}

static void a_run_that_cannot_begin_leaves_nothing(void **state)
{
	(void)state;
	for (unsigned call = 1; call < 20; call++) {
		allocator_fake_fail_next(&f.fake, ERROR_SYSTEM, EFAULT, "scripted");
		atomic_store(&f.fake.fail_at, atomic_load(&f.fake.calls) + call);
		const int status = ask("POST", "/v1/runs");
		if (status == 201) {
			assert_true(call > 4);
			ask("POST", "/v1/runs/stop");
			return;
		}
		assert_int_equal(status, 500);
		assert_false(core_is_running(&f.core));
		ask("GET", "/v1/runs");
		assert_string_equal(f.body, "{\"runs\":[]}\n");
		ask("POST", "/v1/deactivate");
	}
	fail_msg("no call was the last");
}

static void refuses_bad_requests(void **state)
{
	(void)state;
	static const struct {
		const char *method, *target;
		int status;
		const char *part;
	} cases[] = {
		{ "GET", "/", 404, "not-found" },
		{ "GET", "/v1", 404, "not-found" },
		{ "GET", "/v1/status/", 404, "not-found" },
		{ "GET", "/v1/runs/", 404, "not-found" },
		{ "GET", "/v1/mallctl/a/b", 404, "not-found" },
		{ "GET", "no path", 400, "usage" },
		{ "GET", "/%00", 400, "usage" },
		{ "GET", "/v1/activate", 405, "needs POST" },
		{ "GET", "/v1/runs/stop", 405, "needs POST" },
		{ "DELETE", "/v1/status", 405, "needs GET" },
		{ "PUT", "/v1/runs", 405, "needs GET or POST" },
		{ "GET", "/v1/status?verbose", 400, "verbose" },
		{ "POST", "/v1/runs?duration=5", 400, "duration" },
		{ "POST", "/v1/runs?duration_ms=5s", 400, "5s" },
		{ "POST", "/v1/runs?duration_ms=-5", 400, "-5" },
		{ "POST", "/v1/runs?duration_ms=", 400, "number" },
		{ "POST", "/v1/runs?duration_ms=999", 400, "1 s to 24 h" },
		{ "POST", "/v1/runs?duration_ms=86400001", 400, "1 s to 24 h" },
		{ "POST", "/v1/runs?duration_ms=99999999999999999999", 400, "number" },
		{ "GET", "/v1/runs/x", 400, "number" },
		{ "GET", "/v1/runs/1", 404, "no run 1" },
		{ "GET", "/v1/runs/1/profile", 404, "no run 1" },
		{ "POST", "/v1/reset?lg_sample=41", 400, "40" },
		{ "POST", "/v1/reset?lg_sample=5", 403, "force=true" },
		{ "POST", "/v1/reset?force=maybe", 400, "force" },
		{ "GET", "/v1/mallctl/prof.active?type=int", 400, "int" },
		{ "GET", "/v1/mallctl/no.such.name?type=u64", 404, "not-found" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		if (ask(cases[i].method, cases[i].target) != cases[i].status)
			fail_msg("%s: %d %s", cases[i].target, f.status, f.body);
		assert_contains(f.body, cases[i].part);
		assert_contains(f.body, "{\"error\":{\"code\":\"");
		/* The message of a 400 says what is taken instead. */
		if (f.status != 400 && strstr(f.body, "\"hint\":\"\"") != NULL)
			fail_msg("%s: %s", cases[i].target, f.body);
	}
}

static void a_wrong_method_gets_the_allowed_ones(void **state)
{
	(void)state;
	static const struct {
		const char *method, *target, *allow;
	} cases[] = {
		{ "POST", "/v1/status", "\r\nAllow: GET, HEAD\r\n" },
		{ "GET", "/v1/activate", "\r\nAllow: POST\r\n" },
		{ "DELETE", "/v1/runs/stop", "\r\nAllow: POST\r\n" },
		{ "DELETE", "/v1/runs", "\r\nAllow: GET, HEAD, POST\r\n" },
		{ "PATCH", "/v1/mallctl/opt.prof", "\r\nAllow: GET, HEAD, POST\r\n" },
	};
	for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(ask(cases[i].method, cases[i].target), 405);
		assert_contains(f.head, cases[i].allow);
	}
	assert_int_equal(ask("GET", "/v1/status"), 200);
	assert_null(strstr(f.head, "Allow:"));
}

static void head_is_answered_like_get(void **state)
{
	(void)state;
	assert_int_equal(ask("HEAD", "/v1/status"), 200);
	assert_int_equal(ask("HEAD", "/v1/activate"), 405);
}

static void reads_and_writes_mallctls(void **state)
{
	(void)state;
	ask("GET", "/v1/mallctl/arenas.narenas");
	assert_string_equal(f.body, "{\"name\":\"arenas.narenas\",\"type\":\"u32\",\"value\":4}\n");
	ask("POST", "/v1/mallctl/prof.active?value=true");
	assert_string_equal(f.body,
		"{\"name\":\"prof.active\",\"type\":\"bool\",\"before\":false,\"value\":true}\n");
	ask("GET", "/v1/status");
	assert_contains(f.body, "\"activated_by\":\"heapctl\"");
	ask("POST", "/v1/mallctl/arena.0.purge");
	assert_contains(f.body, "\"type\":\"unit\",\"before\":null,\"value\":null");
	assert_int_equal(ask("POST", "/v1/mallctl/prof.active?value=perhaps"), 400);
	assert_int_equal(ask("POST", "/v1/mallctl/arena.0.destroy"), 403);
}

static void a_run_guards_its_sampling(void **state)
{
	(void)state;
	ask("POST", "/v1/runs");
	assert_int_equal(ask("POST", "/v1/mallctl/prof.active?value=false"), 409);
	assert_int_equal(ask("POST", "/v1/mallctl/prof.active?value=false&force=true"), 200);
	ask("POST", "/v1/runs/stop");
	assert_contains(f.body, "\"sampling_gaps\":1");
}

static void a_process_without_profiling_says_why(void **state)
{
	(void)state;
	error_set(&f.fake.allocator.unavailable, ERROR_UNSUPPORTED, "malloc is glibc's");
	error_hint(&f.fake.allocator.unavailable, "preload jemalloc");
	static const char *const requests[][2] = { { "POST", "/v1/activate" },
		{ "GET", "/v1/profile" }, { "POST", "/v1/runs" }, { "POST", "/v1/runs/stop" },
		{ "POST", "/v1/reset" } };
	for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
		assert_int_equal(ask(requests[i][0], requests[i][1]), 501);
		assert_contains(
			f.body, "\"code\":\"unsupported\",\"message\":\"malloc is glibc's\"");
	}
	assert_int_equal(ask("GET", "/v1/status"), 200);
	assert_contains(f.body, "\"available\":false,\"reason\":\"malloc is glibc's\","
				"\"hint\":\"preload jemalloc\"");
	assert_int_equal(ask("GET", "/v1/runs"), 200);
}

static void an_agent_of_use_is_not_replaced(void **state)
{
	(void)state;
	assert_int_equal(ask("POST", "/v1/detach"), 409);
	assert_contains(f.body, "the process was started with its agent, not attached");
	f.core.is_preloaded = true;
	assert_int_equal(ask("POST", "/v1/detach?replace=true"), 409);
	assert_contains(f.body, "the process was started with its agent, not attached");
	assert_false(f.core.is_detaching);
}

static void a_preloaded_agent_of_no_use_is_replaced(void **state)
{
	(void)state;
	error_set(&f.fake.allocator.unavailable, ERROR_UNSUPPORTED, "malloc is the program's");
	assert_int_equal(ask("POST", "/v1/detach?replace=true"), 409);
	assert_contains(f.body, "the program has started its agent itself");
	f.core.is_preloaded = true;
	assert_int_equal(ask("POST", "/v1/detach"), 409);
	assert_int_equal(ask("POST", "/v1/detach?replace=perhaps"), 400);
	assert_false(f.core.is_detaching);
	assert_int_equal(ask("POST", "/v1/detach?replace=true"), 200);
	assert_true(f.core.is_detaching);
}

static void ids_increase_over_the_clock(void **state)
{
	(void)state;
	ask("POST", "/v1/runs");
	const int64_t first = id_in_body();
	ask("POST", "/v1/runs/stop");
	ask("POST", "/v1/runs");
	assert_int_equal(id_in_body(), first + 1);
}

static void survives_missing_memory(void **state)
{
	(void)state;
	static const char *const requests[][2] = { { "GET", "/v1/status" }, { "POST", "/v1/runs" },
		{ "GET", "/v1/runs" }, { "GET", "/v1/profile" }, { "POST", "/v1/runs/stop" },
		{ "GET", "/v1/stats" }, { "GET", "/v1/runs/1/profile" }, { "GET", "/nowhere" } };
	for (unsigned nth = 1;; nth++) {
		struct failing_memory memory = failing_memory_at(nth);
		core_deinit(&f.core);
		init_with(&memory.memory);
		for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
			ask(requests[i][0], requests[i][1]);
			assert_true(f.status >= 200 && f.status < 600);
		}
		core_deinit(&f.core);
		init_with(&memory_heap);
		if (!memory.failed) {
			assert_true(nth > 5);
			return;
		}
	}
}

static void survives_missing_descriptors(void **state)
{
	(void)state;
	struct rlimit before;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	const struct rlimit none = { .rlim_cur = 3, .rlim_max = before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	const int profile = ask("GET", "/v1/profile");
	const int status = ask("GET", "/v1/status");
	setrlimit(RLIMIT_NOFILE, &before);
	assert_int_equal(profile, 500);
	assert_int_equal(status, 200);
	assert_int_equal(ask("GET", "/v1/profile"), 200);
}

#define with_core(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

static const struct CMUnitTest tests[] = {
	with_core(answers_status),
	with_core(activates_and_deactivates),
	with_core(a_pause_ends_by_itself),
	with_core(a_pause_of_nothing_switches_nothing_on),
	with_core(a_run_in_a_pause_leaves_sampling_on),
	with_core(reports_what_else_switched_sampling_on),
	with_core(gives_a_profile),
	with_core(says_why_a_profile_failed),
	with_core(gives_statistics),
	with_core(runs_end_at_their_deadline),
	with_core(stop_ends_a_run),
	with_core(a_run_leaves_sampling_on_where_it_was_kept),
	with_core(intervals_fit_a_signed_number),
	with_core(a_run_may_have_an_interval_of_its_own),
	with_core(a_run_is_refused_while_sampling_is_on),
	with_core(a_run_counts_gaps_and_resets),
	with_core(a_run_that_cannot_end_well_says_so_and_ends),
	with_core(a_run_that_cannot_begin_leaves_nothing),
	with_core(refuses_bad_requests),
	with_core(a_wrong_method_gets_the_allowed_ones),
	with_core(head_is_answered_like_get),
	with_core(reads_and_writes_mallctls),
	with_core(a_run_guards_its_sampling),
	with_core(a_process_without_profiling_says_why),
	with_core(an_agent_of_use_is_not_replaced),
	with_core(a_preloaded_agent_of_no_use_is_replaced),
	with_core(ids_increase_over_the_clock),
	with_core(survives_missing_memory),
	with_core(survives_missing_descriptors),
};
UNIT_MAIN(tests)
