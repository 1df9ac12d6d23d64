/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator/loaded_symbol.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "base/elf_file.h"
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

static void finds_a_symbol_by_the_old_hash_table(void **state)
{
	(void)state;
	const ElfW(Sym) table[] = { { 0 }, { .st_name = 1, .st_shndx = SHN_UNDEF },
		{ .st_name = 7, .st_shndx = 7, .st_value = 64 },
		{ .st_name = 1, .st_shndx = 7, .st_value = 32 } };
	/* One bucket, which begins with symbol 1; behind 1 comes 2, behind 2 comes 3. */
	const uint32_t hash[] = { 1, 4, 1, 0, 2, 3, 0 };
	const struct loaded_symbols symbols = {
		.table = table, .strings = "\0first\0second", .strings_size = 14, .old_hash = hash
	};
	assert_true(loaded_symbols_has_hash(&symbols));
	assert_ptr_equal(loaded_symbols_get(&symbols, "first"), &table[3]);
	assert_null(loaded_symbols_get(&symbols, "third"));
	assert_int_equal(elf_old_hash("printf"), 0x077905a6);
	assert_int_equal(elf_old_hash("a name of more than seven bytes"), 0x0e4c9973);
}

static void finds_the_module_of_an_address(void **state)
{
	(void)state;
	const void *const in_modules[] = { dlsym(RTLD_DEFAULT, "qsort"),
		dlsym(RTLD_DEFAULT, "__tls_get_addr"),
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
	cmocka_unit_test(finds_a_symbol_by_the_old_hash_table),
	cmocka_unit_test(finds_the_module_of_an_address),
};
UNIT_MAIN(tests)
