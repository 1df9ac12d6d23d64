/* SPDX-License-Identifier: Apache-2.0 */
/* The public interface where no jemalloc is: sizes, wrong arguments, what works without. */
#include "heapctl.h"

#include <stdlib.h>
#include <string.h>

#include "base/sanitizer.h"
#include "unit.h"

/* A sanitizer's allocator is left alone, and for other machines there is no sampler. */
#if IS_SANITIZED || !(defined(__x86_64__) || defined(__aarch64__))
enum { IS_SAMPLED = 0 };
#else
enum { IS_SAMPLED = 1 };
#endif

static int start(void **state)
{
	const struct heapctl_options options = { .size = sizeof options,
		.flags = HEAPCTL_NO_SOCKET | HEAPCTL_NO_THREAD | HEAPCTL_NO_ENVIRONMENT };

	(void)state;
	return heapctl_start(&options, NULL);
}

static int stop(void **state)
{
	(void)state;
	heapctl_stop();
	return 0;
}

static void the_library_is_what_the_header_says(void **state)
{
	(void)state;
	assert_int_equal(heapctl_abi(), HEAPCTL_ABI);
	assert_string_equal(heapctl_version(), HEAPCTL_VERSION);
}

static void everything_says_that_there_is_no_agent(void **state)
{
	struct heapctl_status status = { .size = sizeof status };
	struct heapctl_run run = { .size = sizeof run };
	struct heapctl_error err;

	(void)state;
	assert_int_equal(heapctl_is_started(), 0);
	assert_int_equal(heapctl_activate(&err), HEAPCTL_STATE);
	assert_contains(err.hint, "heapctl_start");
	assert_int_equal(heapctl_dump_fd(1, NULL), HEAPCTL_STATE);
	assert_int_equal(heapctl_get_status(&status, NULL), HEAPCTL_STATE);
	assert_int_equal(heapctl_run_start(0, &run, NULL), HEAPCTL_STATE);
	assert_int_equal(heapctl_run_get(0, &run, NULL), HEAPCTL_STATE);
	assert_int_equal(heapctl_process(NULL), HEAPCTL_STATE);
	struct heapctl_response response = { .size = sizeof response };
	const struct heapctl_request request = {
		.size = sizeof request, .method = "GET", .target = "/v1/status"
	};
	assert_int_equal(heapctl_handle(&request, &response, &err), HEAPCTL_STATE);
	assert_contains(err.hint, "heapctl_start");
	assert_int_equal(heapctl_get_fd(), -1);
	heapctl_stop();
}

static void it_starts_once_and_again_after_its_stop(void **state)
{
	struct heapctl_error err;

	assert_int_equal(heapctl_is_started(), 1);
	assert_int_equal(heapctl_start(NULL, &err), HEAPCTL_STATE);
	assert_contains(err.message, "started already");
	heapctl_stop();
	assert_int_equal(heapctl_is_started(), 0);
	assert_int_equal(start(state), 0);
}

static void a_program_of_an_older_header_gets_what_it_knows(void **state)
{
	enum { OLDER_BYTES = 40 };
	union {
		struct heapctl_status status;
		char bytes[sizeof(struct heapctl_status)];
	} given;

	(void)state;
	memset(&given, 0x5a, sizeof given);
	given.status.size = OLDER_BYTES;
	assert_int_equal(heapctl_get_status(&given.status, NULL), HEAPCTL_OK);
	assert_int_equal(given.status.size, OLDER_BYTES);
	assert_int_equal(given.status.running, 0);
	for (size_t i = OLDER_BYTES; i < sizeof given.bytes; i++)
		assert_int_equal(given.bytes[i], 0x5a);
}

static void a_program_of_a_newer_header_gets_zeros_for_what_is_new(void **state)
{
	struct {
		struct heapctl_status status;
		char newer[64];
	} given;

	(void)state;
	memset(&given, 0x5a, sizeof given);
	given.status.size = sizeof given;
	assert_int_equal(heapctl_get_status(&given.status, NULL), HEAPCTL_OK);
	for (size_t i = 0; i < sizeof given.newer; i++)
		assert_int_equal(given.newer[i], 0);
	assert_int_equal(given.status.available, IS_SAMPLED);
	assert_string_equal(given.status.socket, "");
}

