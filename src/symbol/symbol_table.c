/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "symbol/vaddrs.h"
#include "unwind/table.h"

/* Comparisons spent per address: far more than the aliases of any real table need. */
static const size_t WORK_PER_ADDRESS = 1024;

struct matching {
	const uint64_t *vaddrs;
	size_t count;
	struct symbol_match *matches; /* of this table alone */
	size_t work_left;
};

static int binding_rank(unsigned char info)
{
	switch (ELF64_ST_BIND(info)) {
	case STB_GLOBAL:
	case STB_GNU_UNIQUE:
		return 2;
	case STB_WEAK:
		return 1;
	default:
		return 0;
	}
}

/* Comparing two aliases is one comparison, however long names were made. */
enum { MAX_UNDERSCORES = 16, MAX_COMPARED = 1024 };

static size_t count_underscores(const char *name)
{
	size_t count = 0;

	while (count < MAX_UNDERSCORES && name[count] == '_')
		count++;
	return count;
}

static bool is_better(const struct symbol_match *a, const struct symbol_match *b)
{
	if (b->name == NULL)
		return true;
	if (a->start != b->start)
		return a->start > b->start;
	const int rank_a = binding_rank(a->info);
	const int rank_b = binding_rank(b->info);
	if (rank_a != rank_b)
		return rank_a > rank_b;
	const size_t underscores_a = count_underscores(a->name);
	const size_t underscores_b = count_underscores(b->name);
	if (underscores_a != underscores_b)
		return underscores_a < underscores_b;
	return strncmp(a->name, b->name, MAX_COMPARED) < 0;
}

static bool is_function(const struct elf_image *image, const Elf64_Sym *symbol)
{
	if (symbol->st_size == 0 || symbol->st_shndx == SHN_UNDEF)
		return false;
	switch (ELF64_ST_TYPE(symbol->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return true;
	case STT_NOTYPE: /* assembly that gives a size but no type */
		return symbol->st_shndx < image->section_count &&
		       (image->sections[symbol->st_shndx].flags & SHF_EXECINSTR) != 0;
	default:
		return false;
	}
}

static void match_symbol(
	struct matching *matching, const Elf64_Sym *symbol, const struct elf_bytes *names)
{
	const struct symbol_match candidate = {
		.name = elf_text_at(names, symbol->st_name),
		.start = symbol->st_value,
		.size = symbol->st_size,
		.info = symbol->st_info,
	};

	for (size_t i = vaddrs_lower_bound(matching->vaddrs, matching->count, symbol->st_value);
		i < matching->count && matching->vaddrs[i] - candidate.start < candidate.size &&
		matching->work_left > 0;
		i++) {
		matching->work_left--;
		if (candidate.name[0] != '\0' && is_better(&candidate, &matching->matches[i]))
			matching->matches[i] = candidate;
	}
}

static const struct elf_section *find_table(
	const struct elf_image *image, const char *name, struct elf_bytes *names)
{
	const struct elf_section *const table = elf_image_section(image, name);

	if (table == NULL || table->entry_bytes != sizeof(Elf64_Sym) ||
		table->link >= image->section_count)
		return NULL;
	const struct elf_section *const strings = &image->sections[table->link];
	if (strings->type != SHT_STRTAB)
		return NULL;
	*names = elf_text_table(image->data + strings->offset, strings->size);
	return table;
}

bool symbol_table_exists(const struct elf_image *image, const char *section)
{
	struct elf_bytes names;
	const struct elf_section *const table = find_table(image, section, &names);

	return table != NULL && table->size > sizeof(Elf64_Sym);
}

void symbol_table_match(const struct elf_image *image, const char *section, const uint64_t *vaddrs,
	size_t count, struct symbol_match *matches)
{
	struct elf_bytes names;
	const struct elf_section *const table = find_table(image, section, &names);

	if (table == NULL || count == 0)
		return;
	CLEANUP(free_cleanup)
	struct symbol_match *found = xcalloc(count, sizeof *found);
	struct matching matching = {
		.vaddrs = vaddrs,
		.count = count,
		.matches = found,
		.work_left = count * WORK_PER_ADDRESS,
	};
	const uint64_t first = vaddrs[0];
	const uint64_t last = vaddrs[count - 1];
	for (uint64_t at = 0; table->size - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
		Elf64_Sym symbol;
		memcpy(&symbol, image->data + table->offset + at, sizeof symbol);
		if (symbol.st_value <= last && is_function(image, &symbol) &&
			(symbol.st_value >= first || first - symbol.st_value < symbol.st_size))
			match_symbol(&matching, &symbol, &names);
	}
	for (size_t i = 0; i < count; i++)
		if (matches[i].name == NULL)
			matches[i] = found[i];
}

size_t symbol_name_size(const char *name)
{
	const char *const version = strchr(name, '@');

	return version == NULL || version == name ? strlen(name) : (size_t)(version - name);
}

struct function_starts {
	enum unwind_machine machine;
	struct unwind_section header;
	struct unwind_section frames;
};

static bool find_section(
	const struct elf_image *image, const char *name, struct unwind_section *section)
{
	const struct elf_section *const found = elf_image_section(image, name);

	if (found == NULL || found->type == SHT_NOBITS || (found->flags & SHF_COMPRESSED) != 0)
		return false;
	*section =
		(struct unwind_section){ image->data + found->offset, found->size, found->vaddr };
	return true;
}

struct function_starts *function_starts_new(const struct elf_image *image)
{
	struct function_starts found = { .machine = UNWIND_X86_64 };
	Elf64_Ehdr header;

	if (image->size < sizeof header || !find_section(image, ".eh_frame_hdr", &found.header) ||
		!find_section(image, ".eh_frame", &found.frames))
		return NULL;
	memcpy(&header, image->data, sizeof header);
	if (header.e_machine == EM_AARCH64)
		found.machine = UNWIND_AARCH64;
	struct function_starts *const starts = xmalloc(sizeof *starts);
	*starts = found;
	return starts;
}

void function_starts_free(struct function_starts *starts)
{
	free(starts);
}

uint32_t function_starts_find(const struct function_starts *starts, uint64_t vaddr)
{
	uint64_t begin = 0;

	if (!unwind_section_function(
		    starts->machine, &starts->header, &starts->frames, vaddr, &begin) ||
		vaddr - begin >= FUNCTION_START_UNKNOWN)
		return FUNCTION_START_UNKNOWN;
	return (uint32_t)(vaddr - begin);
}
