/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/rows.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "analysis/unsample.h"
#include "fleet/clickhouse_text.h"
#include "profile_texts.h"

#define SYMBOLS(main, parse)                                                     \
	"--- symbol\n"                                                           \
	"binary=/bin/server\n" main " main(int)\n" parse " parse(char const*)\n" \
	"---\n"                                                                  \
	"--- heap\n"
#define COUNTS "  t*: 3: 3000 [0: 0]\n"

static const char first[] =
	SYMBOLS("0x40010f", "0x40020f") "heap_v2/4096\n" COUNTS
					"@ 0x7000110 0x400210 0x400110\n" COUNTS
					"\nMAPPED_LIBRARIES:\n"
					"400000-500000 r-xp 00000000 00:00 1 /bin/server\n"
					"7000000-7010000 r-xp 00000000 00:00 2 "
					"/lib/libjemalloc.so.2\n";

/* The same program, loaded elsewhere. */
static const char moved[] =
	SYMBOLS("0x80010f", "0x80020f") "heap_v2/4096\n" COUNTS
					"@ 0x9000110 0x800210 0x800110\n" COUNTS
					"\nMAPPED_LIBRARIES:\n"
					"800000-900000 r-xp 00000000 00:00 1 /bin/server\n"
					"9000000-9010000 r-xp 00000000 00:00 2 "
					"/lib/libjemalloc.so.2\n";

/* Another build of it. */
static const char rebuilt[] =
	SYMBOLS("0x40014f", "0x40024f") "heap_v2/4096\n" COUNTS
					"@ 0x7000110 0x400250 0x400150\n" COUNTS
					"\nMAPPED_LIBRARIES:\n"
					"400000-500000 r-xp 00000000 00:00 1 /bin/server\n"
					"7000000-7010000 r-xp 00000000 00:00 2 "
					"/lib/libjemalloc.so.2\n";

static struct fleet_rows rows_of(const char *text)
{
	struct profile *const profile = must_read_text(text);
	struct fleet_rows rows;
	struct error err = { 0 };

	if (!fleet_rows_make(profile, &rows, &err))
		fail_msg("%s", err.message);
	profile_free(profile);
	return rows;
}

static void stacks_do_not_depend_on_where_files_are_loaded(void **state)
{
	(void)state;
	CLEANUP(fleet_rows_deinit) struct fleet_rows one = rows_of(first);
	CLEANUP(fleet_rows_deinit) struct fleet_rows other = rows_of(moved);

	assert_int_equal(one.count, 1);
	assert_int_equal(other.count, 1);
	assert_true(one.items[0].stack == other.items[0].stack);
	assert_true(one.items[0].site == other.items[0].site);
}

static void sites_do_not_depend_on_the_build(void **state)
{
	(void)state;
	CLEANUP(fleet_rows_deinit) struct fleet_rows one = rows_of(first);
	CLEANUP(fleet_rows_deinit) struct fleet_rows other = rows_of(rebuilt);

	assert_true(one.items[0].stack != other.items[0].stack);
	assert_true(one.items[0].site == other.items[0].site);
}

static void keys_are_the_same_on_every_machine(void **state)
{
	(void)state;
	CLEANUP(fleet_rows_deinit) struct fleet_rows rows = rows_of(first);

	/* They are in databases: another value would make all stacks new ones. */
	assert_true(rows.items[0].stack == UINT64_C(11712484041889958451));
	assert_true(rows.items[0].site == UINT64_C(223721559044876472));
}

static void a_stack_has_names_without_the_allocators(void **state)
{
	(void)state;
	CLEANUP(fleet_rows_deinit) struct fleet_rows rows = rows_of(first);

	assert_string_equal(rows.items[0].columns,
		"['main','parse']\t['/bin/server','/bin/server','/lib/libjemalloc.so.2']\t"
		"[272,528,272]");
}

static void a_row_has_what_was_sampled(void **state)
{
	(void)state;
	CLEANUP(fleet_rows_deinit) struct fleet_rows rows = rows_of(first);
	const double p = 1 - exp(-1000. / 4096);

	assert_true(rows.items[0].samples == 3);
	assert_true(rows.items[0].sampled_bytes == 3000);
	assert_true(fabs(rows.inuse_bytes - 3000 / p) < 1e-6);
	assert_true(fabs(rows.inuse_variance - 3 * 1e6 * (1 - p) / (p * p)) < 1e-3);
}

static void an_unknown_interval_is_an_unknown_error(void **state)
{
	(void)state;
	static const char sum[] = "heap profile: 3: 3000 [3: 3000] @ heapprofile\n"
				  "3: 3000 [3: 3000] @ 0x400210 0x400110\n";
	CLEANUP(buffer_deinit) struct buffer named = BUFFER_OR_EXIT;
	buffer_printf(&named, "--- symbol\n0x40020f parse\n---\n--- heap\n%s", sum);
	CLEANUP(fleet_rows_deinit) struct fleet_rows unknown = rows_of(buffer_string(&named));
	CLEANUP(fleet_rows_deinit) struct fleet_rows exact = rows_of(sum);

	assert_int_equal(unknown.interval_bytes, 0);
	assert_true(isnan(unknown.inuse_variance));
	assert_true(unknown.inuse_bytes == 3000);
	assert_int_equal(exact.interval_bytes, 1);
	assert_true(exact.inuse_variance == 0);
	assert_true(exact.items[0].sampled_bytes == 3000);
}

