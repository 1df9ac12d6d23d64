/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/trigger.h"

#include <string.h>

#include "unit.h"

static struct condition parse_one(const char *text)
{
	struct condition_rule rule;
	struct error err = { 0 };

	if (!condition_parse(text, &rule, &err))
		fail_msg("%s: %s", text, err.message);
	assert_int_equal(rule.term_count, 1);
	assert_string_equal(rule.text, text);
	return rule.terms[0];
}

static void reads_every_word(void **state)
{
	(void)state;
	assert_true(parse_one("rss>2GiB").threshold == 2147483648.0);
	assert_false(parse_one("rss>2GiB").is_share);
	assert_true(parse_one("rss>40%").threshold == 0.4);
	assert_int_equal(parse_one("cgroup>85%").kind, CONDITION_CGROUP);
	assert_true(parse_one("psi>2.5%").threshold == 0.025);
	assert_int_equal(parse_one("growth>10%/h").period_ms, 3600000);
	assert_int_equal(parse_one("growth>64MiB/10mins").period_ms, 600000);
	assert_int_equal(parse_one("growth>50%").period_ms, 0);
	assert_true(parse_one("peak").threshold == 0.05);
	assert_true(parse_one("peak>20%").threshold == 0.2);
	assert_int_equal(parse_one("every=15mins").period_ms, 900000);
	assert_int_equal(parse_one("signal").kind, CONDITION_SIGNAL);
}

static void joins_terms_with_and(void **state)
{
	(void)state;
	struct condition_rule rule;
	struct error err;

	assert_true(condition_parse("rss>1GiB and psi>10%", &rule, &err));
	assert_int_equal(rule.term_count, 2);
	assert_true(condition_has(&rule, CONDITION_PRESSURE));
	assert_false(condition_has(&rule, CONDITION_CGROUP));
	assert_false(condition_parse("peak and peak and peak and peak and peak", &rule, &err));
}

static void refuses_what_makes_no_sense(void **state)
{
	(void)state;
	static const char *const cases[] = { "", "rss", "rss>", "rss<2GiB", "rss>0", "cgroup>2GiB",
		"rss>100%", "cgroup>120%", "psi>100%", "psi>x%", "psi>0%", "psi>nan%", "growth",
		"growth>10%/", "growth>10%/parsec", "every>15mins", "every=0s", "signal=9", "peaks",
		"rss>1GiB and", "rss>1GiBand peak" };
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct condition_rule rule = { .term_count = 9 };
		struct error err = { 0 };
		if (condition_parse(cases[i], &rule, &err))
			fail_msg("'%s' was taken", cases[i]);
		assert_int_equal(err.kind, ERROR_USAGE);
		assert_int_equal(rule.term_count, 9);
	}
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(reads_every_word),
	cmocka_unit_test(joins_terms_with_and),
	cmocka_unit_test(refuses_what_makes_no_sense),
};

UNIT_MAIN(tests)
