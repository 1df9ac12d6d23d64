/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/stacks.h"

#include "base/loaded_module.h"
#include "unwind/backtrace.h"

static struct {
	struct unwind_modules modules;
	struct unwind_cache cache;
	allocator_backtrace *before;
	bool taken_over;
} stacks;

#if defined(__x86_64__) || defined(__aarch64__)
static const bool has_walk = true;
#else
static const bool has_walk = false;
#endif

/* Within malloc. An empty stack is fine: the sample is counted without one. */
static void take_stack(void **addresses, unsigned *count, unsigned max)
{
	struct unwind_frame here = { 0 };

	UNWIND_HERE(&here);
	*count = (unsigned)unwind_backtrace(&stacks.modules, &stacks.cache, &here, addresses, max);
}

/* A static program has none without -Wl,--eh-frame-hdr: gcc registers its frames otherwise. */
static bool has_own_rows(void)
{
	const struct unwind_module *const module = unwind_list_find(
		atomic_load(&stacks.modules.list), (uint64_t)(uintptr_t)take_stack);

	return module != NULL && module->count > 0;
}

bool stacks_take_over(struct allocator *allocator, struct error *err)
{
	allocator_backtrace *before = NULL;
	bool changed = false;

	if (!has_walk)
		return error_set(err, ERROR_UNSUPPORTED, "no unwinder for this machine");
	if (!stacks.taken_over && !allocator_backtrace_get(allocator, &before, err))
		return false;
	/* Once there are tables, those of modules that were loaded since can wait for memory. */
	if (!unwind_modules_update(&stacks.modules, &changed, err))
		return stacks.taken_over;
	if (stacks.taken_over)
		return true;
	if (!has_own_rows())
		error_set(err, ERROR_UNSUPPORTED,
			"the program has no index of its unwind tables (--eh-frame-hdr)");
	if (!has_own_rows() || !allocator_backtrace_set(allocator, take_stack, err)) {
		unwind_modules_deinit(&stacks.modules);
		return false;
	}
	stacks.before = before;
	stacks.taken_over = true;
	return true;
}

void stacks_refresh(void)
{
	struct error ignored;
	bool changed = false;

	if (stacks.taken_over && !unwind_modules_update(&stacks.modules, &changed, &ignored)) {
		/* The old tables are still there. */
	}
}

void stacks_give_back(struct allocator *allocator)
{
	allocator_backtrace *now = NULL;
	struct error ignored;

	if (!stacks.taken_over)
		return;
	loaded_module_keep_own();
	if (!allocator_backtrace_get(allocator, &now, &ignored))
		return;
	if (now == take_stack && !allocator_backtrace_set(allocator, stacks.before, &ignored))
		return;
	stacks.taken_over = false;
	unwind_modules_deinit(&stacks.modules);
}

__attribute__((hot)) void stacks_after_fork(void)
{
	unwind_modules_after_fork(&stacks.modules);
}

void stacks_learn_thread(void)
{
	unwind_stack_learn();
}

void stacks_visit(void (*visit)(void *context, const struct stacks_module *module), void *context)
{
	unsigned epoch = 0;
	const struct unwind_list *const list = unwind_modules_enter(&stacks.modules, &epoch);

	for (size_t i = 0; list != NULL && i < list->count; i++) {
		const struct unwind_module *const module = &list->modules[i];
		visit(context, &(struct stacks_module){ .name = module->name,
				       .rows = module->count,
				       .code_bytes = module->code_bytes,
				       .covered_bytes = module->covered_bytes });
	}
	unwind_modules_leave(&stacks.modules, epoch);
}

bool stacks_are_ours(const struct allocator *allocator, const struct settings *settings)
{
	return stacks.taken_over ||
	       (has_walk && allocator->profiling.has_unwinder_hook && !settings->jemalloc_stacks);
}
