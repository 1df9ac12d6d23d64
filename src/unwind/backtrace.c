/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/backtrace.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum {
	PAGE = 4096,
	/* glibc's control block is 2.3 KiB, musl's 0.2. */
	CONTROL_BLOCK_BYTES = 2048,
	/* A main thread's stack, whose lower end moves, is believed so far and probed beyond. */
	MAIN_STACK_BYTES = 64 * 1024 * 1024,
	THREAD_STACK_BYTES_MAX = 1024 * 1024 * 1024,
	/* A walk of more stack than that on a stack that is not the thread's own is cut. */
	PROBES_MAX = 256,
};

/*
 * Where, from the thread pointer on, a control block has two words: the lowest address of the
 * thread's stack and its size. glibc's `stackblock`, musl's `map_base`. 0 while unknown.
 */
static _Atomic ptrdiff_t bounds_offset;

/* The main thread's control block, and an address above all of its frames; 0 while unknown. */
static _Atomic uintptr_t main_thread;
static _Atomic uint64_t main_top;

static const char *control_block(void)
{
	const char *const pointer = __builtin_thread_pointer();

#if defined(__aarch64__)
	/* The block lies below the thread pointer. */
	return pointer - CONTROL_BLOCK_BYTES;
#else
	return pointer;
#endif
}

static bool is_bounds(const uint64_t words[2], uint64_t on_stack, uint64_t block)
{
	return words[0] % PAGE == 0 && words[1] % PAGE == 0 && words[1] > 2 * PAGE &&
	       words[1] < THREAD_STACK_BYTES_MAX && words[0] <= on_stack && on_stack < block &&
	       block < words[0] + words[1];
}

static uintptr_t own_thread(void)
{
	return (uintptr_t)__builtin_thread_pointer();
}

/*
 * By a wait that ends at once, whatever is there: the kernel reads the word first, EFAULT. It is
 * the call by which a sandboxed malloc, and the sampler, wait for a lock.
 */
static bool is_readable(uint64_t address)
{
	enum { UNLIKELY_VALUE = 0x6c746368 };
	const struct timespec no_time = { 0 };
	const int errnum = errno;
	const long result =
		syscall(SYS_futex, address, FUTEX_WAIT_PRIVATE, UNLIKELY_VALUE, &no_time, NULL, 0);
	const bool readable =
		result == 0 || errno == EAGAIN || errno == ETIMEDOUT || errno == EINTR;

	errno = errnum;
	return readable;
}

/* That of musl's main thread is in its small static data, so what is behind it may not be mapped.
 */
static bool is_readable_block(const char *block)
{
	const uint64_t known = own_thread() / PAGE;
	const uint64_t ends[] = { (uint64_t)(uintptr_t)block,
		(uint64_t)(uintptr_t)block + CONTROL_BLOCK_BYTES - sizeof(uint64_t) };

	return (ends[0] / PAGE == known || is_readable(ends[0])) &&
	       (ends[1] / PAGE == known || is_readable(ends[1]));
}

/* Not of glibc's main thread, whose control block is not on its stack. */
static ptrdiff_t find_bounds(void)
{
	const char *const block = control_block();
	uint64_t words[2];

	if (!is_readable_block(block))
		return 0;
	for (ptrdiff_t at = sizeof words[0]; at + (ptrdiff_t)sizeof words <= CONTROL_BLOCK_BYTES;
		at += sizeof words[0]) {
		memcpy(words, block + at, sizeof words);
		if (is_bounds(words, (uint64_t)(uintptr_t)&words, own_thread())) {
			atomic_store(&bounds_offset, at);
			return at;
		}
	}
	return 0;
}

static void note_main_thread(void)
{
	/* What the kernel puts there lies above the first frame. */
	atomic_store(&main_top, getauxval(AT_RANDOM) & ~UINT64_C(7));
	atomic_store(&main_thread, own_thread());
}

#ifdef HEAPCTL_STATIC_IMAGE
/* The agent's threads are of another C library than those whose stacks are walked. */
void unwind_stack_learn(void)
{
}

static bool is_main_thread(void)
{
	if (atomic_load_explicit(&main_thread, memory_order_relaxed) == 0 &&
		syscall(SYS_gettid) == getpid())
		note_main_thread();
	return atomic_load_explicit(&main_thread, memory_order_relaxed) == own_thread();
}
#else
void unwind_stack_learn(void)
{
	if (syscall(SYS_gettid) == getpid())
		note_main_thread();
	else
		find_bounds();
}

