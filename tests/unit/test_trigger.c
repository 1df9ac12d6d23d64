/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/trigger.h"

#include <math.h>
#include <string.h>

#include "unit.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, MIB = 1048576 };

/* A target whose memory and time a test sets; captures succeed unless it says otherwise. */
struct scene {
	struct trigger *trigger;
	struct trigger_observation now;
	bool captures_fail;
	int captures;
	const char *reason;
};

static struct scene watch(const char *const *conditions, int64_t cool_down_ms)
{
	struct condition_rule rules[TRIGGER_RULES_MAX];
	size_t count = 0;
	struct error err;

	for (; conditions[count] != NULL; count++)
		assert_true(condition_parse(conditions[count], &rules[count], &err));
	return (struct scene){
		.trigger = trigger_new(
			&(struct trigger_settings){ cool_down_ms, 10 * SECOND }, rules, count),
		.now = { .now_ms = 5 * HOUR,
			.generation = 1,
			.resident_bytes = 100.0 * MIB,
			.machine_bytes = 1000.0 * MIB,
			.cgroup_share = NAN,
			.pressure_share = NAN },
	};
}

static struct scene watch_one(const char *condition, int64_t cool_down_ms)
{
	return watch((const char *const[]){ condition, NULL }, cool_down_ms);
}

/* One look after that time. */
static bool look(struct scene *scene, int64_t later_ms, double resident_mib)
{
	scene->now.now_ms += later_ms;
	scene->now.resident_bytes = resident_mib * MIB;
	const struct condition_rule *const rule = trigger_step(scene->trigger, &scene->now);
	scene->now.signalled = false;
	if (rule == NULL)
		return false;
	scene->reason = rule->text;
	scene->captures += !scene->captures_fail;
	trigger_captured(scene->trigger, !scene->captures_fail, scene->now.now_ms);
	return true;
}

static void a_level_fires_once_until_it_has_clearly_fallen(void **state)
{
	(void)state;
	struct scene scene = watch_one("rss>200MiB", 0);

	assert_false(look(&scene, 0, 199));
	assert_true(look(&scene, SECOND, 201));
	for (int i = 0; i < 100; i++)
		assert_false(look(&scene, MINUTE, i % 2 == 0 ? 195 : 220));
	assert_false(look(&scene, MINUTE, 189));
	assert_true(look(&scene, MINUTE, 201));
	trigger_free(scene.trigger);
}

static void what_is_above_from_the_start_is_captured(void **state)
{
	(void)state;
	struct scene scene = watch_one("rss>50%", 0);

	assert_true(look(&scene, 0, 501));
	trigger_free(scene.trigger);
}

static void captures_are_apart_by_the_cool_down(void **state)
{
	(void)state;
	struct scene scene =
		watch((const char *const[]){ "rss>200MiB", "rss>300MiB", NULL }, 5 * MINUTE);

	assert_true(look(&scene, 0, 210));
	assert_false(look(&scene, MINUTE, 310));
	assert_false(look(&scene, 3 * MINUTE, 320));
	assert_true(look(&scene, MINUTE, 320));
	assert_string_equal(scene.reason, "rss>300MiB");
	trigger_free(scene.trigger);
}

static void what_is_over_before_the_cool_down_ends_is_not_captured(void **state)
{
	(void)state;
	struct scene scene =
		watch((const char *const[]){ "rss>200MiB", "rss>300MiB", NULL }, 5 * MINUTE);

	assert_true(look(&scene, 0, 210));
	assert_false(look(&scene, MINUTE, 310));
	assert_false(look(&scene, 10 * MINUTE, 210));
	trigger_free(scene.trigger);
}

static void growth_is_measured_from_the_lowest_of_its_period(void **state)
{
	(void)state;
	struct scene scene = watch_one("growth>10%/h", 0);

	assert_false(look(&scene, 0, 100));
	assert_false(look(&scene, 30 * MINUTE, 109));
	assert_true(look(&scene, 10 * MINUTE, 111));
	assert_false(look(&scene, 10 * MINUTE, 121)); /* it starts over from 111 */
	assert_true(look(&scene, 10 * MINUTE, 123));
	trigger_free(scene.trigger);
}

