/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_table.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cursor.h"
#include "base/file.h"
#include "base/rooted_file.h"
#include "base/search.h"
#include "base/xalloc.h"
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

void symbol_table_boundaries(
	const struct elf_image *image, const char *section, struct boundaries *boundaries)
{
	struct elf_bytes names;
	const struct elf_section *const table = find_table(image, section, &names);

	if (table == NULL)
		return;
	for (uint64_t at = 0; table->size - at >= sizeof(Elf64_Sym); at += sizeof(Elf64_Sym)) {
		Elf64_Sym symbol;
		memcpy(&symbol, image->data + table->offset + at, sizeof symbol);
		if (!is_function(image, &symbol))
			continue;
		boundaries_add(boundaries, symbol.st_value);
		boundaries_add(boundaries, symbol.st_value + symbol.st_size);
	}
}

void symbol_images_open_mini(const struct elf_image *mapped, struct elf_image *mini)
{
	const struct elf_section *const section = elf_image_section(mapped, ".gnu_debugdata");
	struct elf_bytes bytes;
	struct error err;

	if (section == NULL ||
		!unpack_xz(mapped->data + section->offset, section->size, &bytes, &err))
		return;
	/* A damaged one is as good as none: the exported names remain. */
	(void)!elf_image_over(".gnu_debugdata", bytes.data, bytes.size, bytes.owned, mini, &err);
}

enum symbol_source symbol_images_match(const struct symbol_images *images, const uint64_t *vaddrs,
	size_t count, struct symbol_match *matches)
{
	const struct elf_image *const sources[] = { images->mapped, images->debug, images->mini };
	enum symbol_source source = SYMBOL_SOURCE_NONE;

	for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
		if (!symbol_table_exists(sources[i], ".symtab"))
			continue;
		source = SYMBOL_SOURCE_TABLE;
		symbol_table_match(sources[i], ".symtab", vaddrs, count, matches);
	}
	if (!symbol_table_exists(images->mapped, ".dynsym"))
		return source;
	if (source == SYMBOL_SOURCE_NONE)
		source = SYMBOL_SOURCE_DYNAMIC;
	symbol_table_match(images->mapped, ".dynsym", vaddrs, count, matches);
	return source;
}

void symbol_images_boundaries(const struct symbol_images *images, struct boundaries *boundaries)
{
	symbol_table_boundaries(images->mapped, ".symtab", boundaries);
	symbol_table_boundaries(images->debug, ".symtab", boundaries);
	symbol_table_boundaries(images->mini, ".symtab", boundaries);
	symbol_table_boundaries(images->mapped, ".dynsym", boundaries);
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

/* Some hundred thousand functions, which no process compiles. */
enum { MAX_MAP_BYTES = 128 << 20 };

/* The process' inner pid, which names its map; `pid` when that is not known. */
static pid_t inner_pid(pid_t pid)
{
	CLEANUP(buffer_deinit) struct buffer status = BUFFER_OR_EXIT;

	if (!file_try_read(&status, "/proc/%d/status", (int)pid))
		return pid;
	const char *const line = strstr(buffer_string(&status), "\nNSpid:");
	if (line == NULL)
		return pid;
	const char *const end = strchrnul(line + 1, '\n');
	const char *last = end;
	while (last > line && last[-1] != '\t' && last[-1] != ' ')
		last--;
	const long inner = strtol(last, NULL, 10);
	return inner > 0 ? (pid_t)inner : pid;
}

/*
 * The user that may have written the map: the process' user; the current one when the process has
 * ended.
 */
static uid_t owner_of(pid_t pid)
{
	char path[64];
	struct stat status;

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	return stat(path, &status) == 0 ? status.st_uid : geteuid();
}

/* `root` is the folder that the path is below; "" for our own. */
static bool read_map(const char *root, const char *path, uid_t owner, struct buffer *text)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	CLEANUP(fd_cleanup)
	const int fd = root[0] == '\0' ? open(path, flags) : rooted_file_open(root, path, flags);
	struct stat status;
	struct error err;

	return fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	       (status.st_uid == owner || status.st_uid == 0) && file_read_fd(fd, path, text, &err);
}

bool perf_map_read(pid_t pid, struct buffer *path, struct buffer *text)
{
	const uid_t owner = owner_of(pid);
	char root[32];

	text->limit = MAX_MAP_BYTES;
	snprintf(root, sizeof root, "/proc/%d/root", (int)pid);
	buffer_clear(path);
	buffer_printf(path, "%s/tmp/perf-%d.map", root, (int)inner_pid(pid));
	if (read_map(root, path->data + strlen(root), owner, text))
		return true;
	buffer_clear(path);
	buffer_clear(text);
	buffer_printf(path, "/tmp/perf-%d.map", (int)pid);
	return read_map("", buffer_string(path), owner, text);
}

static bool take_hex(const char **at, const char *end, uint64_t *number)
{
	const char *c = *at;

	*number = 0;
	if (end - c > 2 && c[0] == '0' && (c[1] == 'x' || c[1] == 'X'))
		c += 2;
	const char *const first = c;
	for (; c < end && *c != ' '; c++) {
		const int digit = hex_digit(*c);
		if (digit < 0 || c - first >= 16)
			return false;
		*number = *number << 4 | (uint64_t)digit;
	}
	if (c == first || c == end)
		return false;
	*at = c + 1;
	return true;
}

/* Parses a line of the map; false when it is malformed. */
struct map_line {
	uint64_t start;
	uint64_t size;
	const char *name;
};

static bool parse_line(const char *line, const char *end, struct map_line *parsed)
{
	const char *at = line;

	if (!take_hex(&at, end, &parsed->start) || !take_hex(&at, end, &parsed->size) || at == end)
		return false;
	parsed->name = at;
	return true;
}

/* From the last line to the first, so that each address is named once. */
uint64_t perf_map_find(const struct buffer *text, const uint64_t *addresses, size_t count,
	struct perf_map_match *matches)
{
	CLEANUP(free_cleanup) uint32_t *unnamed = xcalloc(count + 1, sizeof *unnamed);
	struct map_line parsed = { 0 };
	uint64_t steps = 0;

	vaddrs_free_all(unnamed, count);
	for (size_t limit = text->size; limit > 0;) {
		const char *const newline = memrchr(text->data, '\n', limit - 1);
		const char *const line = newline == NULL ? text->data : newline + 1;
		const char *const last = text->data + limit - 1;
		const char *const end = *last == '\n' ? last : last + 1;
		limit = (size_t)(line - text->data);
		steps++;
		if (!parse_line(line, end, &parsed))
			continue;
		const size_t first = vaddrs_lower_bound(addresses, count, parsed.start);
		for (uint32_t i = vaddrs_first_free(unnamed, (uint32_t)first);
			i < count && addresses[i] - parsed.start < parsed.size;
			i = vaddrs_first_free(unnamed, i)) {
			matches[i] = (struct perf_map_match){ (size_t)(parsed.name - text->data),
				(size_t)(end - parsed.name) };
			vaddrs_take(unnamed, i);
			steps++;
		}
	}
	return steps;
}
