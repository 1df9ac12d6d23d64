/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_writer.h"

#include <math.h>
#include <string.h>

#include "unit.h"

static void places_commas_and_escapes(void **state)
{
	(void)state;
	struct buffer out;
	struct json_writer json;
	buffer_init(&out, &memory_heap);
	json_init(&json, &out);
	json_object_begin(&json);
	json_member_string(&json, "a\"b", "x\ny\\\x01</script>");
	json_member_array(&json, "list");
	json_put_integer(&json, -3);
	json_put_real(&json, 0.1);
	json_put_real(&json, NAN);
	json_put_bool(&json, true);
	json_put_string(&json, NULL);
	json_array_end(&json);
	json_member_unsigned(&json, "n", UINT64_MAX);
	json_object_end(&json);
	assert_string_equal(buffer_string(&out),
		"{\"a\\\"b\":\"x\\ny\\\\\\u0001\\u003c/script>\",\"list\":[-3,0.1,null,true,null],"
		"\"n\":18446744073709551615}");
	buffer_deinit(&out);
}

static void replaces_what_is_not_utf8(void **state)
{
	(void)state;
	struct buffer out;
	struct json_writer json;
	buffer_init(&out, &memory_heap);
	json_init(&json, &out);
	json_put_string(&json, "\xc3\xa9\xff\xc0\xaf\xed\xa0\x80\xe2\x82");
	assert_string_equal(buffer_string(&out),
		"\"\xc3\xa9\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\\ufffd\"");
	buffer_deinit(&out);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(places_commas_and_escapes),
	cmocka_unit_test(replaces_what_is_not_utf8),
};
UNIT_MAIN(tests)
