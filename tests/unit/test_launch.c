/* SPDX-License-Identifier: Apache-2.0 */
#include "client/launch.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

static char last_notes[4096];

/* The option string that comes out; the notes go to last_notes. */
static const char *conf_of(const char *inherited, const char *misnamed, const char *asked)
{
	static char text[1024];
	const struct launch_request request = { .conf = asked };
	struct launch_plan plan = { 0 };
	struct error err = { 0 };
	const char *value;

	string_pool_init(&plan.strings);
	if (launch_conf(&plan, &request, inherited, misnamed, &value, &err))
		snprintf(text, sizeof text, "%s", value);
	else
		snprintf(text, sizeof text, "error: %s (%s)", err.message, err.hint);
	last_notes[0] = '\0';
	for (size_t i = 0; i < plan.note_count; i++)
		strcat(strcat(last_notes, plan.notes[i]), "\n");
	launch_plan_deinit(&plan);
	return text;
}

static void lets_the_later_win(void **state)
{
	(void)state;
	assert_string_equal(conf_of(NULL, NULL, NULL), "prof:true,prof_active:false");
	assert_string_equal(conf_of("narenas:1", NULL, "lg_prof_sample:12"),
		"prof:true,prof_active:false,narenas:1,lg_prof_sample:12");
	assert_string_equal(conf_of("prof_active:true,", "zero:true", NULL),
		"prof:true,prof_active:false,zero:true,prof_active:true,");
	assert_string_equal(last_notes, "");
}

static void does_not_let_the_environment_forbid_profiling(void **state)
{
	(void)state;
	assert_string_equal(conf_of("prof:false", NULL, NULL),
		"prof:true,prof_active:false,prof:false,prof:true");
	assert_contains(last_notes, "prof:false of the environment is ignored");
	assert_contains(conf_of(NULL, NULL, "prof:false"), "forbids all profiling");
}

static void points_out_what_jemalloc_would_misread(void **state)
{
	(void)state;
	conf_of("prof:true,prof_prefix:/x:prof_active:false", NULL, NULL);
	assert_contains(last_notes, "MALLOC_CONF: ");
	assert_contains(last_notes, "prof_prefix:/x,prof_active:false");
	assert_contains(
		conf_of(NULL, NULL, "lg_prof_sample:x"), "error: --conf: 'x' is not a number");
}

static void cuts_off_what_would_swallow_the_rest(void **state)
{
	(void)state;
	assert_string_equal(conf_of("zero:true, junk:true", NULL, "narenas:2"),
		"prof:true,prof_active:false,zero:true,narenas:2");
	assert_contains(last_notes, "stops reading");
}

static void samples_at_once_for_automatic_profiles(void **state)
{
	(void)state;
	assert_string_equal(conf_of(NULL, NULL, "prof_leak:true"),
		"prof:true,prof_active:false,prof_leak:true,prof_active:true");
	assert_contains(last_notes, "because prof_leak needs it");
	assert_string_equal(conf_of(NULL, NULL, "prof_gdump:true,prof_active:false"),
		"prof:true,prof_active:false,prof_gdump:true,prof_active:false");
	assert_string_equal(conf_of(NULL, NULL, "lg_prof_interval:-1"),
		"prof:true,prof_active:false,lg_prof_interval:-1");
}

/* A file with these contents that can be executed; removed by the caller. */
static void make_script(char path[32], const char *text)
{
	strcpy(path, "/tmp/heapctl-unit-XXXXXX");
	const int fd = mkstemp(path);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	fchmod(fd, 0700);
	close(fd);
}

static void expect_interpreter(const char *text, const char *interpreter)
{
	struct program program;
	struct error err = { 0 };
	char path[32];

	make_script(path, text);
	const bool ok = program_inspect(path, &program, &err);
	unlink(path);
	if (!ok)
		fail_msg("%s", err.message);
	assert_int_equal(program.kind, PROGRAM_SCRIPT);
	assert_string_equal(program.interpreter, interpreter);
}

static void reads_the_first_line_of_scripts(void **state)
{
	(void)state;
	expect_interpreter("#!/bin/sh -e\n", "/bin/sh");
	expect_interpreter("#! /usr/bin/env python3\nx", "python3");
	expect_interpreter("#!/usr/bin/env -S A=1 perl -w\n", "perl");
	expect_interpreter("#!/bin/sh", "/bin/sh");
}

static void refuses_shell_scripts_without_a_program(void **state)
{
	(void)state;
	struct launch_plan plan;
	struct error err = { 0 };
	char path[32];

	make_script(path, "#!/bin/sh\n");
	const struct launch_request request = { .command = path, .agent_library = "/x.so" };
	const bool ok = launch_plan_make(&request, &plan, &err);
	unlink(path);
	assert_false(ok);
	assert_contains(err.hint, "--exe NAME");
}

static bool plan_script(const char *text, struct launch_plan *plan, struct error *err)
{
	char path[32];

	make_script(path, text);
	const struct launch_request request = { .command = path, .agent_library = "/x.so" };
	const bool ok = launch_plan_make(&request, plan, err);
	unlink(path);
	return ok;
}

static void follows_an_interpreter_that_is_a_script(void **state)
{
	(void)state;
	struct launch_plan plan;
	struct error err = { 0 };
	char inner[32], first_line[40];

	make_script(inner, "#!/bin/cat -u\n");
	snprintf(first_line, sizeof first_line, "#!%s\n", inner);
	const bool ok = plan_script(first_line, &plan, &err);
	unlink(inner);
	if (!ok)
		fail_msg("%s", err.message);
	assert_int_equal(plan.program.kind, PROGRAM_DYNAMIC);
	assert_string_equal(plan.program.path, "/bin/cat");
	launch_plan_deinit(&plan);

	make_script(inner, "#!/bin/sh\n");
	snprintf(first_line, sizeof first_line, "#!%s\n", inner);
	assert_false(plan_script(first_line, &plan, &err));
	unlink(inner);
	assert_contains(err.message, "is a script for /bin/sh");
}

