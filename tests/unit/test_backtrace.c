/* SPDX-License-Identifier: Apache-2.0 */
/* The walk of this process' own stacks, against the compiler's unwinder at the same places. */
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>
#include <unwind.h>

#include "unit.h"
#include "unwind/backtrace.h"

enum { FRAMES_MAX = 128 };

static struct unwind_modules modules;
static struct unwind_cache cache;

struct stack {
	void *addresses[FRAMES_MAX];
	size_t count;
};

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *context, void *argument)
{
	struct stack *const stack = argument;

	if (stack->count == FRAMES_MAX)
		return _URC_END_OF_STACK;
	stack->addresses[stack->count++] = (void *)_Unwind_GetIP(context);
	return _URC_NO_REASON;
}

/* NOLINTBEGIN(bugprone-signal-handler): the signals here come where nothing else is under way */

/* The caller's return address first, in both. */
__attribute__((noinline)) static void take(struct stack *own, struct stack *oracle)
{
	struct unwind_frame here = { 0 };

	UNWIND_HERE(&here);
	own->count = unwind_backtrace(&modules, &cache, &here, own->addresses, FRAMES_MAX);
	oracle->count = 0;
	_Unwind_Backtrace(add_frame, oracle);
	/* Its first frame is this function. */
	oracle->count--;
	memmove(oracle->addresses, oracle->addresses + 1,
		oracle->count * sizeof oracle->addresses[0]);
}

static void check_same(size_t min_frames)
{
	struct stack own, oracle;

	take(&own, &oracle);
	/* Where the compiler's unwinder continues behind the outermost frame, it finds a null. */
	while (oracle.count > 0 && oracle.addresses[oracle.count - 1] == NULL)
		oracle.count--;
	assert_true(own.count >= min_frames);
	assert_int_equal(own.count, oracle.count);
	assert_memory_equal(own.addresses, oracle.addresses, own.count * sizeof own.addresses[0]);
}

/* NOLINTEND(bugprone-signal-handler) */

__attribute__((noinline)) static int recurse(int depth, volatile char *above)
{
	/* A frame of no fixed size. */
	volatile char *const space = __builtin_alloca((size_t)(100 + depth * 8 % 700));

	space[0] = *above;
	if (depth == 0)
		check_same(40);
	else
		recurse(depth - 1, space);
	return space[0];
}

static void walk_equals_the_compilers_in_a_recursion(void **state)
{
	volatile char zero = 0;

	(void)state;
	recurse(40, &zero);
}

static int compare(const void *a, const void *b)
{
	static int calls;

	if (calls++ % 16 == 0)
		check_same(4);
	return *(const int *)a - *(const int *)b;
}

static void walk_goes_through_a_library(void **state)
{
	int numbers[64];

	(void)state;
	for (int i = 0; i < 64; i++)
		numbers[i] = i * 37 % 64;
	qsort(numbers, 64, sizeof numbers[0], compare);
}

static void *thread_main(void *argument)
{
	volatile char zero = 0;

	(void)argument;
	check_same(2);
	recurse(40, &zero);
	return NULL;
}

static void walk_ends_where_a_thread_begins(void **state)
{
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, thread_main, NULL), 0);
	pthread_join(thread, NULL);
}

static volatile sig_atomic_t handled;

static void handle(int number)
{
	(void)number;
	check_same(4);
	handled++;
}

static void raise_on(bool alternate)
{
	static char space[256 * 1024];
	const stack_t stack = { .ss_sp = space, .ss_size = sizeof space };
	struct sigaction action = { .sa_handler = handle, .sa_flags = alternate ? SA_ONSTACK : 0 };
	const int before = handled;

	assert_int_equal(sigaltstack(&stack, NULL), 0);
	assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
	raise(SIGUSR1);
	assert_int_equal(handled, before + 1);
	signal(SIGUSR1, SIG_DFL);
}

