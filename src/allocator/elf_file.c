/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator/elf_file.h"

#include <string.h>

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define NATIVE_DATA ELFDATA2LSB
#else
#define NATIVE_DATA ELFDATA2MSB
#endif
#if __SIZEOF_POINTER__ == 8
#define NATIVE_CLASS ELFCLASS64
#else
#define NATIVE_CLASS ELFCLASS32
#endif

/* Bytes of the file; NULL when they are not all there. */
static const unsigned char *bytes_at(const struct elf_file *elf, uint64_t offset, uint64_t size)
{
	if (offset > elf->size || size > elf->size - offset)
		return NULL;
	return elf->data + offset;
}

bool elf_file_init(
	struct elf_file *elf, const void *data, size_t size, const char *name, struct error *err)
{
	struct elf_file opened = { .data = data, .size = size };
	const unsigned char *const ident = opened.header.e_ident;

	if (size < sizeof opened.header)
		return error_set(
			err, ERROR_INPUT, "%s: byte %zu: too short for an ELF file", name, size);
	memcpy(&opened.header, data, sizeof opened.header);
	if (memcmp(ident, ELFMAG, SELFMAG) != 0)
		return error_set(err, ERROR_INPUT, "%s: byte 0: no ELF file", name);
	if (ident[EI_CLASS] != NATIVE_CLASS || ident[EI_DATA] != NATIVE_DATA)
		return error_set(
			err, ERROR_INPUT, "%s: byte 4: an ELF file of another machine", name);
	*elf = opened;
	return true;
}

static bool section_at(const struct elf_file *elf, uint64_t index, ElfW(Shdr) * section)
{
	uint64_t offset = 0;

	if (elf->header.e_shentsize != sizeof *section ||
		__builtin_mul_overflow(index, sizeof *section, &offset) ||
		__builtin_add_overflow(offset, elf->header.e_shoff, &offset))
		return false;
	const unsigned char *const at = bytes_at(elf, offset, sizeof *section);
	if (at == NULL)
		return false;
	memcpy(section, at, sizeof *section);
	return true;
}

/* More than 65279 sections are counted in the first section header. */
static uint64_t section_count(const struct elf_file *elf)
{
	ElfW(Shdr) first;

	if (elf->header.e_shoff == 0)
		return 0;
	if (elf->header.e_shnum != 0)
		return elf->header.e_shnum;
	return section_at(elf, 0, &first) ? first.sh_size : 0;
}

struct symbol_table {
	const unsigned char *symbols;
	size_t count;
	const char *names; /* ends in NUL */
	size_t names_size;
};

static bool open_table(
	const struct elf_file *elf, const ElfW(Shdr) * section, struct symbol_table *table)
{
	ElfW(Shdr) names;

	if (section->sh_entsize != sizeof(ElfW(Sym)) ||
		!section_at(elf, section->sh_link, &names) || names.sh_type != SHT_STRTAB ||
		names.sh_size == 0)
		return false;
	const unsigned char *const symbols = bytes_at(elf, section->sh_offset, section->sh_size);
	const unsigned char *const texts = bytes_at(elf, names.sh_offset, names.sh_size);
	if (symbols == NULL || texts == NULL || texts[names.sh_size - 1] != '\0')
		return false;
	*table = (struct symbol_table){
		.symbols = symbols,
		.count = section->sh_size / sizeof(ElfW(Sym)),
		.names = (const char *)texts,
		.names_size = names.sh_size,
	};
	return true;
}

static bool find_table(const struct elf_file *elf, uint32_t type, struct symbol_table *table)
{
	ElfW(Shdr) section;
	const uint64_t count = section_count(elf);

	for (uint64_t i = 0; i < count && section_at(elf, i, &section); i++) {
		if (section.sh_type == type && open_table(elf, &section, table))
			return true;
	}
	return false;
}

bool elf_file_has_symbol_table(const struct elf_file *elf)
{
	struct symbol_table table;

	return find_table(elf, SHT_SYMTAB, &table);
}

static bool ends_in(const char *text, const char *suffix, size_t suffix_size)
{
	const size_t length = strlen(text);

	return length >= suffix_size && strcmp(text + length - suffix_size, suffix) == 0;
}

static bool is_function_here(const ElfW(Sym) * symbol)
{
	const unsigned type = symbol->st_info & 0xf;

	return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
	       (type == STT_FUNC || type == STT_NOTYPE);
}

