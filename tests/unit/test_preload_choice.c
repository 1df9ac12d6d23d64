/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/preload_choice.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>

#include "agent/sandbox_check.h"
#include "unit.h"

static const char *const *variables; /* name, value, ..., NULL */

static char *get(const char *name)
{
	for (size_t i = 0; variables[i] != NULL; i += 2) {
		if (strcmp(variables[i], name) == 0)
			return (char *)(uintptr_t)variables[i + 1];
	}
	return NULL;
}

static struct settings read_settings(const char *const *list)
{
	struct settings settings;

	variables = list;
	settings_read(&settings, get);
	return settings;
}

static void settings_have_defaults(void **state)
{
	(void)state;
	const char *const none[] = { NULL };
	const struct settings settings = read_settings(none);
	assert_int_equal(settings.keep, 16);
	assert_int_equal(settings.keep_bytes, 256 << 20);
	assert_string_equal(settings.folder, "");
	assert_false(settings.disabled);
	assert_false(settings.on_demand);
	assert_string_equal(settings.problem, "");
}

static void settings_come_from_the_environment(void **state)
{
	(void)state;
	const char *const list[] = { "HEAPCTL_DIR", "/d", "HEAPCTL_KEEP", "3", "HEAPCTL_KEEP_BYTES",
		"2M", "HEAPCTL_DISABLE", "1", "HEAPCTL_THREAD", "on-demand", "HEAPCTL_EXE", "a:b",
		"HEAPCTL_LOG", "stderr", NULL };
	const struct settings settings = read_settings(list);
	assert_string_equal(settings.folder, "/d");
	assert_int_equal(settings.keep, 3);
	assert_int_equal(settings.keep_bytes, 2 << 20);
	assert_true(settings.disabled);
	assert_true(settings.on_demand);
	assert_true(settings.log_to_stderr);
	assert_string_equal(settings.exes, "a:b");
}

static void variables_of_a_pod_are_noted_in_a_pod(void **state)
{
	(void)state;
	const char *const list[] = { "HEAPCTL_LABELS", "service=api", "POD_NAME", "api-1",
		"KUBERNETES_SERVICE_HOST", "10.0.0.1", NULL };
	const struct settings settings = read_settings(list);
	static const char noted[] =
		"HEAPCTL_LABELS=service=api\0KUBERNETES_SERVICE_HOST=10.0.0.1\0POD_NAME=api-1\0";
	assert_memory_equal(settings.identity, noted, sizeof noted);
	const char *const elsewhere[] = { "POD_NAME", "x", NULL };
	assert_string_equal(read_settings(elsewhere).identity, "");
}

static void variables_that_do_not_fit_are_left_out(void **state)
{
	char text[SETTINGS_IDENTITY_MAX];
	(void)state;
	memset(text, 'x', sizeof text - 1);
	text[sizeof text - 1] = '\0';
	const char *const list[] = { "HEAPCTL_LABELS", text, "KUBERNETES_SERVICE_HOST", "10.0.0.1",
		NULL };
	assert_string_equal(read_settings(list).identity, "KUBERNETES_SERVICE_HOST=10.0.0.1");
	/* With both NULs it fits exactly. */
	text[sizeof text - sizeof "HEAPCTL_LABELS=" - 1] = '\0';
	const char *const fits[] = { "HEAPCTL_LABELS", text, NULL };
	assert_int_equal(strlen(read_settings(fits).identity), SETTINGS_IDENTITY_MAX - 2);
	text[strlen(text)] = 'x';
	assert_string_equal(read_settings(fits).identity, "");
}

static void nonsense_is_named_and_the_default_kept(void **state)
{
	(void)state;
	static const char *const values[] = { "0", "-1", "x", "1T", "9999999999999999999999", "1 ",
		"99999999999999999G" };
	for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
		const char *const list[] = { "HEAPCTL_KEEP", values[i], NULL };
		const struct settings settings = read_settings(list);
		assert_int_equal(settings.keep, 16);
		assert_contains(settings.problem, "HEAPCTL_KEEP");
	}
	const char *const many[] = { "HEAPCTL_KEEP", "5000", NULL };
	assert_int_equal(read_settings(many).keep, SETTINGS_KEEP_MAX);
}