static void walk_passes_a_signal_handler(void **state)
{
	(void)state;
	raise_on(false);
}

static void walk_leaves_an_alternate_signal_stack(void **state)
{
	(void)state;
	raise_on(true);
}

#if defined(__x86_64__)
/*
 * As OpenSSL's assembly: the first keeps the stack pointer of before its call in a slot and calls
 * its argument; the others count from a scratch register, or a slot below the stack pointer, where
 * a signal interrupts them.
 */
__asm__(".text\n"
	"call_with_saved_sp:\n"
	".cfi_startproc\n"
	"	mov %rsp, %rax\n"
	"	sub $56, %rsp\n"
	"	.cfi_adjust_cfa_offset 56\n"
	"	mov %rax, 24(%rsp)\n"
	/* DW_CFA_def_cfa_expression: breg7 24, deref, plus_uconst 8 */
	"	.cfi_escape 0x0f, 5, 0x77, 24, 0x06, 0x23, 8\n"
	"	call *%rdi\n"
	"	mov 24(%rsp), %rsp\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	".cfi_endproc\n"
	"trap_with_saved_sp_below:\n"
	".cfi_startproc\n"
	"	mov %rsp, -24(%rsp)\n"
	"	lea -16(%rsp), %rsp\n"
	"	.cfi_escape 0x0f, 5, 0x77, 0x78, 0x06, 0x23, 8\n"
	"	int3\n"
	"	lea 16(%rsp), %rsp\n"
	"	.cfi_def_cfa %rsp, 8\n"
	"	ret\n"
	".cfi_endproc\n");
#define TRAP_WITH(register)                                                                                                                           \
	__asm__("trap_with_" #register ":\n"                                                                                                          \
				       ".cfi_startproc\n"                                                                                             \
				       "	lea 8(%rsp), %" #register "\n"                                                                        \
									  "	.cfi_def_cfa "                                                            \
									  "%" #register ", 0\n"                                                       \
											"	p"                                                          \
											"ush "                                                        \
											"%rbp\n"                                                      \
											"	."                                                          \
											"cfi_"                                                        \
											"offset "                                                     \
											"%rbp, "                                                      \
											"-16\n"                                                       \
											"	l"                                                          \
											"ea "                                                         \
											"-64(%"                                                       \
											"rsp), "                                                      \
											"%rsp\n"                                                      \
											"	x"                                                          \
											"or "                                                         \
											"%ebp, "                                                      \
											"%ebp\n"                                                      \
											"	i"                                                          \
											"nt3\n"                                                       \
											"	m"                                                          \
											"ov "                                                         \
											"-16("                                                        \
											"%" #register "), %rbp\n"                                     \
												      "	.cfi_restore %rbp\n"                          \
												      "	lea -8(%" #register "), %rsp\n"               \
															    "	.cfi_def_cfa %rsp, 8\n" \
															    "	ret\n"                  \
															    ".cfi_endproc\n");        \
	void trap_with_##register(void)
TRAP_WITH(rax);
TRAP_WITH(rcx);
TRAP_WITH(rsi);
TRAP_WITH(rdi);
TRAP_WITH(r8);
TRAP_WITH(r9);
TRAP_WITH(r10);
TRAP_WITH(r11);
void call_with_saved_sp(void (*function)(void));
void trap_with_saved_sp_below(void);

static void check_here(void)
{
	check_same(4);
}

static void walk_passes_a_saved_stack_pointer(void **state)
{
	(void)state;
	call_with_saved_sp(check_here);
}

static void walk_passes_what_a_signal_interrupts_in_assembly(void **state)
{
	void (*const traps[])(void) = { trap_with_saved_sp_below, trap_with_rax, trap_with_rcx,
		trap_with_rsi, trap_with_rdi, trap_with_r8, trap_with_r9, trap_with_r10,
		trap_with_r11 };

	(void)state;
	signal(SIGTRAP, handle);
	for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
		const int before = handled;
		traps[i]();
		assert_int_equal(handled, before + 1);
	}
	signal(SIGTRAP, SIG_DFL);
}

