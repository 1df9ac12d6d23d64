/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/request_policy.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static bool allows_host(const char *host)
{
	struct error err = { 0 };

	return request_policy_check_host(host, &err);
}

static void knows_itself_by_address_and_as_localhost(void **state)
{
	(void)state;
	assert_true(allows_host("127.0.0.1"));
	assert_true(allows_host("127.0.0.1:7070"));
	assert_true(allows_host("[::1]:7070"));
	assert_true(allows_host("[::1]"));
	assert_true(allows_host("192.168.1.5:80"));
	assert_true(allows_host("localhost:7070"));
	assert_true(allows_host("LOCALHOST"));
	assert_true(allows_host("heap.localhost:7070"));
	assert_true(allows_host(NULL));
}

static void refuses_names_that_an_attacker_can_resolve_to_here(void **state)
{
	struct error err = { 0 };

	(void)state;
	assert_false(allows_host("rebind.example"));
	assert_false(allows_host("rebind.example:7070"));
	assert_false(allows_host("127.0.0.1.rebind.example"));
	assert_false(allows_host("localhost.rebind.example"));
	assert_false(allows_host("notlocalhost"));
	assert_false(allows_host("127.0.0.1:7070:7070"));
	assert_false(allows_host("127.0.0.1:port"));
	assert_false(allows_host("[::1"));
	assert_false(allows_host(""));
	assert_false(request_policy_check_host("rebind.example", &err));
	assert_int_equal(err.kind, ERROR_DENIED);
	assert_contains(err.message, "rebind.example");
}

static bool allows_site(const struct request_policy_headers *headers, bool is_change)
{
	struct error err = { 0 };

	return request_policy_check_site(headers, is_change, &err);
}

static void an_origin_is_of_the_web(void **state)
{
	(void)state;
	assert_true(allows_site(&(struct request_policy_headers){ .host = "127.0.0.1:7070",
					.origin = "http://127.0.0.1:7070" },
		true));
	assert_true(allows_site(&(struct request_policy_headers){ .host = "127.0.0.1:7070",
					.origin = "HTTPS://127.0.0.1:7070" },
		true));
	static const char *const origins[] = { "evil://127.0.0.1:7070", "://127.0.0.1:7070",
		"chrome-extension://127.0.0.1:7070", "httpx://127.0.0.1:7070", "null" };
	for (size_t i = 0; i < sizeof origins / sizeof origins[0]; i++)
		assert_false(allows_site(&(struct request_policy_headers){ .host = "127.0.0.1:7070",
						 .origin = origins[i] },
			false));
}

static void lets_programs_do_everything(void **state)
{
	const struct request_policy_headers program = { .host = "127.0.0.1:7070" };

	(void)state;
	assert_true(allows_site(&program, true));
	assert_true(allows_site(&program, false));
}

static void lets_the_own_page_do_everything(void **state)
{
	const struct request_policy_headers page = { .host = "127.0.0.1:7070",
		.origin = "http://127.0.0.1:7070",
		.referer = "http://127.0.0.1:7070/",
		.fetch_site = "same-origin",
		.fetch_mode = "cors" };
	const struct request_policy_headers old_browser = { .host = "127.0.0.1:7070",
		.referer = "http://127.0.0.1:7070/#/redis" };
	const struct request_policy_headers typed = {
		.host = "127.0.0.1:7070", .fetch_site = "none", .fetch_mode = "navigate"
	};

	(void)state;
	assert_true(allows_site(&page, true));
	assert_true(allows_site(&old_browser, true));
	assert_true(allows_site(&typed, true));
}

static void refuses_other_sites(void **state)
{
	const struct request_policy_headers image = {
		.host = "127.0.0.1:7070", .fetch_site = "cross-site", .fetch_mode = "no-cors"
	};
	const struct request_policy_headers form = { .host = "127.0.0.1:7070",
		.origin = "http://evil.example",
		.fetch_site = "cross-site",
		.fetch_mode = "navigate" };
	const struct request_policy_headers other_port = { .host = "127.0.0.1:7070",
		.origin = "http://127.0.0.1:8000",
		.fetch_site = "same-site",
		.fetch_mode = "cors" };
	const struct request_policy_headers hidden = { .host = "127.0.0.1:7070", .origin = "null" };
	const struct request_policy_headers old_browser = { .host = "127.0.0.1:7070",
		.referer = "http://evil.example/127.0.0.1:7070" };
	const struct request_policy_headers longer = { .host = "127.0.0.1:7070",
		.origin = "http://127.0.0.1:70700" };

	(void)state;
	assert_false(allows_site(&image, false));
	assert_false(allows_site(&form, true));
	assert_false(allows_site(&other_port, false));
	assert_false(allows_site(&hidden, true));
	assert_false(allows_site(&old_browser, true));
	assert_false(allows_site(&longer, true));
}

