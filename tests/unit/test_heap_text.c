/* SPDX-License-Identifier: Apache-2.0 */
#include "client/agent_client.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

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
	cmocka_unit_test(a_profile_of_jemalloc_is_one),
	cmocka_unit_test(anything_else_is_none),
	cmocka_unit_test(bytes_of_no_meaning_are_bounded),
};

int main(void)
{
	return cmocka_run_group_tests(tests, NULL, NULL);
}
