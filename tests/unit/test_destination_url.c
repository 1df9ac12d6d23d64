/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/destination_url.h"

#include <string.h>

#include "unit.h"

static void takes_hosts_with_and_without_a_port(void **state)
{
	(void)state;
	static const char *const urls[] = { "clickhouse://u@h:8123/db", "clickhouse://h",
		"clickhouse://h/db:1", "clickhouses://u@[::1]:9440/db", "clickhouse://[::1]/db",
		"clickhouse://u@h:65535" };
	struct error err;

	for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
		assert_true(store_url_check(urls[i], &err));
		assert_true(destination_url_check(urls[i], &err));
	}
}

static void refuses_a_port_that_is_none(void **state)
{
	(void)state;
	static const char *const urls[] = { "clickhouse://u@h:99999/db", "clickhouse://h:0",
		"clickhouse://u@h:/db", "clickhouse://h:x/db", "clickhouse://h:-1/db",
		"clickhouse://[::1]:65536", "clickhouse://h:99999999999999999999/db" };
	struct error err;

	for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
		assert_false(store_url_check(urls[i], &err));
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_contains(err.message, "port");
		assert_false(destination_url_check(urls[i], &err));
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(takes_hosts_with_and_without_a_port),
	cmocka_unit_test(refuses_a_port_that_is_none),
};

UNIT_MAIN(tests)