static void slow_growth_is_not_growth_within_the_period(void **state)
{
	(void)state;
	struct scene scene = watch_one("growth>10%/h", 0);
	double mib = 100;

	for (int i = 0; i < 24 * 60; i++, mib *= 1.0015) /* 9.4% an hour */
		assert_false(look(&scene, MINUTE, mib));
	for (int i = 0; i < 62 && !look(&scene, MINUTE, mib); i++)
		mib *= 1.002; /* 12.7% an hour */
	assert_int_equal(scene.captures, 1);
	trigger_free(scene.trigger);
}

/* As when the machine slept: the values within the hour are unknown. */
static void what_was_seen_before_the_period_is_forgotten(void **state)
{
	(void)state;
	struct scene scene = watch_one("growth>10%/h", 0);

	assert_false(look(&scene, 0, 100));
	assert_false(look(&scene, 2 * HOUR, 150));
	assert_true(look(&scene, MINUTE, 166));
	trigger_free(scene.trigger);
}

static void growth_without_a_period_counts_from_the_last_capture(void **state)
{
	(void)state;
	struct scene scene = watch_one("growth>50MiB", 0);

	assert_false(look(&scene, 0, 100));
	assert_false(look(&scene, 20 * HOUR, 149));
	assert_true(look(&scene, HOUR, 151));
	assert_false(look(&scene, HOUR, 200));
	assert_true(look(&scene, HOUR, 202));
	/* It was freed, and grows again. */
	assert_false(look(&scene, HOUR, 30));
	assert_false(look(&scene, HOUR, 79));
	assert_true(look(&scene, HOUR, 81));
	trigger_free(scene.trigger);
}

static void a_peak_is_above_all_before_and_forgotten_hourly(void **state)
{
	(void)state;
	struct scene scene = watch_one("peak", 0);

	assert_false(look(&scene, 0, 100));
	assert_false(look(&scene, MINUTE, 104));
	assert_true(look(&scene, MINUTE, 106));
	assert_false(look(&scene, MINUTE, 100));
	assert_false(look(&scene, MINUTE, 110));
	assert_true(look(&scene, MINUTE, 112));
	/* A quieter time: its own peak counts. */
	assert_false(look(&scene, 61 * MINUTE, 50));
	assert_true(look(&scene, MINUTE, 60));
	trigger_free(scene.trigger);
}

static void a_peak_during_the_cool_down_is_captured_after_it(void **state)
{
	(void)state;
	struct scene scene = watch_one("peak", 3 * HOUR);

	assert_false(look(&scene, 0, 100));
	assert_true(look(&scene, MINUTE, 110));
	for (int i = 1; i < 3 * 60; i++)
		assert_false(look(&scene, MINUTE, 120));
	assert_true(look(&scene, MINUTE, 120));
	trigger_free(scene.trigger);
}

static void pressure_and_control_group_have_their_thresholds(void **state)
{
	(void)state;
	struct scene scene = watch((const char *const[]){ "cgroup>85%", "psi>10%", NULL }, 0);

	assert_false(look(&scene, 0, 100));
	scene.now.cgroup_share = 0.86;
	assert_true(look(&scene, SECOND, 100));
	scene.now.pressure_share = 0.11;
	assert_true(look(&scene, SECOND, 100));
	assert_string_equal(scene.reason, "psi>10%");
	assert_false(look(&scene, SECOND, 100));
	trigger_free(scene.trigger);
}

static void all_terms_of_a_rule_must_hold_at_once(void **state)
{
	(void)state;
	struct scene scene = watch_one("rss>200MiB and psi>10%", 0);

	assert_false(look(&scene, 0, 210));
	scene.now.pressure_share = 0.2;
	assert_false(look(&scene, SECOND, 150));
	assert_true(look(&scene, SECOND, 210));
	assert_false(look(&scene, SECOND, 210));
	trigger_free(scene.trigger);
}

static void the_clock_and_signals_need_no_cool_down(void **state)
{
	(void)state;
	struct scene scene =
		watch((const char *const[]){ "every=15mins", "signal", NULL }, 24 * HOUR);

	for (int i = 0; i < 60; i++)
		look(&scene, MINUTE, 100);
	assert_int_equal(scene.captures, 3);
	scene.now.signalled = true;
	assert_true(look(&scene, SECOND, 100));
	assert_string_equal(scene.reason, "signal");
	assert_false(look(&scene, SECOND, 100));
	trigger_free(scene.trigger);
}