static void lets_a_link_from_elsewhere_show_something(void **state)
{
	const struct request_policy_headers link = { .host = "127.0.0.1:7070",
		.referer = "http://wiki.example/",
		.fetch_site = "cross-site",
		.fetch_mode = "navigate" };

	(void)state;
	assert_true(allows_site(&link, false));
	assert_false(allows_site(&link, true));
}

static void takes_the_token_as_bearer_or_as_password(void **state)
{
	static const char token[] = "correct-horse-battery";

	(void)state;
	assert_true(request_policy_has_token("Bearer correct-horse-battery", token));
	assert_true(request_policy_has_token("bearer  correct-horse-battery", token));
	/* base64 of "me:correct-horse-battery" */
	assert_true(request_policy_has_token("Basic bWU6Y29ycmVjdC1ob3JzZS1iYXR0ZXJ5", token));
	assert_false(request_policy_has_token(NULL, token));
	assert_false(request_policy_has_token("", token));
	assert_false(request_policy_has_token("Bearer ", token));
	assert_false(request_policy_has_token("Bearer correct-horse-batterx", token));
	assert_false(request_policy_has_token("Bearer correct-horse", token));
	assert_false(request_policy_has_token("Bearer correct-horse-battery-correct", token));
	assert_false(request_policy_has_token("Basic bWU6Y29ycmVjdC1ob3JzZQ==", token));
	assert_false(request_policy_has_token("Basic !!!!", token));
	assert_false(request_policy_has_token("Basic ", token));
	assert_false(request_policy_has_token("Basic Og==", token));
	assert_false(request_policy_has_token("Basic bWU6", token));
	assert_false(request_policy_has_token("correct-horse-battery", token));
}

static void write_token(const char *path, const char *text, mode_t mode)
{
	FILE *const file = fopen(path, "w");

	assert_non_null(file);
	fputs(text, file);
	fclose(file);
	assert_int_equal(chmod(path, mode), 0);
}

static void reads_a_token_that_only_its_owner_can_read(void **state)
{
	char path[] = "/tmp/test_gateway_guard.XXXXXX";
	struct error err = { 0 };
	char *token = NULL;
	const int fd = mkstemp(path);

	(void)state;
	assert_true(fd >= 0);
	close(fd);
	write_token(path, "0123456789abcdef\nsecond line\n", 0600);
	assert_true(request_policy_read_token(path, &token, &err));
	assert_string_equal(token, "0123456789abcdef");
	free(token);
	token = NULL;

	write_token(path, "0123456789abcdef\n", 0644);
	assert_false(request_policy_read_token(path, &token, &err));
	assert_int_equal(err.kind, ERROR_DENIED);
	write_token(path, "short\n", 0600);
	assert_false(request_policy_read_token(path, &token, &err));
	assert_contains(err.message, "5 characters");
	unlink(path);
	assert_false(request_policy_read_token(path, &token, &err));
	assert_null(token);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(knows_itself_by_address_and_as_localhost),
	cmocka_unit_test(refuses_names_that_an_attacker_can_resolve_to_here),
	cmocka_unit_test(an_origin_is_of_the_web),
	cmocka_unit_test(lets_programs_do_everything),
	cmocka_unit_test(lets_the_own_page_do_everything),
	cmocka_unit_test(refuses_other_sites),
	cmocka_unit_test(lets_a_link_from_elsewhere_show_something),
	cmocka_unit_test(takes_the_token_as_bearer_or_as_password),
	cmocka_unit_test(reads_a_token_that_only_its_owner_can_read),
};

UNIT_MAIN(tests)
