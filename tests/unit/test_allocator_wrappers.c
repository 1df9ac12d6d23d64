/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/allocator_wrappers.h"

#include "analysis/allocator_frames.h"
#include "analysis/view_builder.h"
#include "base/xalloc.h"
#include "profile_texts.h"
#include "unit.h"

static void names_say_what_may_be_a_wrapper(void **state)
{
	(void)state;
	static const char *const sure[] = { "zmalloc", "xcalloc", "g_malloc", "g_malloc0_n",
		"my_malloc", "ztryrealloc_usable_internal", "palloc0", "repalloc", "ngx_palloc",
		"ngx_alloc", "ngx_pcalloc", "AllocSetAlloc", "MemoryContextAllocZero",
		"PyObject_Malloc", "_PyMem_RawMalloc", "CRYPTO_zalloc", "av_mallocz",
		"sqlite3DbMallocRawNN", "zmalloc.part.0", "alloc::alloc::alloc",
		"alloc::boxed::box_new_uninit", "alloc::boxed::Box<T>::new",
		"alloc::raw_vec::RawVec<T,A>::grow_one", "__rust_alloc",
		"<alloc::alloc::Global as core::alloc::Allocator>::allocate",
		"<alloc::alloc::Global>::alloc_impl_runtime",
		"hashbrown::raw::alloc::inner::do_alloc",
		"<tikv_jemallocator::Jemalloc as core::alloc::global::GlobalAlloc>::alloc",
		"std::__new_allocator<int>::allocate(unsigned long, void const*)",
		"std::allocator_traits<std::allocator<int> >::allocate(std::allocator<int>&)",
		"void* fallback_impl<false>(unsigned long)", "app::tracked_malloc(unsigned long)",
		"alloc::vec::Vec<T,A>::with_capacity_in", "alloc::string::String::with_capacity",
		"<alloc::vec::Vec<u8>>::with_capacity", "alloc::vec::from_elem",
		"<T as alloc::vec::spec_from_elem::SpecFromElem>::from_elem",
		"<T as alloc::slice::<impl [T]>::to_vec_in::ConvertVec>::to_vec",
		"<T as alloc::slice::hack::ConvertVec>::to_vec", "alloc::slice::<impl [T]>::to_vec",
		"alloc::sync::Arc<T>::new", "<alloc::boxed::Box<app::Node>>::new",
		"alloc::rc::Rc<T>::new", "hashbrown::raw::RawTable<T,A>::new_uninitialized",
		"std::collections::hash::map::HashMap<K,V>::with_capacity",
		"Allocator<false>::alloc(unsigned long, unsigned long)",
		"arrow::SlabAllocator::allocate(unsigned long)" };
	static const char *const weak[] = { "conn_alloc", "Pool::Allocate(unsigned long)" };
	static const char *const none[] = { "main", "", "dict_expand", "tuple_dealloc",
		"posix_fallocate", "mallocator_benchmark", "std::vector<int>::push_back(int&&)",
		"malloc_stats_print", "alloc::vec::Vec<T>::push", "allocate_everything_then_run",
		"app::Cache::with_capacity", "app::Cache::new", "server::Buffer::to_vec",
		"alloc::vec::Vec<T,A>::extend_from_slice" };

	for (size_t i = 0; i < sizeof sure / sizeof *sure; i++)
		if (wrapper_name_judge(sure[i]) != WRAPPER_NAME_SURE)
			fail_msg("%s", sure[i]);
	for (size_t i = 0; i < sizeof weak / sizeof *weak; i++)
		if (wrapper_name_judge(weak[i]) != WRAPPER_NAME_WEAK)
			fail_msg("%s", weak[i]);
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		if (wrapper_name_judge(none[i]) != WRAPPER_NAME_NONE)
			fail_msg("%s", none[i]);
}

/* What a report shows of stacks as "root;leaf COUNT". `prune_from` may be NULL. */
static void assert_shown_from(
	const char *stacks, enum stack_pruning pruning, const char *prune_from, const char *wanted)
{
	CLEANUP(buffer_deinit) struct buffer out = { 0 };
	const struct filter_text everything = { .prune_from = prune_from };
	CLEANUP(filter_cleanup) struct filter *filter = NULL;
	CLEANUP(profile_cleanup) struct profile *profile = must_read_text(stacks);
	struct view *view = NULL;
	struct error err = { 0 };

	buffer_init(&out, &memory_or_exit);
	assert_true(filter_new(&everything, &filter, &err));
	const struct view_request request = {
		.filter = filter, .counter = PROFILE_INUSE_SPACE, .pruning = pruning
	};
	const struct view_input input = { profile, false };
	assert_true(view_build(&input, 1, &request, &view, &err));
	for (size_t i = 0; i < view->path_count; i++) {
		const struct view_path *const path = &view->paths[i];
		for (uint32_t at = 0; at < path->depth; at++)
			buffer_printf(&out, "%s%s", at == 0 ? "" : ";",
				view->nodes[view->path_nodes[path->first + at]].name);
		buffer_append_char(&out, '\n');
	}
	assert_string_equal(buffer_string(&out), wanted);
	view_free(view);
}

static void assert_shown(const char *stacks, enum stack_pruning pruning, const char *wanted)
{
	assert_shown_from(stacks, pruning, NULL, wanted);
}

