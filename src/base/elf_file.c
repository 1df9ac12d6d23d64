/* SPDX-License-Identifier: Apache-2.0 */
#include "base/elf_file.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

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

/* Up to `size` bytes of the file; how many there are. */
static size_t read_at(const struct elf_file *elf, uint64_t offset, void *bytes, size_t size)
{
	size_t done = 0;

	if (offset >= elf->size)
		return 0;
	if (size > elf->size - offset)
		size = (size_t)(elf->size - offset);
	if (elf->fd < 0) {
		memcpy(bytes, elf->data + offset, size);
		return size;
	}
	while (done < size) {
		const ssize_t got =
			pread(elf->fd, (char *)bytes + done, size - done, (off_t)(offset + done));
		if (got > 0)
			done += (size_t)got;
		else if (got == 0 || errno != EINTR)
			break;
	}
	return done;
}

/*
 * At most a window of bytes; NULL when they are not all there. Valid until the next call.
 */
static const unsigned char *bytes_at(struct elf_file *elf, uint64_t offset, size_t size)
{
	if (size > sizeof elf->window)
		return NULL;
	if (offset < elf->window_offset || offset - elf->window_offset > elf->window_size ||
		size > elf->window_size - (offset - elf->window_offset)) {
		elf->window_offset = offset;
		elf->window_size = read_at(elf, offset, elf->window, sizeof elf->window);
	}
	const size_t at = (size_t)(offset - elf->window_offset);
	return size <= elf->window_size - at ? elf->window + at : NULL;
}

static bool check_header(
	const ElfW(Ehdr) * header, uint64_t size, const char *name, struct error *err)
{
	const unsigned char *const ident = header->e_ident;

	if (size < sizeof *header)
		return error_set(err, ERROR_INPUT, "%s: byte %zu: too short for an ELF file", name,
			(size_t)size);
	if (memcmp(ident, ELFMAG, SELFMAG) != 0)
		return error_set(err, ERROR_INPUT, "%s: byte 0: no ELF file", name);
	if (ident[EI_CLASS] != NATIVE_CLASS || ident[EI_DATA] != NATIVE_DATA)
		return error_set(
			err, ERROR_UNSUPPORTED, "%s: byte 4: an ELF file of another machine", name);
	return true;
}

static void init(
	struct elf_file *elf, int fd, const void *data, uint64_t size, const ElfW(Ehdr) * header)
{
	elf->fd = fd;
	elf->data = data;
	elf->size = size;
	elf->header = *header;
	elf->window_offset = 0;
	elf->window_size = 0;
}

bool elf_file_init(
	struct elf_file *elf, const void *data, size_t size, const char *name, struct error *err)
{
	ElfW(Ehdr) header = { 0 };

	memcpy(&header, data, size < sizeof header ? size : sizeof header);
	if (!check_header(&header, size, name, err))
		return false;
	init(elf, -1, data, size, &header);
	return true;
}

bool elf_file_init_fd(struct elf_file *elf, int fd, const char *name, struct error *err)
{
	ElfW(Ehdr) header = { 0 };
	struct stat status;

	if (fstat(fd, &status) != 0)
		return error_system(err, errno, "%s", name);
	if (!S_ISREG(status.st_mode))
		return error_set(err, ERROR_INPUT, "%s: not a regular file", name);
	const ssize_t got = pread(fd, &header, sizeof header, 0);
	if (!check_header(&header, got < 0 ? 0 : (uint64_t)got, name, err))
		return false;
	init(elf, fd, NULL, (uint64_t)status.st_size, &header);
	return true;
}

bool elf_file_open(struct elf_file *elf, const char *path, struct error *err)
{
	/* Without O_NONBLOCK a named pipe would block until another process writes to it. */
	CLEANUP(fd_cleanup) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return error_system(err, errno, "%s", path);
	if (!elf_file_init_fd(elf, fd, path, err))
		return false;
	(void)TAKE_FD(fd);
	return true;
}

void elf_file_close(struct elf_file *elf)
{
	fd_cleanup(&elf->fd);
}