static enum preload_decision decide(
	const char *exes, const char *path, const char *preload, const char *preload_file)
{
	struct settings settings = { 0 };
	struct program_facts program = { 0 };
	const struct preload_source source = { .own_path = "/usr/lib/libheapctl.so",
		.preload = preload,
		.preload_file = preload_file };

	strcpy(settings.exes, exes);
	strcpy(program.path, path);
	strcpy(program.started_as, path);
	return preload_decide(&settings, &program, &source);
}

static void only_listed_programs_get_an_agent(void **state)
{
	(void)state;
	const char preload[] = "/x/libother.so:/usr/lib/libheapctl.so";
	assert_int_equal(decide("redis-server", "/bin/redis-server", preload, ""), PRELOAD_START);
	assert_int_equal(
		decide("a:/bin/redis-server", "/bin/redis-server", preload, ""), PRELOAD_START);
	assert_int_equal(
		decide("/sbin/redis-server", "/bin/redis-server", preload, ""), PRELOAD_STAY_OUT);
	assert_int_equal(decide("redis", "/bin/redis-server", preload, ""), PRELOAD_STAY_OUT);
	assert_int_equal(decide(":", "/bin/redis-server", preload, ""), PRELOAD_STAY_OUT);
	assert_int_equal(decide("sh", "/bin/sh", preload, ""), PRELOAD_START);
	assert_int_equal(
		decide("sh", "/bin/sh", "/usr/lib/libheapctl-preload.so", ""), PRELOAD_START);
}

static void without_a_list_the_first_that_is_no_launcher(void **state)
{
	(void)state;
	const char preload[] = "libheapctl.so /x/y.so";
	assert_int_equal(decide("", "/usr/sbin/named", preload, ""), PRELOAD_START_AND_NAME);
	assert_int_equal(decide("", "/bin/dash", preload, ""), PRELOAD_STAY_OUT);
	assert_int_equal(decide("", "/usr/bin/env", preload, ""), PRELOAD_STAY_OUT);
	assert_int_equal(decide("", "/usr/bin/valgrind.bin", preload, ""), PRELOAD_STAY_OUT);
}

static void linked_programs_decide_for_themselves(void **state)
{
	(void)state;
	assert_int_equal(decide("", "/usr/sbin/named", "", ""), PRELOAD_STAY_OUT);
	assert_int_equal(decide("named", "/usr/sbin/named", "", ""), PRELOAD_STAY_OUT);
	assert_int_equal(decide("", "/usr/sbin/named", "/x/libheapctl.so.1", ""), PRELOAD_STAY_OUT);
	assert_int_equal(
		decide("", "/usr/sbin/named", "", "/usr/lib/libheapctl.so\n"), PRELOAD_STAY_OUT);
	assert_int_equal(
		decide("named", "/usr/sbin/named", "", "/usr/lib/libheapctl.so\n"), PRELOAD_START);
}

static void a_disabled_agent_stays_out(void **state)
{
	(void)state;
	struct settings settings = { .disabled = true };
	const struct program_facts program = { .path = "/bin/x", .started_as = "/bin/x" };
	const struct preload_source source = {
		.own_path = "/a.so", .preload = "/a.so", .preload_file = ""
	};
	assert_int_equal(preload_decide(&settings, &program, &source), PRELOAD_STAY_OUT);
}

static void knows_what_this_process_runs(void **state)
{
	(void)state;
	struct program_facts program;
	program_facts_read(&program);
	assert_contains(program.path, "test_preload_choice");
	assert_string_equal(program_facts_name(&program), "test_preload_choice");
}

static void a_list_without_this_process_is_enough_to_stay_out(void **state)
{
	(void)state;
	struct program_facts program;
	char too_long[SETTINGS_EXES_MAX + 1];

	program_facts_read(&program);
	assert_true(
		preload_leaves_out("redis-server:/bin/test_preload_choice:test_preload_choice.c"));
	assert_false(preload_leaves_out("redis-server:test_preload_choice"));
	assert_false(preload_leaves_out(program.path));
	assert_false(preload_leaves_out(program.started_as));
	/* Without a list, or with one that is too long, there is more to be read. */
	assert_false(preload_leaves_out(NULL));
	assert_false(preload_leaves_out(""));
	memset(too_long, 'x', sizeof too_long - 1);
	too_long[sizeof too_long - 1] = '\0';
	assert_false(preload_leaves_out(too_long));
}