/* The library with most hand-written code; the rows of all others cover more. */
static void rows_cover_openssl(void **state)
{
	void *const library = dlopen("libcrypto.so.3", RTLD_NOW);
	struct error err;
	bool changed = false;

	(void)state;
	assert_non_null(library);
	assert_true(unwind_modules_update(&modules, &changed, &err));
	const struct unwind_module *const module = unwind_list_find(
		atomic_load(&modules.list), (uint64_t)(uintptr_t)dlsym(library, "EVP_sha256"));
	assert_non_null(module);
	assert_true(module->covered_bytes > module->code_bytes / 1000 * 998);
	dlclose(library);
}
#endif

static ucontext_t outside, inside;

static void coroutine(void)
{
	volatile char zero = 0;

	recurse(40, &zero);
	swapcontext(&inside, &outside);
}

static void walk_of_a_coroutine_stays_on_its_stack(void **state)
{
	const size_t size = 256 * 1024;
	char *const space = mmap(NULL, size + 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(space, MAP_FAILED);
	/* Between two pages that cannot be read. */
	assert_int_equal(mprotect(space + 4096, size, PROT_READ | PROT_WRITE), 0);
	getcontext(&inside);
	inside.uc_stack.ss_sp = space + 4096;
	inside.uc_stack.ss_size = size;
	inside.uc_link = &outside;
	makecontext(&inside, coroutine, 0);
	swapcontext(&outside, &inside);
	munmap(space, size + 8192);
}

static void walk_survives_any_frame(void **state)
{
	struct unwind_frame here = { 0 };
	void *addresses[FRAMES_MAX];
	uint64_t random = 1;

	(void)state;
	UNWIND_HERE(&here);
	const struct unwind_list *const list = atomic_load(&modules.list);
	for (int i = 0; i < 2000000; i++) {
		struct unwind_frame frame = here;
		random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
		const struct unwind_module *const module =
			&list->modules[(random >> 33) % list->count];
		frame.pc = module->begin + (random >> 20) % (module->end - module->begin);
		frame.sp += (random >> 50 & 511) * 8;
		if ((random >> 13 & 3) == 1)
			frame.fp = random;
		if ((random >> 13 & 3) == 2)
			frame.fp = frame.sp + (random >> 40 & 4095);
		if ((random >> 15 & 7) == 3)
			frame.sp = random & ~UINT64_C(7);
		assert_true(unwind_backtrace(&modules, &cache, &frame, addresses, FRAMES_MAX) <=
			    FRAMES_MAX);
	}
}

static void no_list_gives_no_frames(void **state)
{
	static struct unwind_modules none;
	struct unwind_frame here = { 0 };
	void *addresses[4];

	(void)state;
	UNWIND_HERE(&here);
	assert_int_equal(unwind_backtrace(&none, &cache, &here, addresses, 4), 0);
}

static void walk_stops_at_its_limit(void **state)
{
	struct unwind_frame here = { 0 };
	void *addresses[3] = { NULL, NULL, NULL };

	(void)state;
	UNWIND_HERE(&here);
	assert_int_equal(unwind_backtrace(&modules, &cache, &here, addresses, 2), 2);
	assert_null(addresses[2]);
}

static void update_follows_what_is_loaded(void **state)
{
	struct error err;
	bool changed = true;

	(void)state;
	assert_true(unwind_modules_update(&modules, &changed, &err));
	assert_false(changed);
	const size_t before = atomic_load(&modules.list)->count;
	void *const library = dlopen("libresolv.so.2", RTLD_NOW);
	assert_non_null(library);
	assert_true(unwind_modules_update(&modules, &changed, &err));
	assert_true(changed);
	const struct unwind_list *const list = atomic_load(&modules.list);
	assert_int_equal(list->count, before + 1);
	const uint64_t inside_it = (uint64_t)(uintptr_t)dlsym(library, "ns_get16");
	const struct unwind_module *const module = unwind_list_find(list, inside_it);
	assert_non_null(module);
	assert_true(module->count > 10);
	dlclose(library);
	assert_true(unwind_modules_update(&modules, &changed, &err));
	assert_true(changed);
	assert_int_equal(atomic_load(&modules.list)->count, before);
}

/* The rules of one address at a time are those of the table. */
static void rules_without_a_table_are_the_same(void **state)
{
	const struct unwind_module *const module =
		unwind_list_find(atomic_load(&modules.list), (uint64_t)(uintptr_t)qsort);

	(void)state;
	assert_non_null(module);
	assert_true(module->count > 1000);
	for (size_t i = 0; i < module->count; i += 7) {
		const struct unwind_row *const row = &module->rows[i];
		const struct unwind_rule rule = unwind_find_unlisted(module->base + row->pc);
		assert_memory_equal(&rule, &row->rule, sizeof rule);
	}
}

static _Atomic bool stop_walking;

static void *keep_walking(void *argument)
{
	_Atomic size_t *const walks = argument;
	volatile char zero = 0;

	while (!atomic_load(&stop_walking)) {
		recurse(40, &zero);
		atomic_fetch_add(walks, 1);
	}
	return NULL;
}

static void walks_continue_while_libraries_come_and_go(void **state)
{
	enum { THREADS = 3, ROUNDS = 60 };
	static _Atomic size_t walks[THREADS];
	pthread_t threads[THREADS];
	struct error err;

	(void)state;
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, keep_walking, &walks[i]), 0);
	for (int i = 0; i < ROUNDS; i++) {
		bool changed = false;
		void *const library = dlopen("libresolv.so.2", RTLD_NOW);
		assert_non_null(library);
		assert_true(unwind_modules_update(&modules, &changed, &err));
		assert_true(changed);
		dlclose(library);
		assert_true(unwind_modules_update(&modules, &changed, &err));
		assert_true(changed);
	}
	for (size_t i = 0; i < THREADS; i++) {
		while (atomic_load(&walks[i]) == 0)
			sched_yield();
	}
	atomic_store(&stop_walking, true);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(atomic_load(&modules.readers[0]), 0);
	assert_int_equal(atomic_load(&modules.readers[1]), 0);
}