static bool section_at(struct elf_file *elf, uint64_t index, ElfW(Shdr) * section)
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
static uint64_t section_count(struct elf_file *elf)
{
	ElfW(Shdr) first;

	if (elf->header.e_shoff == 0)
		return 0;
	if (elf->header.e_shnum != 0)
		return elf->header.e_shnum;
	return section_at(elf, 0, &first) ? first.sh_size : 0;
}

struct elf_symbol_table {
	uint64_t symbols_offset;
	uint64_t count;
	uint64_t names_offset;
	uint64_t names_size;
};

/* Whether a part of the file is there; it may still get shorter. */
static bool is_inside(const struct elf_file *elf, uint64_t offset, uint64_t size)
{
	return offset <= elf->size && size <= elf->size - offset;
}

static bool open_table(
	struct elf_file *elf, const ElfW(Shdr) * section, struct elf_symbol_table *table)
{
	ElfW(Shdr) names;

	if (section->sh_entsize != sizeof(ElfW(Sym)) ||
		!section_at(elf, section->sh_link, &names) || names.sh_type != SHT_STRTAB ||
		names.sh_size == 0 || !is_inside(elf, section->sh_offset, section->sh_size) ||
		!is_inside(elf, names.sh_offset, names.sh_size))
		return false;
	*table = (struct elf_symbol_table){
		.symbols_offset = section->sh_offset,
		.count = section->sh_size / sizeof(ElfW(Sym)),
		.names_offset = names.sh_offset,
		.names_size = names.sh_size,
	};
	return true;
}

static bool find_table(struct elf_file *elf, uint32_t type, struct elf_symbol_table *table)
{
	ElfW(Shdr) section;
	const uint64_t count = section_count(elf);

	for (uint64_t i = 0; i < count && section_at(elf, i, &section); i++) {
		if (section.sh_type == type && open_table(elf, &section, table))
			return true;
	}
	return false;
}