static void wrong_arguments_are_distinguished_from_wrong_moments(void **state)
{
	struct heapctl_status status = { .size = 0 };
	struct heapctl_run run = { .size = 0 };
	struct heapctl_response response = { .size = sizeof response };
	struct heapctl_error err;

	(void)state;
	assert_int_equal(heapctl_get_status(&status, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "status.size is not set");
	status.size = 70000;
	assert_int_equal(heapctl_get_status(&status, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "status.size is 70000, which");
	status.size = SIZE_MAX;
	assert_int_equal(heapctl_get_status(&status, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_get_status(NULL, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "status is NULL");
	assert_int_equal(heapctl_run_start(0, &run, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_run_get(0, NULL, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_dump_path(NULL, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_dump_path("", NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_stats(NULL, NULL, NULL, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_warnings(NULL, NULL, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_handle(NULL, &response, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_reset(41, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "lg_sample is 41, not from 12 to 40");
	assert_int_equal(heapctl_reset(11, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_reset(-2, NULL), HEAPCTL_USAGE);
	assert_int_equal(
		heapctl_run_stop(NULL, NULL), IS_SAMPLED ? HEAPCTL_STATE : HEAPCTL_UNSUPPORTED);
	heapctl_response_release(NULL);
}

static int start_with(unsigned flags, const char *folder, const char *name, unsigned keep,
	struct heapctl_error *err)
{
	const struct heapctl_options options = { .size = sizeof options,
		.flags = flags | HEAPCTL_NO_SOCKET | HEAPCTL_NO_THREAD | HEAPCTL_NO_ENVIRONMENT,
		.folder = folder,
		.name = name,
		.keep = keep };
	const int code = heapctl_start(&options, err);

	assert_int_equal(heapctl_is_started(), code == HEAPCTL_OK);
	return code;
}

static void a_start_with_wrong_options_says_which(void **state)
{
	char long_path[5000] = "/";
	struct heapctl_error err;

	(void)state;
	memset(long_path + 1, 'x', sizeof long_path - 2);
	assert_int_equal(start_with(0x10, NULL, NULL, 0, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "0x10");
	assert_int_equal(start_with(1U << 31, NULL, NULL, 0, NULL), HEAPCTL_USAGE);
	assert_int_equal(start_with(0, "", NULL, 0, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "folder");
	assert_int_equal(start_with(0, "runs", NULL, 0, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "'runs'");
	assert_contains(err.message, "absolute");
	assert_int_equal(start_with(0, long_path, NULL, 0, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "long");
	assert_int_equal(start_with(0, NULL, "", 0, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "name");
	assert_int_equal(start_with(0, NULL, "/usr/bin/", 0, NULL), HEAPCTL_USAGE);
	assert_int_equal(start_with(0, NULL, NULL, 33, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "32");
	assert_int_equal(
		heapctl_start(&(struct heapctl_options){ .size = 1 }, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "options.size is 1, which");
}

static void a_name_is_what_follows_its_last_slash(void **state)
{
	const struct heapctl_request request = {
		.size = sizeof request, .method = "GET", .target = "/v1/status"
	};
	struct heapctl_response response = { .size = sizeof response };

	(void)state;
	assert_int_equal(start_with(0, NULL, "/opt/x/bin/server", 0, NULL), HEAPCTL_OK);
	assert_int_equal(heapctl_handle(&request, &response, NULL), HEAPCTL_OK);
	assert_contains(response.body, "\"server\"");
	assert_null(strstr(response.body, "bin/server"));
	heapctl_response_release(&response);
	heapctl_stop();
}

static void a_missing_argument_is_an_error_of_use(void **state)
{
	struct heapctl_request request = {
		.size = sizeof request, .method = "GET", .target = "/v1/status"
	};
	struct heapctl_response response = { .size = sizeof response };
	struct heapctl_error err;

	(void)state;
	assert_int_equal(heapctl_get_status(NULL, &err), HEAPCTL_USAGE);
	assert_int_equal(heapctl_dump_fd(-1, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "negative");
	assert_int_equal(heapctl_run_dump_fd(0, 0, -1, &err), HEAPCTL_USAGE);
	assert_int_equal(heapctl_parse_duration("1s", NULL, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_handle(&request, NULL, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "response");
	request.method = NULL;
	assert_int_equal(heapctl_handle(&request, &response, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "method or target is not set");
	request = (struct heapctl_request){ .size = sizeof request, .method = "GET" };
	assert_int_equal(heapctl_handle(&request, &response, NULL), HEAPCTL_USAGE);
	request = (struct heapctl_request){ .size = 8, .method = "GET", .target = "/" };
	assert_int_equal(heapctl_handle(&request, &response, NULL), HEAPCTL_USAGE);
	request.size = sizeof request;
	response.size = 8;
	assert_int_equal(heapctl_handle(&request, &response, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "response.size is 8, which");
	/* It was never filled. */
	heapctl_response_release(&response);
	/* Both are allowed: no error structure, and no run. */
	assert_int_equal(
		heapctl_run_start(1000, NULL, NULL), IS_SAMPLED ? HEAPCTL_OK : HEAPCTL_UNSUPPORTED);
	assert_int_equal(
		heapctl_run_stop(NULL, NULL), IS_SAMPLED ? HEAPCTL_OK : HEAPCTL_UNSUPPORTED);
}

static void an_error_has_the_layout_of_the_first_release(void **state)
{
	(void)state;
	assert_int_equal(offsetof(struct heapctl_error, code), 0);
	assert_int_equal(offsetof(struct heapctl_error, errnum), 4);
	assert_int_equal(offsetof(struct heapctl_error, message), 8);
	assert_int_equal(offsetof(struct heapctl_error, hint), 408);
	assert_int_equal(sizeof(struct heapctl_error), 728);
}

static void durations_need_no_agent(void **state)
{
	int64_t duration_ms = 7;
	struct heapctl_error err;

	(void)state;
	assert_int_equal(heapctl_parse_duration("1.5hrs", &duration_ms, &err), HEAPCTL_OK);
	assert_int_equal(duration_ms, 5400000);
	assert_int_equal(heapctl_parse_duration("soon", &duration_ms, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "soon");
	assert_int_equal(heapctl_parse_duration("2days", &duration_ms, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_parse_duration(NULL, &duration_ms, NULL), HEAPCTL_USAGE);
	assert_int_equal(duration_ms, 5400000);
}

static void a_request_is_answered_without_a_socket(void **state)
{
	const struct heapctl_request request = {
		.size = sizeof request, .method = "GET", .target = "/v1/status"
	};
	struct heapctl_response response = { .size = sizeof response };

	(void)state;
	assert_int_equal(heapctl_handle(&request, &response, NULL), HEAPCTL_OK);
	assert_int_equal(response.status, 200);
	assert_int_equal(response.fd, -1);
	assert_int_equal(response.dump_ms, -1);
	assert_contains(response.content_type, "json");
	assert_true(response.body_size > 100);
	assert_int_equal(response.body[0], '{');
	heapctl_response_release(&response);
	heapctl_response_release(&response);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(the_library_is_what_the_header_says),
	cmocka_unit_test(everything_says_that_there_is_no_agent),
	cmocka_unit_test(durations_need_no_agent),
	cmocka_unit_test(a_start_with_wrong_options_says_which),
	cmocka_unit_test(a_name_is_what_follows_its_last_slash),
	cmocka_unit_test(an_error_has_the_layout_of_the_first_release),
	cmocka_unit_test_setup_teardown(a_missing_argument_is_an_error_of_use, start, stop),
	cmocka_unit_test_setup_teardown(it_starts_once_and_again_after_its_stop, start, stop),
	cmocka_unit_test_setup_teardown(
		a_program_of_an_older_header_gets_what_it_knows, start, stop),
	cmocka_unit_test_setup_teardown(
		a_program_of_a_newer_header_gets_zeros_for_what_is_new, start, stop),
	cmocka_unit_test_setup_teardown(
		wrong_arguments_are_distinguished_from_wrong_moments, start, stop),
	cmocka_unit_test_setup_teardown(a_request_is_answered_without_a_socket, start, stop),
};

UNIT_MAIN(tests)