static struct sandbox_check_state state_of(const char *text)
{
	struct sandbox_check_reader reader = SANDBOX_CHECK_READER;

	/* In pieces of every size. */
	for (size_t size = 1; *text != '\0'; size = size % 7 + 1) {
		const size_t piece = strnlen(text, size);
		sandbox_check_read(&reader, text, piece);
		text += piece;
	}
	return reader.state;
}

#define THREAD(uid, groups, inherited, permitted, bounding, nnp, seccomp)                        \
	"Name:\tx\nUid:\t" uid "\t" uid "\t" uid "\t" uid "\nGid:\t0\t0\t0\t0\nGroups:\t" groups \
	"\nSigBlk:\t0000000000000020\nCapInh:\t" inherited "\nCapPrm:\t" permitted               \
	"\nCapEff:\t0\nCapBnd:\t" bounding "\nCapAmb:\t0\nNoNewPrivs:\t" nnp                     \
	"\nSeccomp:\t" seccomp "\n"

static enum sandbox_check_action action_of(const char *main_thread, const char *own)
{
	const struct sandbox_check_state of_main = state_of(main_thread), of_own = state_of(own);

	return sandbox_check_compare(&of_main, &of_own);
}

static void a_sandbox_is_seen(void **state)
{
	(void)state;
	const char *const open =
		THREAD("0", "4 24", "0", "1ff", "1ff", "0", "0\nSeccomp_filters:\t0");
	const char *const same =
		THREAD("0", "4 24", "0", "1ff", "1ff", "1", "2\nSeccomp_filters:\t1");
	const char *const more =
		THREAD("0", "4 24", "0", "1ff", "1ff", "1", "2\nSeccomp_filters:\t2");

	assert_int_equal(action_of(open, open), SANDBOX_CHECK_KEEP);
	assert_int_equal(action_of(same, same), SANDBOX_CHECK_KEEP);
	assert_int_equal(action_of(open, same), SANDBOX_CHECK_KEEP);
	assert_int_equal(action_of(same, open), SANDBOX_CHECK_END);
	assert_int_equal(action_of(more, same), SANDBOX_CHECK_END);
	assert_int_equal(action_of(same, more), SANDBOX_CHECK_KEEP);
	assert_int_equal(action_of("Seccomp:\t1\n", same), SANDBOX_CHECK_END);
	assert_int_equal(action_of("NoNewPrivs:\t1\n", "NoNewPrivs:\t0\n"), SANDBOX_CHECK_LOWER);
	assert_int_equal(action_of("Name:\tSeccomp:\t2\n", open), SANDBOX_CHECK_KEEP);
	assert_int_equal(action_of(same, "Name:\tx\n"), SANDBOX_CHECK_KEEP);
	assert_int_equal(state_of(open).blocked, 0x20);
	assert_true(state_of("State:\tZ (zombie)\nThreads:\t12\n").has_ended);
	assert_int_equal(state_of("State:\tZ (zombie)\nThreads:\t12\n").threads, 12);
	assert_false(state_of("Name:\tState:\tZ\nState:\tS (sleeping)\n").has_ended);
}

static void rights_that_were_given_up_for_good_count(void **state)
{
	(void)state;
	const char *const all = THREAD("0", "4", "0", "1ff", "1ff", "0", "0");
	const char *const few = THREAD("0", "4", "0", "1c0", "1ff", "0", "0");
	const char *const bound = THREAD("0", "4", "0", "1ff", "0", "0", "0");
	const char *const bound_for_good = THREAD("0", "4", "0", "1ff", "1ff", "1", "0");
	const char *const user = THREAD("7", "4", "0", "1c0", "1ff", "0", "0");
	const char *const none = THREAD("0", "4", "0", "0", "1ff", "0", "0");
	const char *const groups = THREAD("0", "", "0", "0", "1ff", "0", "0");
	char long_list[4096] = "";

	assert_int_equal(action_of(few, all), SANDBOX_CHECK_LOWER);
	assert_int_equal(action_of(all, few), SANDBOX_CHECK_KEEP);
	assert_int_equal(action_of(bound, all), SANDBOX_CHECK_LOWER);
	/* A thread that can gain no privileges needs no bounding set. */
	assert_int_equal(action_of(bound, bound_for_good), SANDBOX_CHECK_KEEP);
	/* With CAP_SETUID and CAP_SETGID (0xc0) the main thread can take them back. */
	assert_int_equal(action_of(user, few), SANDBOX_CHECK_KEEP);
	assert_int_equal(action_of(groups, none), SANDBOX_CHECK_END);
	assert_int_equal(action_of(none, none), SANDBOX_CHECK_KEEP);
	/* Behind more groups than fit anywhere. */
	for (size_t i = 0; i < 900; i++)
		strcat(long_list, "1 2 ");
	char text[8192];
	snprintf(text, sizeof text, "Groups:\t%s\nSeccomp:\t2\n", long_list);
	assert_int_equal(state_of(text).seccomp, 2);
}

