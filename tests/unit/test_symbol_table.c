/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_table.h"

#include <string.h>

#include "elf_builder.h"
#include "unit.h"

struct entry {
	const char *name;
	uint64_t start;
	uint64_t size;
	unsigned char binding;
	unsigned char type;
};

/* A file with a .symtab of these symbols. */
static void build(struct elf_builder *builder, const struct entry *entries, size_t count)
{
	struct buffer symbols;
	struct buffer names;
	static const Elf64_Sym none;

	buffer_init(&symbols, &memory_heap);
	buffer_init(&names, &memory_heap);
	elf_builder_init(builder);
	const size_t code = elf_builder_add_code(builder, 0x1000, 0x1000);
	buffer_append(&symbols, &none, sizeof none);
	buffer_append_char(&names, '\0');
	for (size_t i = 0; i < count; i++) {
		const Elf64_Sym symbol = {
			.st_name = (Elf64_Word)names.size,
			.st_info =
				(unsigned char)ELF64_ST_INFO(entries[i].binding, entries[i].type),
			.st_shndx = (Elf64_Section)code,
			.st_value = entries[i].start,
			.st_size = entries[i].size,
		};
		buffer_append(&names, entries[i].name, strlen(entries[i].name) + 1);
		buffer_append(&symbols, &symbol, sizeof symbol);
	}
	const Elf64_Shdr strings = { .sh_type = SHT_STRTAB };
	const size_t strings_at =
		elf_builder_add(builder, ".strtab", &strings, names.data, names.size);
	const Elf64_Shdr table = { .sh_type = SHT_SYMTAB,
		.sh_link = (Elf64_Word)strings_at,
		.sh_entsize = sizeof(Elf64_Sym) };
	elf_builder_add(builder, ".symtab", &table, symbols.data, symbols.size);
	elf_builder_finish(builder);
	buffer_deinit(&symbols);
	buffer_deinit(&names);
}

static void assert_names(const struct entry *entries, size_t entry_count, const uint64_t *vaddrs,
	const char *const *expected, size_t count)
{
	struct elf_builder builder;
	struct elf_image image;
	struct error err;
	struct symbol_match matches[16] = { 0 };

	build(&builder, entries, entry_count);
	assert_true(elf_image_over("test", builder.out.data, builder.out.size, NULL, &image, &err));
	assert_true(symbol_table_exists(&image, ".symtab"));
	assert_false(symbol_table_exists(&image, ".dynsym"));
	symbol_table_match(&image, ".symtab", vaddrs, count, matches);
	for (size_t i = 0; i < count; i++) {
		if (expected[i] == NULL)
			assert_null(matches[i].name);
		else
			assert_string_equal(matches[i].name, expected[i]);
	}
	elf_image_close(&image);
	elf_builder_deinit(&builder);
}

static void names_only_addresses_inside_a_symbol(void **state)
{
	(void)state;
	static const struct entry entries[] = {
		{ "first", 0x1000, 0x10, STB_GLOBAL, STT_FUNC },
		{ "second", 0x1020, 0x10, STB_LOCAL, STT_FUNC },
		{ "sizeless", 0x1040, 0, STB_GLOBAL, STT_FUNC },
		{ "data", 0x1050, 0x10, STB_GLOBAL, STT_OBJECT },
	};
	static const uint64_t vaddrs[] = { 0xfff, 0x1000, 0x100f, 0x1010, 0x1020, 0x1040, 0x1055 };
	static const char *const expected[] = { NULL, "first", "first", NULL, "second", NULL,
		NULL };
	assert_names(entries, 4, vaddrs, expected, 7);
}

static void chooses_the_innermost_of_nested_symbols(void **state)
{
	(void)state;
	static const struct entry entries[] = {
		{ "inner", 0x1010, 0x10, STB_LOCAL, STT_FUNC },
		{ "outer", 0x1000, 0x40, STB_GLOBAL, STT_FUNC },
	};
	static const uint64_t vaddrs[] = { 0x1008, 0x1018, 0x1030 };
	static const char *const expected[] = { "outer", "inner", "outer" };
	assert_names(entries, 2, vaddrs, expected, 3);
}

static void chooses_the_public_name_of_aliases(void **state)
{
	(void)state;
	static const struct entry entries[] = {
		{ "__libc_malloc", 0x1000, 0x10, STB_GLOBAL, STT_FUNC },
		{ "malloc", 0x1000, 0x10, STB_GLOBAL, STT_FUNC },
		{ "aaa_local", 0x1000, 0x10, STB_LOCAL, STT_FUNC },
		{ "weak", 0x1000, 0x10, STB_WEAK, STT_FUNC },
	};
	static const uint64_t vaddrs[] = { 0x1004 };
	static const char *const expected[] = { "malloc" };
	assert_names(entries, 4, vaddrs, expected, 1);
}

static void cuts_versions_off_names(void **state)
{
	(void)state;
	assert_int_equal(symbol_name_size("malloc@@GLIBC_2.2.5"), 6);
	assert_int_equal(symbol_name_size("malloc"), 6);
	assert_int_equal(symbol_name_size("@odd"), 4);
}

static void survives_a_table_whose_strings_are_elsewhere(void **state)
{
	(void)state;
	static const struct entry entries[] = { { "f", 0x1000, 0x10, STB_GLOBAL, STT_FUNC } };
	static const uint64_t vaddrs[] = { 0x1000 };
	struct elf_builder builder;

	build(&builder, entries, 1);
	for (size_t size = 0; size < builder.out.size; size++) {
		struct symbol_match match = { 0 };
		struct elf_image image;
		struct error err;
		if (!elf_image_over("test", builder.out.data, size, NULL, &image, &err))
			continue;
		symbol_table_match(&image, ".symtab", vaddrs, 1, &match);
		elf_image_close(&image);
	}
	elf_builder_deinit(&builder);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(names_only_addresses_inside_a_symbol),
	cmocka_unit_test(chooses_the_innermost_of_nested_symbols),
	cmocka_unit_test(chooses_the_public_name_of_aliases),
	cmocka_unit_test(cuts_versions_off_names),
	cmocka_unit_test(survives_a_table_whose_strings_are_elsewhere),
};
UNIT_MAIN(tests)