static bool visit_table(const struct symbol_table *table, const char *suffix,
	bool (*visit)(void *context, const char *name, uint64_t value), void *context)
{
	const size_t suffix_size = strlen(suffix);

	/* Nearly every file lacks the name: ask its texts before walking its symbols. */
	if (memmem(table->names, table->names_size, suffix, suffix_size + 1) == NULL)
		return true;
	for (size_t i = 0; i < table->count; i++) {
		ElfW(Sym) symbol;
		memcpy(&symbol, table->symbols + i * sizeof symbol, sizeof symbol);
		if (!is_function_here(&symbol) || symbol.st_name >= table->names_size)
			continue;
		const char *const name = table->names + symbol.st_name;
		if (ends_in(name, suffix, suffix_size) && !visit(context, name, symbol.st_value))
			return false;
	}
	return true;
}

void elf_file_functions(const struct elf_file *elf, const char *suffix,
	bool (*visit)(void *context, const char *name, uint64_t value), void *context)
{
	static const uint32_t types[] = { SHT_SYMTAB, SHT_DYNSYM };
	struct symbol_table table;

	for (size_t i = 0; i < 2; i++) {
		if (find_table(elf, types[i], &table) &&
			!visit_table(&table, suffix, visit, context))
			return;
	}
}

struct exact_search {
	const char *name;
	uint64_t value;
};

static bool stop_at_exact_name(void *context, const char *name, uint64_t value)
{
	struct exact_search *const search = context;

	if (strcmp(name, search->name) != 0)
		return true;
	search->value = value;
	return false;
}

uint64_t elf_file_function(const struct elf_file *elf, const char *name)
{
	struct exact_search search = { .name = name };

	elf_file_functions(elf, name, stop_at_exact_name, &search);
	return search.value;
}

static bool has_text(const unsigned char *at, size_t size, char first, const char *rest)
{
	const unsigned char *const end = at + size;
	const size_t rest_size = strlen(rest);

	while (at < end) {
		const unsigned char *const found =
			memmem(at + 1, (size_t)(end - at) - 1, rest, rest_size);
		if (found == NULL)
			return false;
		if (found[-1] == (unsigned char)first)
			return true;
		at = found;
	}
	return false;
}

bool elf_file_has_text(const struct elf_file *elf, char first, const char *rest)
{
	ElfW(Shdr) section;
	const uint64_t count = section_count(elf);
	const uint64_t kind = SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR;

	for (uint64_t i = 0; i < count && section_at(elf, i, &section); i++) {
		if (section.sh_type != SHT_PROGBITS || (section.sh_flags & kind) != SHF_ALLOC)
			continue;
		const unsigned char *const bytes =
			bytes_at(elf, section.sh_offset, section.sh_size);
		if (bytes != NULL && has_text(bytes, section.sh_size, first, rest))
			return true;
	}
	return false;
}

bool elf_file_has_headers(const struct elf_file *elf, const ElfW(Phdr) * headers, size_t count)
{
	const size_t size = count * sizeof *headers;

	if (elf->header.e_phnum != count || elf->header.e_phentsize != sizeof *headers)
		return false;
	const unsigned char *const own = bytes_at(elf, elf->header.e_phoff, size);
	return own != NULL && memcmp(own, headers, size) == 0;
}

static void write_hex(const unsigned char *bytes, size_t size, char *text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < size; i++) {
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 0xf];
	}
	text[2 * size] = '\0';
}

static uint64_t rounded_to_word(uint64_t size)
{
	return (size + 3) & ~(uint64_t)3;
}

bool elf_notes_build_id(const void *notes, size_t size, char id[ELF_BUILD_ID_MAX])
{
	const unsigned char *at = notes;
	size_t left = size;
	ElfW(Nhdr) note;

	while (left >= sizeof note) {
		memcpy(&note, at, sizeof note);
		const uint64_t name_size = rounded_to_word(note.n_namesz);
		const uint64_t description_size = rounded_to_word(note.n_descsz);
		const uint64_t whole = sizeof note + name_size + description_size;
		if (whole > left)
			return false;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
			memcmp(at + sizeof note, "GNU", 4) == 0 && note.n_descsz > 0 &&
			note.n_descsz <= (ELF_BUILD_ID_MAX - 1) / 2) {
			write_hex(at + sizeof note + name_size, note.n_descsz, id);
			return true;
		}
		at += whole;
		left -= (size_t)whole;
	}
	return false;
}

bool elf_file_build_id(const struct elf_file *elf, char id[ELF_BUILD_ID_MAX])
{
	ElfW(Shdr) section;
	const uint64_t count = section_count(elf);

	for (uint64_t i = 0; i < count && section_at(elf, i, &section); i++) {
		if (section.sh_type != SHT_NOTE)
			continue;
		const unsigned char *const notes =
			bytes_at(elf, section.sh_offset, section.sh_size);
		if (notes != NULL && elf_notes_build_id(notes, section.sh_size, id))
			return true;
	}
	return false;
}
