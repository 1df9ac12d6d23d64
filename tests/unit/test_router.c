/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/router.h"

#include <string.h>

#include <jansson.h>

#include "base/xalloc.h"
#include "gateway/handlers.h"
#include "unit.h"
#include "wire/http_target.h"

/* A request taken apart; the texts live in `path` and `query`. */
struct probe {
	char text[512];
	struct request request;
	struct error err;
	unsigned allowed;
};

static bool probe(struct probe *probe, unsigned method, const char *target)
{
	struct http_target parsed;

	*probe = (struct probe){ .request = { .method = method } };
	snprintf(probe->text, sizeof probe->text, "%s", target);
	if (!http_target_parse(probe->text, &parsed, &probe->err))
		return false;
	char *const path = probe->text + (parsed.path - probe->text);
	return router_match(routes, path, &probe->request, &probe->allowed, &probe->err) &&
	       router_check(&parsed, &probe->request, &probe->err);
}

static void finds_routes_at_the_root_and_below_a_target(void **state)
{
	struct probe p;

	(void)state;
	assert_true(probe(&p, METHOD_GET, "/mtev/heap_profile?active=true"));
	assert_null(p.request.target_name);
	assert_string_equal(request_text(&p.request, "active"), "true");
	assert_true(probe(&p, METHOD_GET, "/targets/redis-server/mtev/heap_profile"));
	assert_string_equal(p.request.target_name, "redis-server");
	assert_null(request_text(&p.request, "active"));
	assert_true(probe(&p, METHOD_GET, "/targets/4711/"));
	assert_string_equal(p.request.target_name, "4711");
	assert_true(probe(&p, METHOD_GET, "/targets/my%20server/v1/status"));
	assert_string_equal(p.request.target_name, "my server");
	assert_true(probe(&p, METHOD_GET, "/targets"));
	assert_null(p.request.target_name);
}

static void binds_the_parts_of_the_path(void **state)
{
	struct probe p;

	(void)state;
	assert_true(probe(&p, METHOD_GET, "/targets/x/v1/runs/1763716881123/profile"));
	assert_int_equal(request_number(&p.request, "id", 0), 1763716881123);
	assert_true(probe(&p, METHOD_GET, "/v1/mallctl/opt.prof?type=bool"));
	assert_string_equal(request_text(&p.request, "name"), "opt.prof");
	assert_string_equal(request_text(&p.request, "type"), "bool");
}

static void tells_a_wrong_path_from_a_wrong_method(void **state)
{
	struct probe p;

	(void)state;
	assert_false(probe(&p, METHOD_GET, "/nowhere"));
	assert_int_equal(p.err.kind, ERROR_NOT_FOUND);
	assert_int_equal(p.allowed, 0);
	assert_false(probe(&p, METHOD_GET, "/v1/activate"));
	assert_int_equal(p.allowed, METHOD_POST);
	assert_false(probe(&p, METHOD_POST, "/v1/status"));
	assert_int_equal(p.allowed, METHOD_GET);
	assert_false(probe(&p, METHOD_GET, "/targets/x/openapi.json"));
	assert_false(probe(&p, METHOD_GET, "/targets//v1/status"));
	assert_false(probe(&p, METHOD_GET, "/targets/x/targets/y/v1/status"));
	assert_false(probe(&p, METHOD_GET, "/v1/runs//profile"));
	assert_false(probe(&p, METHOD_GET, "/v1/mallctl/a/b"));
	assert_false(probe(&p, METHOD_GET, "/assets/../serve.c"));
}

static void refuses_values_that_make_no_sense(void **state)
{
	static const char *const wrong[] = {
		"/memory-profiler/start?duration=",
		"/memory-profiler/start?duration=0.5",
		"/memory-profiler/start?duration=25hrs",
		"/memory-profiler/start?duration=-5mins",
		"/memory-profiler/start?duration=5mins%3Bls",
		"/memory-profiler/start?duration=nan",
		"/memory-profiler/start?duration=1e99days",
		"/memory-profiler/download/raw?id=",
		"/memory-profiler/download/raw?id=abc",
		"/memory-profiler/download/raw?id=-1",
		"/memory-profiler/download/raw?id=+5",
		"/memory-profiler/download/raw?id=5%20",
		"/memory-profiler/download/raw?id=99999999999999999999",
		"/memory-profiler/diff?id=5",
		"/debug/pprof/heap?seconds=601",
		"/debug/pprof/heap?seconds=1.5",
		"/api/v1/profile?format=exe",
		"/api/v1/profile?formt=json",
		"/mtev/heap_profile?active=",
		"/mtev/heap_profile?active=yes",
		"/mtev/heap_profile?active=-1",
		"/mtev/heap_profile?active=NaN",
		"/mtev/heap_profile?trigger_dump=1",
		"/v1/runs/5/../../status",
	};
	struct probe p;

	(void)state;
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		if (probe(&p, METHOD_GET, wrong[i]))
			fail_msg("accepted %s", wrong[i]);
	}
}

static void refuses_unknown_parameters_everywhere(void **state)
{
	struct probe p;
	char target[512];

	(void)state;
	for (const struct route *route = routes; route->pattern != NULL; route++) {
		snprintf(target, sizeof target, "%s?no_such_parameter=1", route->pattern);
		if (probe(&p, route->methods & METHOD_GET ? METHOD_GET : METHOD_POST, target))
			fail_msg("accepted %s", target);
		assert_int_equal(p.err.kind, ERROR_USAGE);
		assert_string_equal(p.err.message, "there is no parameter 'no_such_parameter'");
	}
}