static void a_failed_capture_is_tried_again_but_not_at_once(void **state)
{
	(void)state;
	struct scene scene = watch((const char *const[]){ "rss>200MiB", "signal", NULL }, 0);

	scene.captures_fail = true;
	assert_true(look(&scene, 0, 201));
	assert_false(look(&scene, 9 * SECOND, 201));
	assert_true(look(&scene, SECOND, 201));
	scene.captures_fail = false;
	assert_true(look(&scene, 10 * SECOND, 201));
	assert_false(look(&scene, HOUR, 201));

	scene.captures_fail = true;
	scene.now.signalled = true;
	assert_true(look(&scene, SECOND, 201));
	scene.captures_fail = false;
	assert_false(look(&scene, SECOND, 201));
	assert_true(look(&scene, 9 * SECOND, 201));
	assert_string_equal(scene.reason, "signal");
	assert_false(look(&scene, HOUR, 201));
	trigger_free(scene.trigger);
}

static void a_signal_whose_rule_does_not_hold_is_not_kept_after_a_failure(void **state)
{
	(void)state;
	struct scene scene =
		watch((const char *const[]){ "rss>200MiB", "signal and rss>150MiB", NULL }, 0);

	scene.captures_fail = true;
	assert_true(look(&scene, 0, 250));
	scene.captures_fail = false;
	assert_false(look(&scene, 20 * SECOND, 100));
	scene.now.signalled = true;
	assert_false(look(&scene, SECOND, 100));
	assert_false(look(&scene, HOUR, 160));
	trigger_free(scene.trigger);
}

static void a_target_that_was_started_anew_starts_over(void **state)
{
	(void)state;
	struct scene scene =
		watch((const char *const[]){ "rss>200MiB", "growth>10%/h", "every=1h", NULL }, 0);

	assert_true(look(&scene, 0, 250));
	assert_false(look(&scene, MINUTE, 250));
	/* It never was below the mark, but it is another one. */
	scene.now.generation = 2;
	assert_true(look(&scene, MINUTE, 250));
	assert_string_equal(scene.reason, "rss>200MiB");
	scene.now.generation = 3;
	assert_false(look(&scene, MINUTE, 30));
	/* That is no growth of what the former had. */
	scene.now.generation = 4;
	assert_false(look(&scene, MINUTE, 60));
	assert_true(look(&scene, MINUTE, 70));
	assert_string_equal(scene.reason, "growth>10%/h");
	/* The clock goes on. */
	assert_false(look(&scene, 54 * MINUTE, 60));
	assert_true(look(&scene, MINUTE, 60));
	assert_string_equal(scene.reason, "every=1h");
	trigger_free(scene.trigger);

	scene = watch_one("peak", 0);
	assert_false(look(&scene, 0, 500));
	scene.now.generation = 2;
	assert_false(look(&scene, MINUTE, 100));
	assert_true(look(&scene, MINUTE, 120));
	trigger_free(scene.trigger);
}

static void unknown_figures_never_fire(void **state)
{
	(void)state;
	struct scene scene = watch((const char *const[]){ "rss>1MiB", "rss>1%", "cgroup>1%",
					   "psi>1%", "growth>1%", "growth>1%/h", "peak", NULL },
		0);

	for (int i = 0; i < 100; i++)
		assert_false(look(&scene, MINUTE, NAN));
	trigger_free(scene.trigger);
}

/* The scene goes on with other conditions. */
static void renew(struct scene *scene, const char *const *conditions, int64_t cool_down_ms)
{
	struct scene other = watch(conditions, cool_down_ms);
	struct condition_rule rules[TRIGGER_RULES_MAX];
	size_t count = 0;
	struct error err;

	for (; conditions[count] != NULL; count++)
		assert_true(condition_parse(conditions[count], &rules[count], &err));
	trigger_free(other.trigger);
	other.trigger = trigger_renew(scene->trigger,
		&(struct trigger_settings){ cool_down_ms, 10 * SECOND }, rules, count);
	trigger_free(scene->trigger);
	scene->trigger = other.trigger;
}

