/* SPDX-License-Identifier: Apache-2.0 */
/* The public interface where no jemalloc is: sizes, wrong arguments, what works without. */
#include "heapctl.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

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
	assert_int_equal(given.status.available, 0);
	assert_string_equal(given.status.socket, "");
}

static void wrong_arguments_are_told_apart_from_wrong_moments(void **state)
{
	struct heapctl_status status = { .size = 0 };
	struct heapctl_run run = { .size = 0 };
	struct heapctl_response response = { .size = sizeof response };
	struct heapctl_error err;

	(void)state;
	assert_int_equal(heapctl_get_status(&status, &err), HEAPCTL_USAGE);
	assert_contains(err.message, "size");
	status.size = SIZE_MAX;
	assert_int_equal(heapctl_get_status(&status, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_get_status(NULL, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_run_start(0, &run, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_run_get(0, NULL, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_dump_path(NULL, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_dump_path("", NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_stats(NULL, NULL, NULL, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_warnings(NULL, NULL, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_handle(NULL, &response, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_reset(41, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_reset(11, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_reset(-2, NULL), HEAPCTL_USAGE);
	assert_int_equal(heapctl_run_stop(NULL, NULL), HEAPCTL_UNSUPPORTED);
	heapctl_response_release(NULL);
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
	cmocka_unit_test_setup_teardown(it_starts_once_and_again_after_its_stop, start, stop),
	cmocka_unit_test_setup_teardown(
		a_program_of_an_older_header_gets_what_it_knows, start, stop),
	cmocka_unit_test_setup_teardown(
		a_program_of_a_newer_header_gets_zeros_for_what_is_new, start, stop),
	cmocka_unit_test_setup_teardown(
		wrong_arguments_are_told_apart_from_wrong_moments, start, stop),
	cmocka_unit_test_setup_teardown(a_request_is_answered_without_a_socket, start, stop),
};

UNIT_MAIN(tests)