static void takes_durations_as_the_scripts_write_them(void **state)
{
	struct probe p;

	(void)state;
	assert_true(probe(&p, METHOD_GET, "/memory-profiler/start"));
	assert_int_equal(request_number(&p.request, "duration", -1), -1);
	assert_true(probe(&p, METHOD_GET, "/memory-profiler/start?duration=600"));
	assert_int_equal(request_number(&p.request, "duration", -1), 600000);
	assert_true(probe(&p, METHOD_GET, "/memory-profiler/start?duration=1.5hrs"));
	assert_int_equal(request_number(&p.request, "duration", -1), 5400000);
}

static void knows_what_changes_something(void **state)
{
	struct probe p;

	(void)state;
	assert_true(probe(&p, METHOD_GET, "/memory-profiler/start"));
	assert_true(router_is_change(&p.request));
	assert_true(probe(&p, METHOD_GET, "/mtev/heap_profile?active=false"));
	assert_true(router_is_change(&p.request));
	assert_true(probe(&p, METHOD_GET, "/mtev/heap_profile?trigger_dump=true"));
	assert_false(router_is_change(&p.request));
	assert_true(probe(&p, METHOD_POST, "/v1/mallctl/prof.active?value=true"));
	assert_true(router_is_change(&p.request));
	assert_true(probe(&p, METHOD_GET, "/metrics"));
	assert_false(router_is_change(&p.request));
}

static void every_way_to_change_something_by_post_is_marked(void **state)
{
	(void)state;
	for (const struct route *route = routes; route->pattern != NULL; route++) {
		const bool is_only_post = route->methods == METHOD_POST;
		/* A request for symbols may have a long body. */
		if (is_only_post && !route->changes &&
			strstr(route->pattern, "pprof/symbol") == NULL)
			fail_msg("POST %s is not marked as a change", route->pattern);
	}
}

static void every_pattern_fits_its_parameters(void **state)
{
	(void)state;
	for (const struct route *route = routes; route->pattern != NULL; route++) {
		size_t in_path = 0, braces = 0, count = 0;
		for (const char *c = route->pattern; *c != '\0'; c++)
			braces += *c == '{';
		for (; route->parameters != NULL && route->parameters[count].name != NULL; count++)
			in_path += route->parameters[count].is_in_path;
		assert_int_equal(in_path, braces);
		assert_true(count <= REQUEST_PARAMETERS_MAX);
		assert_non_null(route->handle);
		assert_non_null(route->summary);
		assert_non_null(route->media_type);
	}
}

static void the_document_has_every_route(void **state)
{
	struct buffer text;
	json_error_t problem;

	(void)state;
	buffer_init(&text, &memory_or_exit);
	openapi_write(routes, &text);
	json_t *const document = json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES, &problem);
	if (document == NULL)
		fail_msg("line %d: %s", problem.line, problem.text);
	const json_t *const paths = json_object_get(document, "paths");
	for (const struct route *route = routes; route->pattern != NULL; route++) {
		const json_t *const path = json_object_get(paths, route->pattern);
		assert_non_null(path);
		if ((route->methods & METHOD_GET) != 0)
			assert_non_null(json_object_get(path, "get"));
		if ((route->methods & METHOD_POST) != 0)
			assert_non_null(json_object_get(path, "post"));
	}
	json_decref(document);
	buffer_deinit(&text);
}

static int status_at(const char *target, enum error_kind kind)
{
	struct reply reply = { 0 };
	struct probe p;

	assert_true(probe(&p, METHOD_GET, target));
	error_set(&p.err, kind, "it failed");
	reply_failure(&p.request, &p.err, &reply);
	const int status = reply.status;
	reply_deinit(&reply);
	return status;
}

static void tells_no_client_that_its_request_is_wrong_when_the_gateway_is_busy(void **state)
{
	(void)state;
	assert_int_equal(status_at("/memory-profiler/download/raw?id=1", ERROR_STATE), 400);
	assert_int_equal(status_at("/memory-profiler/download/raw?id=1", ERROR_TIMEOUT), 503);
	assert_int_equal(status_at("/mtev/heap_profile", ERROR_TIMEOUT), 500);
	assert_int_equal(status_at("/v1/status", ERROR_TIMEOUT), 503);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(finds_routes_at_the_root_and_below_a_target),
	cmocka_unit_test(binds_the_parts_of_the_path),
	cmocka_unit_test(tells_a_wrong_path_from_a_wrong_method),
	cmocka_unit_test(refuses_values_that_make_no_sense),
	cmocka_unit_test(refuses_unknown_parameters_everywhere),
	cmocka_unit_test(takes_durations_as_the_scripts_write_them),
	cmocka_unit_test(knows_what_changes_something),
	cmocka_unit_test(every_way_to_change_something_by_post_is_marked),
	cmocka_unit_test(every_pattern_fits_its_parameters),
	cmocka_unit_test(the_document_has_every_route),
	cmocka_unit_test(tells_no_client_that_its_request_is_wrong_when_the_gateway_is_busy),
};

UNIT_MAIN(tests)
