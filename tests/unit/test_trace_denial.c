/* SPDX-License-Identifier: Apache-2.0 */
#include "client/trace_denial.h"

#include <string.h>
#include <unistd.h>

#include "unit.h"

#define ALL UINT64_C(0x1ffffffffff)
#define PTRACE (UINT64_C(1) << 19)
#define RESOURCE (UINT64_C(1) << 24)

static void expect(const struct trace_facts *facts, const char *words)
{
	struct error err = { 0 };

	assert_false(trace_denial_hint(facts, &err));
	if (strstr(err.hint, words) == NULL)
		fail_msg("'%s' is not in: %s", words, err.hint);
}

static void blames_a_security_module_only_when_nothing_else_is_left(void **state)
{
	/* Root with CAP_SYS_PTRACE, without a capability that the process has. */
	struct trace_facts facts = { .wants_to_trace = true,
		.own_capabilities = ALL & ~RESOURCE,
		.capabilities = ALL,
		.modules = "bpf, landlock" };

	(void)state;
	expect(&facts,
		"a security module of the kernel (bpf, landlock) refuses it: heapctl has the "
		"rights for it (CAP_SYS_PTRACE), and kernel.yama.ptrace_scope is 0");
	facts.modules[0] = '\0';
	expect(&facts, "a security module of the kernel refuses it");
	facts.is_outside = true;
	expect(&facts, "in a user namespace");
	facts.yama = 3;
	expect(&facts, "ptrace_scope is 3");
	facts.wants_to_trace = false;
	expect(&facts, "in a user namespace");
}

static void names_what_root_without_the_capability_lacks(void **state)
{
	struct trace_facts facts = {
		.wants_to_trace = true, .own_capabilities = ALL & ~PTRACE, .capabilities = ALL
	};

	(void)state;
	expect(&facts, "it has capabilities that heapctl lacks (0x80000), and heapctl lacks "
		       "CAP_SYS_PTRACE");
	facts.capabilities &= ~PTRACE;
	expect(&facts, "PR_SET_DUMPABLE");
	facts.uids[0] = facts.uids[1] = facts.uids[2] = 65534;
	expect(&facts, "root lacks CAP_SYS_PTRACE here: run heapctl on the host");
}

static void names_the_user_first_for_others(void **state)
{
	struct trace_facts facts = { .wants_to_trace = true, .own_uid = 1000 };

	(void)state;
	expect(&facts, "run heapctl as that user or as root");
	facts.uids[0] = facts.uids[1] = facts.uids[2] = 1000;
	expect(&facts, "a security module");
	facts.yama = 1;
	expect(&facts, "kernel.yama.ptrace_scope is 1: run heapctl as root");
	facts.is_undumpable = true;
	expect(&facts, "PR_SET_DUMPABLE");
	/* A program with set-user-ID that has begun as this user. */
	facts.uids[2] = 0;
	expect(&facts, "run heapctl as that user or as root");
}

static void reads_its_own_facts(void **state)
{
	struct trace_facts facts;

	(void)state;
	trace_facts_read(getpid(), true, &facts);
	assert_int_equal(facts.uids[1], geteuid());
	assert_int_equal(facts.own_uid, geteuid());
	assert_false(facts.is_outside);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(blames_a_security_module_only_when_nothing_else_is_left),
	cmocka_unit_test(names_what_root_without_the_capability_lacks),
	cmocka_unit_test(names_the_user_first_for_others),
	cmocka_unit_test(reads_its_own_facts),
};

UNIT_MAIN(tests)
