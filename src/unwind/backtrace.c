/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/backtrace.h"

#include <string.h>

#include "unwind/stack_memory.h"

enum {
	/* Frames of code without rules between two with. */
	CHAIN_MAX = 64,
};

static uint64_t mix(uint64_t key)
{
	key *= UINT64_C(0x9e3779b97f4a7c15);
	return key ^ key >> 32;
}

static struct unwind_rule search(const struct unwind_list *list, uint64_t pc)
{
	const struct unwind_module *const module = unwind_list_find(list, pc);

	if (module == NULL)
		return unwind_find_unlisted(pc);
	if (pc - module->base > UINT32_MAX)
		return (struct unwind_rule){ .cfa = UNWIND_CFA_NONE };
	return unwind_table_find(module->rows, module->count, (uint32_t)(pc - module->base));
}

static inline struct unwind_rule find_rule(
	struct unwind_cache *cache, const struct unwind_list *list, uint64_t pc)
{
	/* Addresses of a process have 47 bits, or 48. */
	const uint64_t key = pc | (uint64_t)list->generation << 48;
	const uint64_t mixed = mix(key);
	const size_t at = (mixed >> 20) % UNWIND_CACHE_ENTRIES;
	struct unwind_rule rule;

	const uint64_t found = atomic_load_explicit(&cache->entries[at].rule, memory_order_relaxed);
	if (atomic_load_explicit(&cache->entries[at].key, memory_order_relaxed) == key &&
		found >> 32 == (uint32_t)mixed) {
		const uint32_t word = (uint32_t)found;
		memcpy(&rule, &word, sizeof rule);
		return rule;
	}
	rule = search(list, pc);
	uint32_t word = 0;
	memcpy(&word, &rule, sizeof word);
	atomic_store_explicit(&cache->entries[at].key, key, memory_order_relaxed);
	atomic_store_explicit(&cache->entries[at].rule, word | mixed << 32, memory_order_relaxed);
	return rule;
}

size_t unwind_backtrace(struct unwind_modules *modules, struct unwind_cache *cache,
	const struct unwind_frame *start, void **addresses, size_t max)
{
	struct unwind_frame frame = *start;
	struct unwind_stack stack;
	size_t count = 0, proven = 0, chained = 0;
	unsigned epoch = 0;

	const struct unwind_list *const list = unwind_modules_enter(modules, &epoch);
	unwind_stack_init(&stack, frame.sp);
	frame.is_exact_pc = true;
	while (list != NULL && count < max) {
		const struct unwind_rule rule = find_rule(cache, list, unwind_lookup_pc(&frame));
		if (rule.cfa != UNWIND_CFA_NONE) {
			/* The chain, if it was followed, has led back to code that is known. */
			proven = count;
			chained = 0;
			if (!unwind_step(
				    UNWIND_OWN_MACHINE, rule, &frame, unwind_stack_read, &stack))
				break;
		} else if (chained++ == CHAIN_MAX || !unwind_step_chain(UNWIND_OWN_MACHINE, &frame,
							     unwind_stack_read, &stack)) {
			break;
		}
		if (chained == 0)
			proven = count + 1;
		unwind_stack_move(&stack, frame.sp);
		addresses[count++] = (void *)(uintptr_t)frame.pc;
	}
	unwind_modules_leave(modules, epoch);
	return proven;
}