static void callers_of_wrappers_are_the_leaves(void **state)
{
	(void)state;
	static const char stacks[] = "main;load;zmalloc;malloc 10\n"
				     "main;load;zcalloc;zmalloc;malloc 10\n"
				     "main;parse;grow;zrealloc;je_realloc 10\n";

	assert_shown(stacks, PRUNE_WRAPPERS, "main;load\nmain;parse;grow\n");
	assert_shown(stacks, PRUNE_ALLOCATOR,
		"main;load;zmalloc\nmain;load;zcalloc;zmalloc\nmain;parse;grow;zrealloc\n");
	assert_shown(stacks, PRUNE_NOTHING,
		"main;load;zmalloc;malloc\nmain;load;zcalloc;zmalloc;malloc\n"
		"main;parse;grow;zrealloc;je_realloc\n");
}

/* It allocates itself, but it also calls a function that does. */
static void a_function_that_calls_other_code_is_no_wrapper(void **state)
{
	(void)state;
	assert_shown("main;my_malloc;malloc 10\n"
		     "main;my_malloc;start_log;xmalloc;malloc 10\n"
		     "main;read;outer_malloc;my_malloc;malloc 10\n",
		PRUNE_WRAPPERS,
		"main;my_malloc\nmain;my_malloc;start_log\nmain;read;outer_malloc;my_malloc\n");
}

static void weak_names_need_callers(void **state)
{
	(void)state;
	assert_shown("main;accept;conn_alloc;malloc 1\n"
		     "main;a;pool_alloc;malloc 1\nmain;b;pool_alloc;malloc 1\n"
		     "main;c;pool_alloc;malloc 1\n",
		PRUNE_WRAPPERS, "main;accept;conn_alloc\nmain;a\nmain;b\nmain;c\n");
}

static void a_function_without_a_name_is_a_wrapper_among_wrappers(void **state)
{
	(void)state;
	assert_shown("main;scan;palloc;[pg]+0x10;malloc 1\n"
		     "main;sort;repalloc;[pg]+0x20;[pg]+0x10;malloc 1\n"
		     "main;[pg]+0x30;malloc 1\n",
		PRUNE_WRAPPERS, "main;scan\nmain;sort\nmain;[pg]+0x30\n");
	/* The program calls it, too. */
	assert_shown("main;scan;palloc;[pg]+0x10;malloc 1\nmain;parse;[pg]+0x10;malloc 1\n",
		PRUNE_WRAPPERS, "main;scan;palloc;[pg]+0x10\nmain;parse;[pg]+0x10\n");
	/* It calls other code. */
	assert_shown("main;palloc;[pg]+0x10;malloc 1\nmain;palloc;[pg]+0x10;log;malloc 1\n",
		PRUNE_WRAPPERS, "main;palloc;[pg]+0x10\nmain;palloc;[pg]+0x10;log\n");
	assert_shown("[pg]+0x20;[pg]+0x10;malloc 1\n", PRUNE_WRAPPERS, "[pg]+0x20;[pg]+0x10\n");
}

static void a_stack_of_wrappers_alone_is_not_empty(void **state)
{
	(void)state;
	assert_shown("zcalloc;zmalloc;malloc 1\nmain;zmalloc;malloc 1\n", PRUNE_WRAPPERS,
		"zcalloc\nmain\n");
}

static void wrappers_that_were_inlined_are_cut_off_too(void **state)
{
	(void)state;
	static const char text[] =
		"--- symbol\n"
		"binary=/bin/server\n"
		"0x0f main\n"
		"0x1f serve--std::allocator_traits::allocate--"
		"std::__new_allocator::allocate\n"
		"0x2f malloc\n"
		"---\n"
		"--- heap\n"
		"heap_v2/1\n"
		"  t*: 1: 1048576 [0: 0]\n"
		"@ 0x30 0x20 0x10\n"
		"  t*: 1: 1048576 [0: 0]\n"
		"\nMAPPED_LIBRARIES:\n0-1000 r-xp 00000000 00:00 1 /bin/server\n";

	assert_shown(text, PRUNE_WRAPPERS, "main;serve\n");
	assert_shown(text, PRUNE_ALLOCATOR,
		"main;serve;std::allocator_traits::allocate (inline);"
		"std::__new_allocator::allocate (inline)\n");
	/* Which are no longer there for prune_from. */
	assert_shown_from(text, PRUNE_WRAPPERS, "^(main|.*::allocate)$", "main\n");
	assert_shown_from(text, PRUNE_ALLOCATOR, "^(main|.*_traits::allocate)$",
		"main;serve;std::allocator_traits::allocate (inline)\n");
}

/* Its entries often jump to these, and are not in the stack then. */
static void knows_functions_that_the_entries_of_jemalloc_jump_to(void **state)
{
	static const char *const names[] = { "do_rallocx", "do_realloc_nonnull",
		"do_realloc_nonnull_zero", "irallocx_prof", "imalloc_body",
		"_rjem_je_prof_tctx_create" };

	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		assert_true(allocator_frame_has_name(PROFILE_HEAP, names[i]));
	assert_false(allocator_frame_has_name(PROFILE_HEAP, "do_something"));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(knows_functions_that_the_entries_of_jemalloc_jump_to),
	cmocka_unit_test(names_say_what_may_be_a_wrapper),
	cmocka_unit_test(callers_of_wrappers_are_the_leaves),
	cmocka_unit_test(a_function_that_calls_other_code_is_no_wrapper),
	cmocka_unit_test(weak_names_need_callers),
	cmocka_unit_test(a_function_without_a_name_is_a_wrapper_among_wrappers),
	cmocka_unit_test(a_stack_of_wrappers_alone_is_not_empty),
	cmocka_unit_test(wrappers_that_were_inlined_are_cut_off_too),
};
UNIT_MAIN(tests)