static void notes_that_what_a_shell_or_a_wrapper_starts_has_no_agent(void **state)
{
	(void)state;
	static const struct {
		const char *command, *exes;
		bool is_noted;
	} cases[] = { { "/bin/sh", NULL, true }, { "nice", NULL, true }, { "nice", "cat", false },
		{ "cat", NULL, false } };

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const struct launch_request request = {
			.command = cases[i].command, .exes = cases[i].exes, .agent_library = "/x.so"
		};
		struct launch_plan plan;
		struct error err = { 0 };
		bool is_noted = false;

		assert_true(launch_plan_make(&request, &plan, &err));
		for (size_t k = 0; k < plan.note_count; k++)
			is_noted = is_noted || strstr(plan.notes[k], "gets no agent") != NULL;
		assert_int_equal(is_noted, cases[i].is_noted);
		launch_plan_deinit(&plan);
	}
}

static void refuses_scripts_without_a_usable_interpreter(void **state)
{
	(void)state;
	struct launch_plan plan;
	struct error err = { 0 };
	char path[32], first_line[40];

	assert_false(plan_script("#!/nonexistent/interpreter\n", &plan, &err));
	assert_contains(err.message, "the interpreter of /tmp/heapctl-unit-");
	make_script(path, "");
	snprintf(first_line, sizeof first_line, "#!%s\n", path);
	const int fd = open(path, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, first_line, strlen(first_line)), strlen(first_line));
	close(fd);
	const struct launch_request request = { .command = path, .agent_library = "/x.so" };
	const bool ok = launch_plan_make(&request, &plan, &err);
	unlink(path);
	assert_false(ok);
	assert_contains(err.message, "its interpreter is a script, and so are");
}

static void refuses_what_is_no_program(void **state)
{
	(void)state;
	struct program program;
	struct error err = { 0 };
	char path[32];

	make_script(path, "plain text");
	const bool ok = program_inspect(path, &program, &err);
	unlink(path);
	assert_false(ok);
	assert_contains(err.message, "neither a program");
	assert_false(program_inspect("no-such-command-here", &program, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
	assert_false(program_inspect("/tmp", &program, &err));
}

static void refuses_a_program_of_another_machine(void **state)
{
	(void)state;
	struct launch_plan plan;
	struct error err = { 0 };
	char path[32];
	const unsigned char header[64] = { 0x7f, 'E', 'L', 'F', sizeof(void *) == 8 ? 1 : 2, 1, 1 };

	make_script(path, "");
	const int fd = open(path, O_WRONLY);
	assert_int_equal(write(fd, header, sizeof header), sizeof header);
	close(fd);
	const struct launch_request request = { .command = path, .agent_library = "/x.so" };
	const bool ok = launch_plan_make(&request, &plan, &err);
	unlink(path);
	assert_false(ok);
	assert_contains(err.message, "another kind of machine");
}

static void finds_jemalloc_in_a_program_of_another_machine(void **state)
{
	(void)state;
	enum { BEFORE = 65500 }; /* across the blocks that are read */
	static const unsigned char header[64] = { 0x7f, 'E', 'L', 'F', sizeof(void *) == 8 ? 1 : 2,
		1, 1 };
	static const char names[] = "\0_rjem_mallctlnametomib_not\0_rjem_mallctlnametomib\0";
	static const char zeroes[100];
	char path[32], name[MALLCTL_NAME_BYTES];

	make_script(path, "");
	const int fd = open(path, O_RDWR);
	unlink(path);
	assert_int_equal(write(fd, header, sizeof header), sizeof header);
	assert_true(program_is_foreign(fd));
	assert_false(program_find_mallctl(fd, name));
	assert_int_equal(pwrite(fd, names, sizeof names, BEFORE), sizeof names);
	assert_int_equal(pwrite(fd, zeroes, sizeof zeroes, BEFORE + sizeof names), sizeof zeroes);
	assert_true(program_find_mallctl(fd, name));
	assert_string_equal(name, "_rjem_mallctl");
	close(fd);
}

static void sees_that_this_program_has_no_jemalloc(void **state)
{
	(void)state;
	struct program program;
	struct error err = { 0 };

	assert_true(program_inspect("/proc/self/exe", &program, &err));
	assert_int_equal(program.kind, PROGRAM_DYNAMIC);
	assert_string_equal(program.jemalloc, "");
	assert_string_equal(program.mallctl, "");
	assert_false(program.is_foreign);
	assert_false(program.is_privileged);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(lets_the_later_win),
	cmocka_unit_test(does_not_let_the_environment_forbid_profiling),
	cmocka_unit_test(points_out_what_jemalloc_would_misread),
	cmocka_unit_test(cuts_off_what_would_swallow_the_rest),
	cmocka_unit_test(samples_at_once_for_automatic_profiles),
	cmocka_unit_test(reads_the_first_line_of_scripts),
	cmocka_unit_test(refuses_shell_scripts_without_a_program),
	cmocka_unit_test(follows_an_interpreter_that_is_a_script),
	cmocka_unit_test(notes_that_what_a_shell_or_a_wrapper_starts_has_no_agent),
	cmocka_unit_test(refuses_scripts_without_a_usable_interpreter),
	cmocka_unit_test(refuses_what_is_no_program),
	cmocka_unit_test(refuses_a_program_of_another_machine),
	cmocka_unit_test(finds_jemalloc_in_a_program_of_another_machine),
	cmocka_unit_test(sees_that_this_program_has_no_jemalloc),
};
UNIT_MAIN(tests)