uint32_t elf_gnu_hash(const char *name)
{
	uint32_t hash = 5381;

	for (; *name != '\0'; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

uint32_t elf_old_hash(const char *name)
{
	uint32_t hash = 0;

	for (; *name != '\0'; name++) {
		hash = (hash << 4) + (unsigned char)*name;
		hash = (hash ^ (hash >> 28) << 4) & 0x0fffffff;
	}
	return hash;
}

bool elf_file_has_symbol_table(struct elf_file *elf)
{
	struct elf_symbol_table table;

	return find_table(elf, SHT_SYMTAB, &table);
}

static bool is_function_here(const ElfW(Sym) * symbol)
{
	const unsigned type = symbol->st_info & 0xf;

	return symbol->st_shndx != SHN_UNDEF && symbol->st_value != 0 &&
	       (type == STT_FUNC || type == STT_NOTYPE);
}

/*
 * Where the wanted names are among the texts: a name that begins at `first` or later, at `last` at
 * the latest, ends in the suffix. Names may share their ends.
 */
struct wanted_names {
	struct {
		uint64_t first, last;
	} items[ELF_NAMES_MAX];
	size_t count;
	size_t suffix_size;
	bool exact; /* the suffix is the whole name */
};

static void add_wanted(struct wanted_names *wanted, uint64_t begin, uint64_t end)
{
	if (end - begin < wanted->suffix_size || wanted->count == ELF_NAMES_MAX)
		return;
	const uint64_t last = end - wanted->suffix_size;
	wanted->items[wanted->count].first = wanted->exact ? last : begin;
	wanted->items[wanted->count++].last = last;
}

/* Where the name begins that ends at `end`, or the end of it that is read. */
static uint64_t name_begin(
	const struct elf_file *elf, const struct elf_symbol_table *table, uint64_t end)
{
	char before[ELF_NAME_MAX];
	const size_t size = end < sizeof before - 1 ? (size_t)end : sizeof before - 1;

	if (read_at(elf, table->names_offset + end - size, before, size) != size)
		return end;
	const char *const nul = memrchr(before, '\0', size);
	return nul == NULL ? end - size : end - size + (uint64_t)(nul + 1 - before);
}

/* Nearly every file lacks the name: its texts are read before its symbols. Pieces overlap. */
static void find_wanted(struct elf_file *elf, const struct elf_symbol_table *table,
	const char *suffix, struct wanted_names *wanted)
{
	const size_t size = wanted->suffix_size + 1;

	for (uint64_t at = 0; at < table->names_size; at += ELF_WINDOW_BYTES - size + 1) {
		const uint64_t left = table->names_size - at;
		const size_t piece = left < ELF_WINDOW_BYTES ? (size_t)left : ELF_WINDOW_BYTES;
		const unsigned char *const bytes = bytes_at(elf, table->names_offset + at, piece);
		if (bytes == NULL)
			return;
		const unsigned char *found = memmem(bytes, piece, suffix, size);
		while (found != NULL) {
			const uint64_t end = at + (uint64_t)(found - bytes) + size - 1;
			add_wanted(wanted, name_begin(elf, table, end), end);
			const size_t next = (size_t)(found + 1 - bytes);
			found = memmem(bytes + next, piece - next, suffix, size);
		}
	}
}

static bool is_wanted(const struct wanted_names *wanted, uint64_t name)
{
	for (size_t i = 0; i < wanted->count; i++) {
		if (name >= wanted->items[i].first && name <= wanted->items[i].last)
			return true;
	}
	return false;
}

static bool read_name(const struct elf_file *elf, const struct elf_symbol_table *table, uint64_t at,
	char name[ELF_NAME_MAX])
{
	const uint64_t left = table->names_size - at;
	const size_t size = left < ELF_NAME_MAX ? (size_t)left : ELF_NAME_MAX;

	return read_at(elf, table->names_offset + at, name, size) == size &&
	       memchr(name, '\0', size) != NULL;
}

static bool ends_in(const char *text, const char *suffix)
{
	const size_t length = strlen(text), suffix_size = strlen(suffix);

	return length >= suffix_size && strcmp(text + length - suffix_size, suffix) == 0;
}

static bool visit_table(struct elf_file *elf, const struct elf_symbol_table *table,
	const char *suffix, bool exact,
	bool (*visit)(void *context, const char *name, uint64_t value), void *context)
{
	struct wanted_names wanted = { .suffix_size = strlen(suffix), .exact = exact };
	char name[ELF_NAME_MAX];
	ElfW(Sym) symbol;

	if (wanted.suffix_size >= ELF_NAME_MAX)
		return true;
	find_wanted(elf, table, suffix, &wanted);
	for (uint64_t i = 0; wanted.count > 0 && i < table->count; i++) {
		const unsigned char *const at =
			bytes_at(elf, table->symbols_offset + i * sizeof symbol, sizeof symbol);
		if (at == NULL)
			return true;
		memcpy(&symbol, at, sizeof symbol);
		if (!is_function_here(&symbol) || !is_wanted(&wanted, symbol.st_name))
			continue;
		/* The file may have changed since its texts were searched. */
		if (read_name(elf, table, symbol.st_name, name) && ends_in(name, suffix) &&
			!visit(context, name, symbol.st_value))
			return false;
	}
	return true;
}

static void visit_functions(struct elf_file *elf, const char *suffix, bool exact,
	bool (*visit)(void *context, const char *name, uint64_t value), void *context)
{
	static const uint32_t types[] = { SHT_SYMTAB, SHT_DYNSYM };
	struct elf_symbol_table table;

	for (size_t i = 0; i < 2; i++) {
		if (find_table(elf, types[i], &table) &&
			!visit_table(elf, &table, suffix, exact, visit, context))
			return;
	}
}

void elf_file_functions(struct elf_file *elf, const char *suffix,
	bool (*visit)(void *context, const char *name, uint64_t value), void *context)
{
	visit_functions(elf, suffix, false, visit, context);
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

uint64_t elf_file_function(struct elf_file *elf, const char *name)
{
	struct exact_search search = { .name = name };

	visit_functions(elf, name, true, stop_at_exact_name, &search);
	return search.value;
}

/* A constant text, for elf_file_has_text or elf_file_has_name. */
struct wanted_text {
	const char *text; /* without its first byte for has_text */
	size_t size;	  /* of what is searched */
	int first;	  /* the byte before it; -1: none of a name, and `text` ends with a NUL */
};

static bool is_wanted_text(
	const struct wanted_text *wanted, const unsigned char *found, bool is_first)
{
	if (wanted->first >= 0)
		return !is_first && found[-1] == (unsigned char)wanted->first;
	return is_first || (!isalnum(found[-1]) && found[-1] != '_');
}

/* Pieces overlap by the length of the text and the byte before it. */
static bool section_has_text(
	struct elf_file *elf, const ElfW(Shdr) * section, const struct wanted_text *wanted)
{
	const size_t step = ELF_WINDOW_BYTES - wanted->size;

	if (!is_inside(elf, section->sh_offset, section->sh_size))
		return false;
	for (uint64_t at = 0; at < section->sh_size; at += step) {
		const uint64_t left = section->sh_size - at;
		const size_t piece = left < ELF_WINDOW_BYTES ? (size_t)left : ELF_WINDOW_BYTES;
		const unsigned char *const bytes = bytes_at(elf, section->sh_offset + at, piece);
		if (bytes == NULL)
			return false;
		const unsigned char *found = memmem(bytes, piece, wanted->text, wanted->size);
		while (found != NULL) {
			/* A later piece begins inside a text that the one before it has whole. */
			if ((found > bytes || at == 0) &&
				is_wanted_text(wanted, found, found == bytes))
				return true;
			const size_t next = (size_t)(found + 1 - bytes);
			found = memmem(bytes + next, piece - next, wanted->text, wanted->size);
		}
	}
	return false;
}

/* Where constant texts are. */
static bool has_text(struct elf_file *elf, const struct wanted_text *wanted)
{
	ElfW(Shdr) section;
	const uint64_t count = section_count(elf);
	const uint64_t kind = SHF_ALLOC | SHF_WRITE | SHF_EXECINSTR;

	for (uint64_t i = 0; i < count && section_at(elf, i, &section); i++) {
		if (section.sh_type == SHT_PROGBITS && (section.sh_flags & kind) == SHF_ALLOC &&
			section_has_text(elf, &section, wanted))
			return true;
	}
	return false;
}

bool elf_file_has_text(struct elf_file *elf, char first, const char *rest)
{
	return has_text(elf, &(struct wanted_text){ rest, strlen(rest), (unsigned char)first });
}

bool elf_file_has_name(struct elf_file *elf, const char *name)
{
	const size_t size = strlen(name) + 1;

	return size <= ELF_NAME_MAX && has_text(elf, &(struct wanted_text){ name, size, -1 });
}

/* Reads a NUL-terminated text; false, and "", when it does not fit or has no end. */
static bool read_text(
	const struct elf_file *elf, const ElfW(Shdr) * texts, uint64_t at, char *text, size_t size)
{
	if (at >= texts->sh_size)
		return false;
	const uint64_t left = texts->sh_size - at;
	const size_t got =
		read_at(elf, texts->sh_offset + at, text, left < size ? (size_t)left : size);

	if (memchr(text, '\0', got) != NULL)
		return true;
	text[0] = '\0';
	return false;
}

static bool find_section(struct elf_file *elf, uint32_t type, ElfW(Shdr) * section)
{
	const uint64_t count = section_count(elf);

	for (uint64_t i = 0; i < count && section_at(elf, i, section); i++) {
		if (section->sh_type == type)
			return true;
	}
	return false;
}

bool elf_file_dynamic_texts(struct elf_file *elf, int64_t tag, char *text, size_t size,
	bool (*visit)(void *context, const char *text), void *context)
{
	ElfW(Shdr) section, texts;
	ElfW(Dyn) entry;

	if (!find_section(elf, SHT_DYNAMIC, &section) ||
		!section_at(elf, section.sh_link, &texts) ||
		!is_inside(elf, section.sh_offset, section.sh_size) ||
		!is_inside(elf, texts.sh_offset, texts.sh_size))
		return false;
	for (uint64_t at = 0; section.sh_size - at >= sizeof entry; at += sizeof entry) {
		const unsigned char *const bytes =
			bytes_at(elf, section.sh_offset + at, sizeof entry);
		if (bytes == NULL)
			break;
		memcpy(&entry, bytes, sizeof entry);
		if (entry.d_tag == tag && read_text(elf, &texts, entry.d_un.d_val, text, size) &&
			!visit(context, text))
			break;
	}
	return true;
}

bool elf_file_has_interpreter(struct elf_file *elf)
{
	ElfW(Phdr) segment;

	if (elf->header.e_phentsize != sizeof segment)
		return false;
	for (size_t i = 0; i < elf->header.e_phnum; i++) {
		uint64_t at = 0;
		if (__builtin_add_overflow(elf->header.e_phoff, i * sizeof segment, &at))
			return false;
		const unsigned char *const bytes = bytes_at(elf, at, sizeof segment);
		if (bytes == NULL)
			return false;
		memcpy(&segment, bytes, sizeof segment);
		if (segment.p_type == PT_INTERP)
			return true;
	}
	return false;
}

bool elf_file_has_headers(struct elf_file *elf, const ElfW(Phdr) * headers, size_t count)
{
	if (elf->header.e_phnum != count || elf->header.e_phentsize != sizeof *headers)
		return false;
	for (size_t i = 0; i < count; i++) {
		const unsigned char *const own =
			bytes_at(elf, elf->header.e_phoff + i * sizeof *headers, sizeof *headers);
		if (own == NULL || memcmp(own, &headers[i], sizeof *headers) != 0)
			return false;
	}
	return true;
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

/* The description of the note, of at least one byte; NULL when there is none. */
static const unsigned char *find_note(const void *notes, size_t size, const char name[4],
	unsigned type, size_t *description_bytes)
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
			return NULL;
		if (note.n_type == type && note.n_namesz == 4 &&
			memcmp(at + sizeof note, name, 4) == 0 && note.n_descsz > 0) {
			*description_bytes = note.n_descsz;
			return at + sizeof note + name_size;
		}
		at += whole;
		left -= (size_t)whole;
	}
	return NULL;
}

bool elf_notes_build_id(const void *notes, size_t size, char id[ELF_BUILD_ID_MAX])
{
	size_t bytes = 0;
	const unsigned char *const found = find_note(notes, size, "GNU", NT_GNU_BUILD_ID, &bytes);

	if (found == NULL || bytes > (ELF_BUILD_ID_MAX - 1) / 2)
		return false;
	write_hex(found, bytes, id);
	return true;
}

/* The sections with notes one after the other, from the number `at`. */
static const unsigned char *next_notes(struct elf_file *elf, uint64_t *at, size_t *size)
{
	ElfW(Shdr) section;
	const uint64_t count = section_count(elf);

	while (*at < count && section_at(elf, (*at)++, &section)) {
		if (section.sh_type != SHT_NOTE)
			continue;
		/* Of longer ones, which are no build-id's, the beginning. */
		*size = section.sh_size < ELF_WINDOW_BYTES ? (size_t)section.sh_size
							   : ELF_WINDOW_BYTES;
		const unsigned char *const notes = bytes_at(elf, section.sh_offset, *size);
		if (notes != NULL)
			return notes;
	}
	return NULL;
}

bool elf_file_build_id(struct elf_file *elf, char id[ELF_BUILD_ID_MAX])
{
	const unsigned char *notes;
	uint64_t at = 0;
	size_t size = 0;

	while ((notes = next_notes(elf, &at, &size)) != NULL) {
		if (elf_notes_build_id(notes, size, id))
			return true;
	}
	return false;
}

bool elf_file_is_go(struct elf_file *elf)
{
	enum { GO_BUILD_ID = 4 };
	const unsigned char *notes;
	uint64_t at = 0;
	size_t size = 0;

	while ((notes = next_notes(elf, &at, &size)) != NULL) {
		if (find_note(notes, size, "Go\0", GO_BUILD_ID, &size) != NULL)
			return true;
	}
	return false;
}