static void *learn(void *argument)
{
	(void)argument;
	unwind_stack_learn();
	return NULL;
}

static int set_up(void **state)
{
	struct error err;
	pthread_t thread;
	bool changed = false;

	(void)state;
	if (pthread_create(&thread, NULL, learn, NULL) != 0)
		return -1;
	pthread_join(thread, NULL);
	return unwind_modules_update(&modules, &changed, &err) ? 0 : -1;
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(walk_equals_the_compilers_in_a_recursion),
	cmocka_unit_test(walk_goes_through_a_library),
	cmocka_unit_test(walk_ends_where_a_thread_begins),
	cmocka_unit_test(walk_passes_a_signal_handler),
	cmocka_unit_test(walk_leaves_an_alternate_signal_stack),
#if defined(__x86_64__)
	cmocka_unit_test(walk_passes_a_saved_stack_pointer),
	cmocka_unit_test(walk_passes_what_a_signal_interrupts_in_assembly),
	cmocka_unit_test(rows_cover_openssl),
#endif
	cmocka_unit_test(walk_of_a_coroutine_stays_on_its_stack),
	cmocka_unit_test(walk_survives_any_frame),
	cmocka_unit_test(no_list_gives_no_frames),
	cmocka_unit_test(walk_stops_at_its_limit),
	cmocka_unit_test(rules_without_a_table_are_the_same),
	cmocka_unit_test(update_follows_what_is_loaded),
	cmocka_unit_test(walks_continue_while_libraries_come_and_go),
};
UNIT_MAIN_WITH(tests, set_up)
