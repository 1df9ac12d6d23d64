/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of symbol tables for both sides: whatever the file, no step outside it. */
#include <stdint.h>
#include <string.h>

#include "base/elf_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool check_name(void *context, const char *name, uint64_t value)
{
	const size_t length = strlen(name);

	(void)context;
	if (value == 0 || length < 7 || strcmp(name + length - 7, "mallctl") != 0)
		__builtin_trap();
	return true;
}

static bool check_text(void *context, const char *text)
{
	if (text != context || strlen(text) >= 64)
		__builtin_trap();
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char text[64];
	struct elf_file elf;
	struct error err;
	char id[ELF_BUILD_ID_MAX];
	ElfW(Phdr) segment = { 0 };

	if (!elf_file_init(&elf, data, size, "fuzz", &err))
		return 0;
	elf_file_functions(&elf, "mallctl", check_name, NULL);
	(void)elf_file_function(&elf, "malloc");
	(void)elf_file_has_symbol_table(&elf);
	(void)elf_file_has_text(&elf, '<', "jemalloc>: ");
	(void)elf_file_has_name(&elf, "MALLOC_CONF");
	(void)elf_file_has_interpreter(&elf);
	(void)elf_file_is_go(&elf);
	(void)elf_file_dynamic_texts(&elf, DT_NEEDED, text, sizeof text, check_text, text);
	(void)elf_file_has_headers(&elf, &segment, 1);
	if (elf_file_build_id(&elf, id) && strlen(id) % 2 != 0)
		__builtin_trap();
	return 0;
}
