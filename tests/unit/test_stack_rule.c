/* SPDX-License-Identifier: Apache-2.0 */
/* Which stacks prove that a thread may call pthread_create(). */
#include "inject/stack_rule.h"

#include <string.h>

#include "unit.h"

/*
 * A stack by letters, innermost first: c code, l C library, w a function of it that waits, j one
 * that takes a lock after its wait, o the loader, a allocator, m program with a malloc, u unknown
 * code, s signal handler, r what was not read. '$' at the end: walked to its end.
 */
static struct thread_stack make(const char *letters, bool is_in_call)
{
	static const char names[] = "clwjoamusr";
	static const enum stack_kind kinds[] = { STACK_CODE, STACK_LIBC, STACK_WAITING,
		STACK_JOINING, STACK_LOADER, STACK_ALLOCATOR, STACK_WITH_MALLOC, STACK_UNKNOWN,
		STACK_SIGNAL, STACK_UNREAD };
	struct thread_stack stack = { .is_in_call = is_in_call };

	for (; *letters != '\0' && *letters != '$'; letters++)
		stack.kinds[stack.count++] = kinds[strchr(names, *letters) - names];
	stack.is_complete = *letters == '$';
	return stack;
}

static void assert_safe(const char *letters, bool is_in_call)
{
	const struct thread_stack stack = make(letters, is_in_call);
	const char *const refusal = stack_refusal(&stack);

	if (refusal != NULL)
		fail_msg("%s: %s", letters, refusal);
}

static void assert_refused(const char *letters, bool is_in_call, const char *expected)
{
	const struct thread_stack stack = make(letters, is_in_call);
	const char *const refusal = stack_refusal(&stack);

	if (refusal == NULL)
		fail_msg("%s is safe", letters);
	assert_string_equal(refusal, expected);
}

static void code_with_nothing_else_below(void **state)
{
	(void)state;
	assert_safe("cc$", false);
	assert_safe("cccllc$", false); /* main, started by the C library from _start */
	assert_safe("ccll$", false);   /* a thread */
	assert_refused("cc", false, "has a stack that cannot be walked to its end");
	assert_refused("", false, "has a stack that cannot be walked to its end");
	assert_refused("cuc$", false, "runs code that was made at run time");
	assert_refused("mmllc$", false, "may be in the program's own malloc");
}

static void a_waiting_function_in_a_system_call(void **state)
{
	(void)state;
	assert_safe("lwccllc$", true); /* by an inner function */
	assert_safe("wcc", true);
	assert_safe("wu", true); /* called by code made at run time */
	assert_safe("wmmllc$", true);
	assert_refused("wccllc$", false, "is in the C library");
	/* An inner poll() of getaddrinfo(): the function that the program has called decides. */
	assert_refused("wlccllc$", true, "is in the C library");
	assert_refused("lccll$", true, "is in the C library");
}

static void what_holds_a_lock_below(void **state)
{
	(void)state;
	assert_refused("wcaccll$", true, "is in the allocator");
	assert_refused("acc$", false, "is in the allocator");
	assert_refused("wcoccllc$", true, "is loading a library");
	assert_refused("occ$", false, "is loading a library");
	assert_refused("wr", true, "has a stack that cannot be walked to its end");
	assert_refused("wcsllccll$", true, "is in a signal handler");
	assert_refused("wcsaccll$", true, "is in a signal handler");
	assert_refused("wcsoccll$", true, "is in a signal handler");
	assert_refused("wcsmccll$", true, "is in a signal handler");
	assert_refused("wcswlccll$", true, "is in a signal handler");
	assert_refused("wcswccscacc$", true, "is in a signal handler");
	assert_refused("csllccll$", false, "is in a signal handler");
	/* A comparison that qsort() has called. */
	assert_refused("clccllc$", false, "is in the C library");
	assert_refused("wclccllc$", true, "is in the C library");
}

static void a_handler_that_interrupted_no_lock(void **state)
{
	(void)state;
	assert_safe("wcswccllc$", true);
	assert_safe("wcslwccllc$", true);
	assert_safe("wcswmmllc$", true);
	assert_safe("wcsccll$", true);
	assert_safe("ccsccll$", false);
	assert_safe("wcscswccll$", true);
	/* The handler itself is not in that call any more. */
	assert_refused("wcswccllc$", false, "is in the C library");
	assert_refused("acswccllc$", false, "is in the allocator");
	/* What is not seen may hold a lock. */
	assert_refused("wcswcc", true, "is in a signal handler");
	assert_refused("wcs", true, "is in a signal handler");
	assert_refused("wcs$", true, "is in a signal handler");
	assert_refused("wcsll$", true, "is in a signal handler");
}

static void a_function_that_takes_a_lock_after_its_wait(void **state)
{
	struct thread_stack stack = make("ljccllc$", true);

	(void)state;
	/* In another system call: it releases the stack of a thread that it has joined. */
	assert_string_equal(stack_refusal(&stack), "is in the C library");
	stack.is_in_futex = true;
	assert_null(stack_refusal(&stack));
	/* Where a handler has interrupted it, it may be at any instruction. */
	stack = make("wcsljccllc$", true);
	stack.is_in_futex = true;
	assert_string_equal(stack_refusal(&stack), "is in a signal handler");
}

static void what_will_not_return_to_the_code(void **state)
{
	enum { CODE = 0x1000, SIZE = 0x100 };
	struct thread_stack stack = make("wc$", true);

	(void)state;
	stack.pcs[0] = CODE + SIZE + 1;
	stack.pcs[1] = CODE - 1;
	assert_true(stack_is_outside(&stack, CODE, SIZE, false));
	stack.pcs[1] = CODE + SIZE; /* behind its last call */
	assert_false(stack_is_outside(&stack, CODE, SIZE, true));

	stack = make("wc", true);
	assert_true(stack_is_outside(&stack, CODE, SIZE, true));
	assert_false(stack_is_outside(&stack, CODE, SIZE, false));
	/* Below a handler there may be more. */
	stack = make("wcsu", true);
	assert_false(stack_is_outside(&stack, CODE, SIZE, true));
	stack = make("wr", true);
	assert_false(stack_is_outside(&stack, CODE, SIZE, true));
	stack = make("wcsc$", true);
	assert_true(stack_is_outside(&stack, CODE, SIZE, true));
}

static void the_end_of_a_coroutine(void **state)
{
	struct stack_waiting waiting = { .makecontext = 0x401000, .makecontext_size = 16 };
	const int32_t distance = -0x807;

	(void)state;
	/* lea -0x807(%rip), %rcx at 0x401005 */
	memcpy(waiting.makecontext_code + 5, "\x48\x8d\x0d", 3);
	memcpy(waiting.makecontext_code + 8, &distance, sizeof distance);
	assert_true(stack_is_context_end(&waiting, 0x40100c - 0x807));
	assert_false(stack_is_context_end(&waiting, 0x40100c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(code_with_nothing_else_below),
		cmocka_unit_test(a_waiting_function_in_a_system_call),
		cmocka_unit_test(what_holds_a_lock_below),
		cmocka_unit_test(a_handler_that_interrupted_no_lock),
		cmocka_unit_test(a_function_that_takes_a_lock_after_its_wait),
		cmocka_unit_test(what_will_not_return_to_the_code),
		cmocka_unit_test(the_end_of_a_coroutine),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