static void this_process_is_in_no_sandbox_of_its_own(void **state)
{
	(void)state;
	struct sandbox_check guard = SANDBOX_CHECK_NONE;

	assert_false(sandbox_check_must_end(&guard));
	assert_true(sandbox_check_can_open());
	assert_true(sandbox_check_open(&guard));
	assert_false(sandbox_check_must_end(&guard));
	sandbox_check_close(&guard);
}

static void children_are_found_by_a_word(void **state)
{
	(void)state;
	assert_int_equal(
		read_settings((const char *[]){ NULL }).children, SETTINGS_CHILDREN_DEFAULT);
	assert_int_equal(read_settings((const char *[]){ "HEAPCTL_CHILDREN", "no", NULL }).children,
		SETTINGS_CHILDREN_NO);
	assert_int_equal(
		read_settings((const char *[]){ "HEAPCTL_CHILDREN", "on-demand", NULL }).children,
		SETTINGS_CHILDREN_ON_DEMAND);
	assert_int_equal(
		read_settings((const char *[]){ "HEAPCTL_CHILDREN", "thread", NULL }).children,
		SETTINGS_CHILDREN_THREAD);
	const struct settings wrong =
		read_settings((const char *[]){ "HEAPCTL_CHILDREN", "yes", NULL });
	assert_int_equal(wrong.children, SETTINGS_CHILDREN_DEFAULT);
	assert_string_equal(wrong.problem, "HEAPCTL_CHILDREN: invalid value 'yes'");
	assert_string_equal(read_settings((const char *[]){ "HEAPCTL_THREAD", "no", NULL }).problem,
		"HEAPCTL_THREAD: invalid value 'no'");
}

static const char *without_agent(const char *preload)
{
	static char kept[200];

	preload_remove_library(preload, "/opt/libheapctl.so", kept);
	return kept;
}

static void the_agent_is_taken_out_of_a_preload_list(void **state)
{
	(void)state;
	assert_string_equal(without_agent("/usr/lib/libheapctl.so"), "");
	assert_string_equal(without_agent("a.so:/x/libheapctl.so b.so"), "a.so:b.so");
	assert_string_equal(without_agent(":libheapctl.so:"), "");
	assert_string_equal(without_agent("libheapctl.so.old"), "libheapctl.so.old");
	assert_string_equal(without_agent("/x/libheapctl-preload.so:b.so"), "b.so");
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(children_are_found_by_a_word),
	cmocka_unit_test(the_agent_is_taken_out_of_a_preload_list),
	cmocka_unit_test(settings_have_defaults),
	cmocka_unit_test(settings_come_from_the_environment),
	cmocka_unit_test(variables_of_a_pod_are_noted_in_a_pod),
	cmocka_unit_test(variables_that_do_not_fit_are_left_out),
	cmocka_unit_test(nonsense_is_named_and_the_default_kept),
	cmocka_unit_test(only_listed_programs_get_an_agent),
	cmocka_unit_test(without_a_list_the_first_that_is_no_launcher),
	cmocka_unit_test(linked_programs_decide_for_themselves),
	cmocka_unit_test(a_disabled_agent_stays_out),
	cmocka_unit_test(knows_what_this_process_runs),
	cmocka_unit_test(a_list_without_this_process_is_enough_to_stay_out),
	cmocka_unit_test(a_sandbox_is_seen),
	cmocka_unit_test(rights_that_were_given_up_for_good_count),
	cmocka_unit_test(this_process_is_in_no_sandbox_of_its_own),
};
UNIT_MAIN(tests)