/* Two lines of one stack, as pprof has by the size of objects: the estimates stay. */
static void lines_of_one_stack_add_up(void **state)
{
	(void)state;
	struct profile *const profile = must_read_text(first);
	struct estimate estimates[PROFILE_COUNTERS];
	struct profile_sample small = profile->samples[0];
	struct error err = { 0 };
	double sum = 0, objects = 0;

	small.counters[PROFILE_INUSE_OBJECTS] = 40;
	small.counters[PROFILE_INUSE_SPACE] = 640;
	profile_add_sample(profile, &small);
	for (size_t i = 0; i < profile->sample_count; i++) {
		unsample(profile, profile->samples[i].counters, estimates);
		sum += estimates[PROFILE_INUSE_SPACE].value;
		objects += estimates[PROFILE_INUSE_OBJECTS].value;
	}
	CLEANUP(fleet_rows_deinit) struct fleet_rows rows = { 0 };
	assert_true(fleet_rows_make(profile, &rows, &err));
	assert_int_equal(rows.count, 1);
	const double mean = rows.items[0].sampled_bytes / rows.items[0].samples;
	const double p = 1 - exp(-mean / 4096);
	assert_true(fabs(rows.items[0].sampled_bytes / p - sum) < 1e-6 * sum);
	assert_true(fabs(rows.items[0].samples / p - objects) < 1e-6 * objects);
	profile_free(profile);
}

static void profiles_of_other_kinds_are_refused(void **state)
{
	(void)state;
	struct profile *const profile = must_read_text(first);
	struct fleet_rows rows;
	struct error err = { 0 };

	profile->kind = PROFILE_CPU;
	assert_false(fleet_rows_make(profile, &rows, &err));
	assert_contains(err.message, "no heap profile");
	profile->kind = PROFILE_HEAP;
	profile->weighting = PROFILE_RATIO;
	assert_false(fleet_rows_make(profile, &rows, &err));
	assert_contains(err.message, "gperftools");
	profile_free(profile);
}

static void lines_have_what_ends_lines_and_columns_escaped(void **state)
{
	(void)state;
	CLEANUP(fleet_rows_deinit) struct fleet_rows rows = rows_of(first);
	CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;
	struct fleet_snapshot snapshot = {
		.pid = 7, .started_ms = 5999, .time_ms = 61234, .reason = "a\tb"
	};
	struct error err = { 0 };

	assert_true(
		identity_set_labels(&snapshot.identity, "service=it's,version=1\\2,zone=b", &err));
	identity_set_found(&snapshot.identity, "host", "a\nb");
	fleet_append_profile(&out, &snapshot, &rows);
	assert_contains(buffer_string(&out),
		"it\\'s\t1\\\\2\ta\\\\x0ab\t7\t0000000005\t0000000061\t61234\t1\t");
	assert_contains(buffer_string(&out), "\ta\\tb\t['zone']\t['b']\n");
	buffer_clear(&out);
	clickhouse_append_quoted(&out, "a'\n\t\\\xff\xc3\xbc");
	assert_string_equal(buffer_string(&out), "'a\\'\\n\\t\\\\\xef\xbf\xbd\xc3\xbc'");
}

static void labels_are_checked(void **state)
{
	(void)state;
	struct snapshot_identity identity = { 0 };
	struct error err = { 0 };

	assert_true(identity_set_label(&identity, "service=first", &err));
	assert_true(identity_set_label(&identity, "service=second", &err));
	assert_string_equal(identity.service, "first");
	static const char *const wrong[] = { "", "x", "=x", "1a=x", "a b=x", "a=", "a=\n",
		"a=\xff" };
	for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
		assert_false(identity_set_label(&identity, wrong[i], &err));
	assert_int_equal(identity.label_count, 0);
	for (int i = 0; i < IDENTITY_LABELS; i++) {
		char label[32];
		snprintf(label, sizeof label, "label%d=x", i);
		assert_true(identity_set_label(&identity, label, &err));
	}
	assert_false(identity_set_label(&identity, "more=x", &err));
	/* A name of 130 characters of two bytes each is cut between two of them. */
	char name[261] = "";
	for (int i = 0; i < 130; i++)
		strcat(name, "\xc3\xbc");
	identity_set_found(&identity, "host", name);
	assert_int_equal(strlen(identity.host), 254);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(stacks_do_not_depend_on_where_files_are_loaded),
	cmocka_unit_test(sites_do_not_depend_on_the_build),
	cmocka_unit_test(keys_are_the_same_on_every_machine),
	cmocka_unit_test(a_stack_has_names_without_the_allocators),
	cmocka_unit_test(a_row_has_what_was_sampled),
	cmocka_unit_test(an_unknown_interval_is_an_unknown_error),
	cmocka_unit_test(lines_of_one_stack_add_up),
	cmocka_unit_test(profiles_of_other_kinds_are_refused),
	cmocka_unit_test(lines_have_what_ends_lines_and_columns_escaped),
	cmocka_unit_test(labels_are_checked),
};

UNIT_MAIN(tests)