static void rules_that_stay_remember_what_they_saw(void **state)
{
	(void)state;
	struct scene scene =
		watch((const char *const[]){ "rss>200MiB", "growth>50MiB", "every=1h", NULL }, 0);

	assert_true(look(&scene, 0, 201));
	renew(&scene, (const char *const[]){ "growth>50MiB", "every=1h", "rss>200MiB", NULL }, 0);
	assert_false(trigger_is_armed(scene.trigger, 2));
	assert_true(trigger_is_armed(scene.trigger, 0));
	/* Neither the level again, nor growth from anything but what was captured. */
	assert_false(look(&scene, MINUTE, 220));
	assert_true(look(&scene, MINUTE, 252));
	assert_string_equal(scene.reason, "growth>50MiB");
	assert_true(look(&scene, 58 * MINUTE, 252));
	assert_string_equal(scene.reason, "every=1h");
	trigger_free(scene.trigger);
}

static void a_new_rule_begins_when_it_comes(void **state)
{
	(void)state;
	struct scene scene = watch_one("rss>200MiB", 0);

	assert_true(look(&scene, 0, 201));
	renew(&scene, (const char *const[]){ "rss>150MiB", "growth>10%/h", "every=1h", NULL }, 0);
	assert_true(look(&scene, MINUTE, 205));
	assert_string_equal(scene.reason, "rss>150MiB");
	assert_false(look(&scene, MINUTE, 210));
	assert_true(look(&scene, 58 * MINUTE, 210));
	assert_string_equal(scene.reason, "every=1h");
	trigger_free(scene.trigger);
}

static void a_signal_that_could_not_be_served_outlives_a_change_of_rules(void **state)
{
	(void)state;
	struct scene scene = watch_one("signal", 0);

	scene.captures_fail = true;
	scene.now.signalled = true;
	assert_true(look(&scene, 0, 100));
	renew(&scene, (const char *const[]){ "signal", "peak", NULL }, 0);
	scene.captures_fail = false;
	assert_true(look(&scene, 10 * SECOND, 100));
	trigger_free(scene.trigger);
}

static void the_cool_down_continues_when_rules_change(void **state)
{
	(void)state;
	struct scene scene = watch_one("rss>200MiB", 5 * MINUTE);

	assert_true(look(&scene, 0, 201));
	renew(&scene, (const char *const[]){ "rss>210MiB", NULL }, 5 * MINUTE);
	assert_false(look(&scene, 4 * MINUTE, 220));
	assert_true(look(&scene, MINUTE, 220));
	trigger_free(scene.trigger);
}

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

static void condition_parse_reads_every_kind(void **state)
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

static void condition_parse_joins_terms_with_and(void **state)
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
	cmocka_unit_test(a_level_fires_once_until_it_has_clearly_fallen),
	cmocka_unit_test(what_is_above_from_the_start_is_captured),
	cmocka_unit_test(captures_are_apart_by_the_cool_down),
	cmocka_unit_test(what_is_over_before_the_cool_down_ends_is_not_captured),
	cmocka_unit_test(growth_is_measured_from_the_lowest_of_its_period),
	cmocka_unit_test(slow_growth_is_not_growth_within_the_period),
	cmocka_unit_test(what_was_seen_before_the_period_is_forgotten),
	cmocka_unit_test(growth_without_a_period_counts_from_the_last_capture),
	cmocka_unit_test(a_peak_is_above_all_before_and_forgotten_hourly),
	cmocka_unit_test(a_peak_during_the_cool_down_is_captured_after_it),
	cmocka_unit_test(pressure_and_control_group_have_their_thresholds),
	cmocka_unit_test(all_terms_of_a_rule_must_hold_at_once),
	cmocka_unit_test(the_clock_and_signals_need_no_cool_down),
	cmocka_unit_test(a_failed_capture_is_tried_again_but_not_at_once),
	cmocka_unit_test(a_signal_whose_rule_does_not_hold_is_not_kept_after_a_failure),
	cmocka_unit_test(a_target_that_was_started_anew_starts_over),
	cmocka_unit_test(unknown_figures_never_fire),
	cmocka_unit_test(rules_that_stay_remember_what_they_saw),
	cmocka_unit_test(a_new_rule_begins_when_it_comes),
	cmocka_unit_test(a_signal_that_could_not_be_served_outlives_a_change_of_rules),
	cmocka_unit_test(the_cool_down_continues_when_rules_change),
	cmocka_unit_test(condition_parse_reads_every_kind),
	cmocka_unit_test(condition_parse_joins_terms_with_and),
	cmocka_unit_test(refuses_what_makes_no_sense),
};

UNIT_MAIN(tests)
