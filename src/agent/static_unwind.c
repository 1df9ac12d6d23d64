/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For fully static programs that are linked with -Wl,--wrap=_Unwind_Backtrace; in libheapctl.a.
 *
 * With prof:true jemalloc calls the compiler's unwinder at the first malloc. In a static program
 * that is while the C library starts: the unwinder cannot find the program's tables yet, and ends
 * the process. Until constructors run there are no stacks. A weak definition would not do: the
 * unwinder's object, which the C library needs anyway, has the name, too.
 */
#include <stdbool.h>
#include <unwind.h>

#define SHOWN __attribute__((visibility("default")))

/* NOLINTBEGIN(bugprone-reserved-identifier,readability-identifier-naming): names of the linker's */

/* NULL where the program is linked without the option. */
SHOWN __attribute__((weak)) _Unwind_Reason_Code __real__Unwind_Backtrace(
	_Unwind_Trace_Fn function, void *argument);
SHOWN _Unwind_Reason_Code __wrap__Unwind_Backtrace(_Unwind_Trace_Fn function, void *argument);

static bool has_started;

__attribute__((constructor(101))) static void start(void)
{
	has_started = true;
}

_Unwind_Reason_Code __wrap__Unwind_Backtrace(_Unwind_Trace_Fn function, void *argument)
{
	return has_started ? __real__Unwind_Backtrace(function, argument) : _URC_END_OF_STACK;
}

/* NOLINTEND(bugprone-reserved-identifier,readability-identifier-naming) */