static bool is_main_thread(void)
{
	return atomic_load_explicit(&main_thread, memory_order_relaxed) == own_thread();
}
#endif

void unwind_stack_move(struct unwind_stack *stack, uint64_t sp)
{
	if (sp >= stack->begin && sp < stack->end)
		return;
	if (sp < stack->own_top && stack->own_top - sp <= stack->own_reach) {
		stack->begin = sp;
		stack->end = stack->own_top;
		return;
	}
	stack->begin = stack->end = 0;
}

void unwind_stack_init(struct unwind_stack *stack, uint64_t sp)
{
	const bool is_main = is_main_thread();
	ptrdiff_t offset = atomic_load_explicit(&bounds_offset, memory_order_relaxed);

	*stack = (struct unwind_stack){ 0 };
	if (offset == 0 && !is_main)
		offset = find_bounds();
	if (is_main) {
		stack->own_top = atomic_load_explicit(&main_top, memory_order_relaxed);
		stack->own_reach = MAIN_STACK_BYTES;
	} else if (offset != 0) {
		uint64_t words[2];
		memcpy(words, control_block() + offset, sizeof words);
		/* glibc's main thread has no lowest address, and its end for a size. */
		stack->own_top = (words[0] + words[1]) & ~UINT64_C(7);
		stack->own_reach = words[0] == 0 ? MAIN_STACK_BYTES : words[1];
	}
	unwind_stack_move(stack, sp);
}

bool unwind_stack_extend(struct unwind_stack *stack, uint64_t address)
{
	const uint64_t page = address & ~(uint64_t)(PAGE - 1);

	/* Nothing of a frame on the thread's own stack lies elsewhere. */
	if (stack->end != 0 && stack->end == stack->own_top)
		return false;
	if (stack->probes == PROBES_MAX)
		return false;
	stack->probes++;
	if (!is_readable(address))
		return false;
	if (page != stack->end)
		stack->begin = page;
	stack->end = page + PAGE;
	return true;
}

enum {
	/* Frames of code without rules between two with. */
	CHAIN_MAX = 64,
};

static uint64_t mix(uint64_t key)
{
	key *= UINT64_C(0x9e3779b97f4a7c15);
	return key ^ key >> 32;
}

/*
 * The instructions through which a signal handler returns have no rule in the kernel's page on
 * aarch64, and in musl. So they are known by what they are, as in libgcc. glibc's have a rule on
 * x86-64, where no code is read: another thread may be unmapping it.
 */
#if defined(__aarch64__) || !defined(__GLIBC__)
static bool is_signal_return(uint64_t pc)
{
	enum { FUTEX_ALIGNMENT = 4 };
#if defined(__aarch64__)
	/* mov x8, #139; svc #0 */
	static const uint8_t code[] = { 0x68, 0x11, 0x80, 0xd2, 0x01, 0x00, 0x00, 0xd4 };
#else
	/* mov $15, %rax; syscall */
	static const uint8_t code[] = { 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05 };
#endif
	const uint64_t first = pc - pc % FUTEX_ALIGNMENT, last = pc + sizeof code - 1;

	return is_readable(first) &&
	       (first / PAGE == last / PAGE || is_readable(last - last % FUTEX_ALIGNMENT)) &&
	       memcmp((const void *)(uintptr_t)pc, code, sizeof code) == 0;
}
#else
static bool is_signal_return(uint64_t pc)
{
	(void)pc;
	return false;
}
#endif

static struct unwind_rule search(const struct unwind_list *list, const struct unwind_frame *frame)
{
	const uint64_t pc = unwind_lookup_pc(frame);
	const struct unwind_module *const module = unwind_list_find(list, pc);
	struct unwind_rule rule = { .cfa = UNWIND_CFA_NONE };

	if (module == NULL)
		rule = unwind_find_unlisted(pc);
	else if (pc - module->base <= UINT32_MAX)
		rule = unwind_table_find(
			module->rows, module->count, (uint32_t)(pc - module->base));
	if (rule.cfa == UNWIND_CFA_NONE && is_signal_return(frame->pc))
		rule = (struct unwind_rule){ .cfa = UNWIND_CFA_SIGNAL };
	return rule;
}

static inline struct unwind_rule find_rule(struct unwind_cache *cache,
	const struct unwind_list *list, const struct unwind_frame *frame)
{
	const uint64_t pc = unwind_lookup_pc(frame);
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
	rule = search(list, frame);
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
		const struct unwind_rule rule = find_rule(cache, list, &frame);
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
