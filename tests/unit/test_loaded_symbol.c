/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator/loaded_symbol.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "sampler/entries.h"
#include "unit.h"

static void finds_what_the_loader_finds(void **state)
{
	(void)state;
	assert_ptr_equal(loaded_symbol_of_program("malloc"), dlsym(RTLD_DEFAULT, "malloc"));
	assert_ptr_equal(loaded_symbol_of_program("_cmocka_run_group_tests"),
		dlsym(RTLD_DEFAULT, "_cmocka_run_group_tests"));
	assert_ptr_equal(entries_definition("dlopen"), dlsym(RTLD_DEFAULT, "dlopen"));
	assert_null(loaded_symbol_of_program("heapctl_has_no_such_function"));
}

/* A failing dlsym takes memory for the text of its error, which dlerror gives. */
static void misses_a_name_without_the_loaders_error(void **state)
{
	(void)state;
	(void)dlerror();
	assert_null(entries_definition("heapctl_has_no_such_function"));
	assert_null(loaded_symbol_of_program("heapctl_has_no_such_function"));
	assert_null(dlerror());
}

static void finds_several_at_once(void **state)
{
	(void)state;
	struct loaded_lookup lookups[] = { { .name = "free" },
		{ .name = "heapctl_has_no_such_function" }, { .name = "calloc" } };
	assert_true(loaded_symbols_find(lookups, 3));
	assert_ptr_equal(lookups[0].found, loaded_symbol_find("free"));
	assert_null(lookups[1].found);
	assert_ptr_equal(lookups[2].found, loaded_symbol_find("calloc"));
}

static void finds_the_module_of_an_address(void **state)
{
	(void)state;
	const void *const in_modules[] = { dlsym(RTLD_DEFAULT, "qsort"),
		dlsym(RTLD_DEFAULT, "_cmocka_run_group_tests"),
		__extension__(void *) finds_the_module_of_an_address,
		(const void *)getauxval(AT_PHDR) };
	for (size_t i = 0; i < sizeof in_modules / sizeof *in_modules; i++) {
		Dl_info info;
		assert_int_not_equal(dladdr(in_modules[i], &info), 0);
		assert_ptr_equal(loaded_module_base(in_modules[i]), info.dli_fbase);
	}
	assert_null(loaded_module_base(NULL));
	assert_null(loaded_module_base(&in_modules));
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(finds_what_the_loader_finds),
	cmocka_unit_test(misses_a_name_without_the_loaders_error),
	cmocka_unit_test(finds_several_at_once),
	cmocka_unit_test(finds_the_module_of_an_address),
};
UNIT_MAIN(tests)
