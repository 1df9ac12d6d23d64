/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator/loaded_symbol.h"

#include <dlfcn.h>
#include <elf.h>
#include <stddef.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/elf_file.h"
#include "base/loaded_module.h"
#include "base/loader_use.h"

const ElfW(Dyn) * loaded_symbols_dynamic(const struct dl_phdr_info *info)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			return __extension__(const ElfW(Dyn) *)(void *)(
				info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
	}
	return NULL;
}

/* glibc has put the base into the addresses of a dynamic section, musl and the vdso have not. */
uintptr_t loaded_symbols_address(const struct dl_phdr_info *info, ElfW(Addr) value)
{
	return value < info->dlpi_addr ? info->dlpi_addr + value : value;
}

bool loaded_symbols_read(const struct dl_phdr_info *info, struct loaded_symbols *symbols)
{
	*symbols = (struct loaded_symbols){ .base = info->dlpi_addr };
	if (!loaded_module_is_whole(info))
		return false;
	const ElfW(Dyn) *dynamic = loaded_symbols_dynamic(info);
	for (; dynamic != NULL && dynamic->d_tag != DT_NULL; dynamic++) {
		const uintptr_t address = loaded_symbols_address(info, dynamic->d_un.d_ptr);
		if (dynamic->d_tag == DT_SYMTAB)
			symbols->table = (const void *)address;
		else if (dynamic->d_tag == DT_STRTAB)
			symbols->strings = (const void *)address;
		else if (dynamic->d_tag == DT_STRSZ)
			symbols->strings_size = dynamic->d_un.d_val;
		else if (dynamic->d_tag == DT_GNU_HASH)
			symbols->hash = (const void *)address;
		else if (dynamic->d_tag == DT_HASH)
			symbols->old_hash = (const void *)address;
	}
	return symbols->table != NULL && symbols->strings != NULL;
}

bool loaded_symbols_has_hash(const struct loaded_symbols *symbols)
{
	return symbols->hash != NULL || symbols->old_hash != NULL;
}

static bool is_definition(
	const struct loaded_symbols *symbols, const ElfW(Sym) * symbol, const char *name)
{
	return symbol->st_shndx != SHN_UNDEF &&
	       strcmp(symbols->strings + symbol->st_name, name) == 0;
}

/* The table of DT_HASH: counts of buckets and of symbols; the buckets, the chains. */
static const ElfW(Sym) * get_by_old_hash(const struct loaded_symbols *symbols, const char *name)
{
	const uint32_t *const table = symbols->old_hash;

	if (table == NULL || table[0] == 0)
		return NULL;
	const uint32_t *const buckets = table + 2;
	const uint32_t *const chains = buckets + table[0];
	uint32_t number = buckets[elf_old_hash(name) % table[0]];
	for (; number != STN_UNDEF && number < table[1]; number = chains[number]) {
		if (is_definition(symbols, &symbols->table[number], name))
			return &symbols->table[number];
	}
	return NULL;
}

/*
 * The GNU hash table: counts of buckets, of the first symbol and of the filter's words; the filter,
 * the buckets, the chains.
 */
const ElfW(Sym) * loaded_symbols_get(const struct loaded_symbols *symbols, const char *name)
{
	const uint32_t *const table = symbols->hash;

	if (table == NULL)
		return get_by_old_hash(symbols, name);
	if (table[0] == 0)
		return NULL;
	const uint32_t *const buckets =
		table + 4 + table[2] * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
	const uint32_t *const chains = buckets + table[0];
	const uint32_t hash = elf_gnu_hash(name);
	uint32_t number = buckets[hash % table[0]];
	if (number < table[1])
		return NULL;
	for (;; number++) {
		const uint32_t found = chains[number - table[1]];
		const ElfW(Sym) *const symbol = &symbols->table[number];
		if ((found | 1) == (hash | 1) && is_definition(symbols, symbol, name))
			return symbol;
		if ((found & 1) != 0)
			return NULL;
	}
}

/*
 * glibc's loader has a malloc of its own in old versions, for itself; musl's loader is its C
 * library.
 */
bool loaded_symbols_are_of_libc(const struct loaded_symbols *symbols)
{
	return loaded_symbols_get(symbols, "__libc_start_main") != NULL;
}

struct loaded_search {
	struct loaded_lookup *lookups;
	size_t count;
	ElfW(Addr) loader, kernel;
	bool is_complete;
};

static int look_into_module(struct dl_phdr_info *info, size_t size, void *context)
{
	struct loaded_search *const search = context;
	struct loaded_symbols symbols;

	(void)size;
	if (info->dlpi_addr == search->kernel || !loaded_symbols_read(info, &symbols) ||
		(info->dlpi_addr == search->loader && !loaded_symbols_are_of_libc(&symbols)))
		return 0;
	search->is_complete = search->is_complete && loaded_symbols_has_hash(&symbols);
	for (struct loaded_lookup *lookup = search->lookups;
		lookup < search->lookups + search->count; lookup++) {
		const ElfW(Sym) *const symbol =
			lookup->found == NULL ? loaded_symbols_get(&symbols, lookup->name) : NULL;
		if (symbol == NULL)
			continue;
		lookup->found = (void *)(uintptr_t)(symbols.base + symbol->st_value);
		lookup->is_indirect = ELF64_ST_TYPE(symbol->st_info) == STT_GNU_IFUNC;
	}
	return 0;
}

bool loaded_symbols_find(struct loaded_lookup *lookups, size_t count)
{
	struct loaded_search search = { .lookups = lookups,
		.count = count,
		.loader = loaded_module_loader(),
		.kernel = getauxval(AT_SYSINFO_EHDR),
		.is_complete = true };

	loader_iterate(look_into_module, &search);
	return search.is_complete;
}

void *loaded_symbol_find(const char *name)
{
	struct loaded_lookup lookup = { .name = name };

	(void)loaded_symbols_find(&lookup, 1);
	return lookup.found;
}

void *loaded_symbol_of_program(const char *name)
{
	struct loaded_lookup lookup = { .name = name };
	const bool is_complete = loaded_symbols_find(&lookup, 1);

	if (lookup.found == NULL && is_complete)
		return NULL;
	loader_use_begin();
	void *const symbol = dlsym(RTLD_DEFAULT, name);
	loader_use_end();
	return symbol;
}

struct address_search {
	uintptr_t address;
	const void *base;
};

static int look_for_address(struct dl_phdr_info *info, size_t size, void *context)
{
	struct address_search *const search = context;
	const ElfW(Phdr) *first = NULL;
	bool is_inside = false;

	(void)size;
	if (!loaded_module_has_headers(info))
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *const segment = &info->dlpi_phdr[i];
		if (segment->p_type != PT_LOAD)
			continue;
		first = first == NULL ? segment : first;
		is_inside = is_inside || search->address - (info->dlpi_addr + segment->p_vaddr) <
						 segment->p_memsz;
	}
	if (is_inside)
		search->base = (const void *)(uintptr_t)(info->dlpi_addr +
							 (first->p_vaddr & -getauxval(AT_PAGESZ)));
	return is_inside;
}

const void *loaded_module_base(const void *address)
{
	struct address_search search = { .address = (uintptr_t)address };

	if (address != NULL)
		loader_iterate(look_for_address, &search);
	return search.base;
}
