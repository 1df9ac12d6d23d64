/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/elf_image.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cursor.h"
#include "base/xalloc.h"

/* The kernel runs no program with more, and each address is compared with all of them. */
static const size_t MAX_PROGRAM_HEADERS = 65536 / sizeof(Elf64_Phdr);

/* A copy of `count` records of `size` bytes at `offset`; NULL when the file has not as many. */
static void *copy_table(const struct elf_image *image, uint64_t offset, uint64_t count, size_t size)
{
	uint64_t bytes = 0;

	if (__builtin_mul_overflow(count, (uint64_t)size, &bytes) || offset > image->size ||
		bytes > image->size - offset)
		return NULL;
	void *const table = xmalloc(bytes);
	memcpy(table, image->data + offset, bytes);
	return table;
}

static bool read_sections(struct elf_image *image, const Elf64_Ehdr *header, struct error *err)
{
	uint64_t count = header->e_shnum;
	uint64_t names_at = header->e_shstrndx;

	if (header->e_shoff == 0)
		return true;
	if (header->e_shentsize != sizeof(Elf64_Shdr))
		return error_set(err, ERROR_INPUT, "%s: invalid section headers", image->path);
	CLEANUP(free_cleanup)
	Elf64_Shdr *first = copy_table(image, header->e_shoff, 1, sizeof(Elf64_Shdr));
	if (first != NULL && count == 0)
		count = first->sh_size;
	if (first != NULL && names_at == SHN_XINDEX)
		names_at = first->sh_link;
	CLEANUP(free_cleanup)
	Elf64_Shdr *headers = copy_table(image, header->e_shoff, count, sizeof(Elf64_Shdr));
	if (first == NULL || headers == NULL)
		return error_set(err, ERROR_INPUT,
			"%s: byte %llu: the section headers lie outside the file", image->path,
			(unsigned long long)header->e_shoff);

	struct elf_bytes names = { 0 };
	if (names_at < count && headers[names_at].sh_type == SHT_STRTAB &&
		headers[names_at].sh_offset <= image->size &&
		headers[names_at].sh_size <= image->size - headers[names_at].sh_offset) {
		names = elf_text_table(
			image->data + headers[names_at].sh_offset, headers[names_at].sh_size);
	}
	image->sections = xcalloc(count, sizeof *image->sections);
	image->section_count = count;
	for (uint64_t i = 0; i < count; i++) {
		const Elf64_Shdr *const from = &headers[i];
		const bool has_contents = from->sh_type != SHT_NOBITS && from->sh_type != SHT_NULL;
		const bool fits = from->sh_offset <= image->size &&
				  from->sh_size <= image->size - from->sh_offset;
		image->sections[i] = (struct elf_section){
			.name = elf_text_at(&names, from->sh_name),
			.type = has_contents && !fits ? SHT_NULL : from->sh_type,
			.link = from->sh_link,
			.flags = from->sh_flags,
			.vaddr = from->sh_addr,
			.offset = from->sh_offset,
			.size = from->sh_size,
			.entry_bytes = from->sh_entsize,
		};
	}
	return true;
}

static bool read_segments(struct elf_image *image, const Elf64_Ehdr *header, struct error *err)
{
	if (header->e_phnum == 0)
		return true;
	if (header->e_phnum > MAX_PROGRAM_HEADERS)
		return error_set(err, ERROR_INPUT,
			"%s: has %u program headers, at most %zu are possible: damaged or "
			"malicious",
			image->path, header->e_phnum, MAX_PROGRAM_HEADERS);
	CLEANUP(free_cleanup)
	Elf64_Phdr *headers =
		copy_table(image, header->e_phoff, header->e_phnum, sizeof(Elf64_Phdr));
	if (headers == NULL || header->e_phentsize != sizeof(Elf64_Phdr))
		return error_set(err, ERROR_INPUT,
			"%s: byte %llu: the program headers lie outside the file", image->path,
			(unsigned long long)header->e_phoff);

	image->segments = xcalloc(header->e_phnum, sizeof *image->segments);
	for (size_t i = 0; i < header->e_phnum; i++) {
		if (headers[i].p_type != PT_LOAD)
			continue;
		image->segments[image->segment_count++] = (struct elf_segment){
			.offset = headers[i].p_offset,
			.file_bytes = headers[i].p_filesz,
			.vaddr = headers[i].p_vaddr,
			.memory_bytes = headers[i].p_memsz,
			.executable = (headers[i].p_flags & PF_X) != 0,
		};
	}
	return true;
}

static void cover_code(struct elf_image *image, uint64_t vaddr, uint64_t size)
{
	uint64_t limit = 0;

	if (size == 0 || __builtin_add_overflow(vaddr, size, &limit))
		return;
	if (image->code_limit == 0 || vaddr < image->code_start)
		image->code_start = vaddr;
	if (limit > image->code_limit)
		image->code_limit = limit;
}

/* The range of code, which excludes leftovers of discarded functions at address 0. */
static void find_code(struct elf_image *image)
{
	for (size_t i = 0; i < image->section_count; i++) {
		const struct elf_section *const section = &image->sections[i];
		if ((section->flags & SHF_EXECINSTR) == 0 || (section->flags & SHF_ALLOC) == 0)
			continue;
		cover_code(image, section->vaddr, section->size);
		if (section->type == SHT_PROGBITS)
			image->has_code = true;
	}
	if (image->code_limit != 0)
		return;
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct elf_segment *const segment = &image->segments[i];
		if (!segment->executable)
			continue;
		cover_code(image, segment->vaddr, segment->memory_bytes);
		image->has_code = image->has_code || segment->file_bytes != 0;
	}
}

static void write_hex(const unsigned char *data, size_t size, char text[ELF_BUILD_ID_TEXT_BYTES])
{
	static const char digits[] = "0123456789abcdef";

	if (size > (ELF_BUILD_ID_TEXT_BYTES - 1) / 2)
		size = (ELF_BUILD_ID_TEXT_BYTES - 1) / 2;
	for (size_t i = 0; i < size; i++) {
		text[2 * i] = digits[data[i] >> 4];
		text[2 * i + 1] = digits[data[i] & 15];
	}
	text[2 * size] = '\0';
}

/*
 * `left` counts down the bytes that may be read: many headers may claim the same notes, and all of
 * them together are no longer than the file.
 */
static bool find_build_id_in(
	struct elf_image *image, uint64_t offset, uint64_t size, uint64_t *left)
{
	struct cursor notes = cursor_over(image->data + offset, size);

	if (size > *left)
		return false;
	*left -= size;
	while (cursor_left(&notes) >= 12) {
		const uint32_t name_size = cursor_u32(&notes);
		const uint32_t value_size = cursor_u32(&notes);
		const uint32_t type = cursor_u32(&notes);
		const unsigned char *const name = cursor_take(&notes, (name_size + 3ull) & ~3ull);
		const unsigned char *const value = cursor_take(&notes, value_size);
		cursor_skip(&notes, -(uint64_t)value_size & 3);
		if (name != NULL && value != NULL && type == NT_GNU_BUILD_ID && name_size == 4 &&
			memcmp(name, "GNU", 4) == 0 && value_size != 0) {
			write_hex(value, value_size, image->build_id);
			return true;
		}
	}
	return false;
}

/*
 * .debug_sup (DWARF 5, section 7.3.6): of a supplementary file what it is called by, of others
 * which supplementary file they need. The name in the file, NULL when it is not of that kind.
 */
static const char *read_supplement(const struct elf_image *image, bool is_supplementary,
	char build_id[ELF_BUILD_ID_TEXT_BYTES])
{
	const struct elf_section *const section = elf_image_section(image, ".debug_sup");

	if (section == NULL)
		return NULL;
	struct cursor in = cursor_over(image->data + section->offset, section->size);
	const uint16_t version = cursor_u16(&in);
	const uint8_t kind = cursor_u8(&in);
	const char *const name = cursor_string(&in);
	const uint64_t size = cursor_uleb(&in);
	const unsigned char *const checksum = cursor_take(&in, size);
	if (!cursor_ok(&in) || version != 5 || kind != is_supplementary || size == 0)
		return NULL;
	write_hex(checksum, size, build_id);
	return name;
}

static void identify(struct elf_image *image, const Elf64_Ehdr *header)
{
	uint64_t left = image->size;

	for (size_t i = 0; i < image->section_count; i++) {
		const struct elf_section *const section = &image->sections[i];
		if (section->type == SHT_NOTE &&
			find_build_id_in(image, section->offset, section->size, &left))
			return;
	}
	left = image->size;
	for (size_t i = 0; i < header->e_phnum; i++) {
		Elf64_Phdr note;
		uint64_t at = 0;
		if (__builtin_add_overflow(header->e_phoff, i * sizeof note, &at) ||
			at > image->size || image->size - at < sizeof note)
			break;
		memcpy(&note, image->data + at, sizeof note);
		if (note.p_type == PT_NOTE && note.p_offset <= image->size &&
			note.p_filesz <= image->size - note.p_offset &&
			find_build_id_in(image, note.p_offset, note.p_filesz, &left))
			return;
	}
	/* A supplementary file has a checksum in place of a build-id. */
	(void)read_supplement(image, true, image->build_id);
}

static bool parse(struct elf_image *image, struct error *err)
{
	Elf64_Ehdr header;

	if (image->size < sizeof header || memcmp(image->data, ELFMAG, SELFMAG) != 0)
		return error_set(err, ERROR_INPUT, "%s: not an ELF file", image->path);
	memcpy(&header, image->data, sizeof header);
	if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB)
		return error_set(err, ERROR_UNSUPPORTED, "%s: not a 64-bit little-endian ELF file",
			image->path);
	if (!read_sections(image, &header, err) || !read_segments(image, &header, err))
		return false;
	find_code(image);
	identify(image, &header);
	return true;
}

bool elf_image_over(const char *name, const void *data, size_t size, void *owned,
	struct elf_image *image, struct error *err)
{
	struct elf_image opened = {
		.path = xstrdup(name), .data = data, .size = size, .owned = owned
	};

	if (!parse(&opened, err)) {
		elf_image_close(&opened);
		return false;
	}
	*image = opened;
	return true;
}

static bool open_map(
	const char *path, struct file_map map, struct elf_image *image, struct error *err)
{
	struct elf_image opened = {
		.path = xstrdup(path),
		.data = (const unsigned char *)map.data,
		.size = map.size,
		.map = map,
	};
	if (!parse(&opened, err)) {
		elf_image_close(&opened);
		return false;
	}
	*image = opened;
	return true;
}

bool elf_image_open(const char *path, struct elf_image *image, struct error *err)
{
	struct file_map map = { 0 };

	return file_map(path, &map, err) && open_map(path, map, image, err);
}

bool elf_image_open_fd(int fd, const char *path, struct elf_image *image, struct error *err)
{
	struct file_map map = { 0 };

	return file_map_fd(fd, path, &map, err) && open_map(path, map, image, err);
}

void elf_image_close(struct elf_image *image)
{
	file_unmap(&image->map);
	free(image->owned);
	free(image->path);
	free(image->sections);
	free(image->segments);
	*image = (struct elf_image){ 0 };
}

const struct elf_section *elf_image_section(const struct elf_image *image, const char *name)
{
	for (size_t i = 0; i < image->section_count; i++) {
		const struct elf_section *const section = &image->sections[i];
		if (section->type != SHT_NOBITS && section->type != SHT_NULL &&
			strcmp(section->name, name) == 0)
			return section;
	}
	return NULL;
}

/*
 * What the packed sections claim to hold, of both kinds: several may claim the same bytes. The
 * section that claims most goes to `largest`, with its size.
 */
static uint64_t claimed_bytes(
	const struct elf_image *image, const char **largest, uint64_t *largest_bytes)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < image->section_count; i++) {
		const struct elf_section *const section = &image->sections[i];
		Elf64_Chdr header;
		uint64_t size = 0;
		/* Their offsets need not be in the file. */
		if (section->type == SHT_NULL || section->type == SHT_NOBITS)
			continue;
		const unsigned char *const data = image->data + section->offset;
		if ((section->flags & SHF_COMPRESSED) != 0 && section->size >= sizeof header) {
			memcpy(&header, data, sizeof header);
			size = header.ch_size;
		} else if (strncmp(section->name, ".zdebug_", 8) == 0 && section->size >= 12) {
			memcpy(&size, data + 4, sizeof size);
			size = be64toh(size);
		}
		if (size > *largest_bytes) {
			*largest = section->name;
			*largest_bytes = size;
		}
		if (__builtin_add_overflow(sum, size, &sum))
			return UINT64_MAX;
	}
	return sum;
}

static bool check_claims(const struct elf_image *image, struct error *err)
{
	const char *largest = "";
	uint64_t largest_bytes = 0;
	const uint64_t claimed = claimed_bytes(image, &largest, &largest_bytes);

	if (claimed <= unpack_limit(image->size))
		return true;
	return error_set(err, ERROR_INPUT,
		"%s: its compressed sections claim to hold %llu bytes (%.32s %llu), which a file "
		"of %zu bytes does not: damaged or malicious",
		image->path, (unsigned long long)claimed, largest,
		(unsigned long long)largest_bytes, image->size);
}

/* gcc's older way: ".zdebug_info" begins with "ZLIB" and the size, big-endian. */
static bool find_zdebug(const struct elf_image *image, const char *name, struct elf_packed *packed,
	struct error *err)
{
	char old_name[64] = ".z";

	if (strlen(name) + 2 > sizeof old_name || name[0] != '.')
		return true;
	strcpy(old_name + 2, name + 1);
	const struct elf_section *const section = elf_image_section(image, old_name);
	if (section == NULL)
		return true;
	const unsigned char *const data = image->data + section->offset;
	uint64_t size = 0;
	if (!check_claims(image, err))
		return false;
	if (section->size < 12 || memcmp(data, "ZLIB", 4) != 0)
		return error_set(err, ERROR_INPUT, "%s: %s: damaged header", image->path, old_name);
	memcpy(&size, data + 4, sizeof size);
	*packed = (struct elf_packed){ UNPACK_ZLIB, data + 12, section->size - 12, be64toh(size) };
	return true;
}

bool elf_image_find_packed(const struct elf_image *image, const char *name,
	struct elf_packed *packed, struct error *err)
{
	const struct elf_section *const section = elf_image_section(image, name);
	Elf64_Chdr header;

	*packed = (struct elf_packed){ 0 };
	if (section == NULL)
		return find_zdebug(image, name, packed, err);
	const unsigned char *const data = image->data + section->offset;
	if ((section->flags & SHF_COMPRESSED) == 0)
		return true;
	if (section->size < sizeof header)
		return error_set(err, ERROR_INPUT, "%s: %s: damaged header", image->path, name);
	if (!check_claims(image, err))
		return false;
	memcpy(&header, data, sizeof header);
	*packed = (struct elf_packed){
		.format = header.ch_type == ELFCOMPRESS_ZLIB	       ? UNPACK_ZLIB
			  : header.ch_type == 2 /* ELFCOMPRESS_ZSTD */ ? UNPACK_ZSTD
								       : UNPACK_UNKNOWN,
		.data = data + sizeof header,
		.data_size = section->size - sizeof header,
		.size = header.ch_size,
	};
	return true;
}

void elf_image_release(const struct elf_image *image, const unsigned char *data, size_t size)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	const uintptr_t start = ((uintptr_t)data + page - 1) & -page;
	const uintptr_t limit = ((uintptr_t)data + size) & -page;

	/* Memory that is not of a file would be lost. */
	if (image->map.data != NULL && start < limit)
		(void)madvise((void *)start, limit - start, MADV_DONTNEED);
}

bool elf_image_load(const struct elf_image *image, const char *name, bool may_populate,
	struct elf_bytes *bytes, struct error *err)
{
	const struct elf_section *const section = elf_image_section(image, name);
	struct elf_packed packed;

	*bytes = (struct elf_bytes){ .data = (const unsigned char *)"" };
	if (!elf_image_find_packed(image, name, &packed, err))
		return false;
	if (packed.data == NULL) {
		if (section != NULL)
			*bytes = (struct elf_bytes){
				.data = image->data + section->offset,
				.size = section->size,
			};
		return true;
	}
	if (!unpack_sized(packed.format, packed.data, packed.data_size, packed.size, may_populate,
		    bytes, err))
		return error_prefix(err, "%s: %s", image->path, name);
	elf_image_release(image, packed.data, packed.data_size);
	return true;
}

const struct elf_segment *elf_image_segment_at(const struct elf_image *image, uint64_t file_offset)
{
	const struct elf_segment *found = NULL;

	for (size_t i = 0; i < image->segment_count; i++) {
		const struct elf_segment *const segment = &image->segments[i];
		if (file_offset < segment->offset ||
			file_offset - segment->offset >= segment->file_bytes)
			continue;
		if (segment->executable)
			return segment;
		found = segment;
	}
	return found;
}

/* The text that a link section begins with, and what follows it. */
static const char *link_text(const struct elf_image *image, const char *name, struct cursor *rest)
{
	const struct elf_section *const section = elf_image_section(image, name);

	if (section == NULL)
		return NULL;
	*rest = cursor_over(image->data + section->offset, section->size);
	const char *const text = cursor_string(rest);
	return cursor_ok(rest) && text[0] != '\0' ? text : NULL;
}

const char *elf_image_debug_link(const struct elf_image *image, uint32_t *crc)
{
	struct cursor rest;
	const char *const text = link_text(image, ".gnu_debuglink", &rest);

	if (text == NULL)
		return NULL;
	cursor_seek(&rest, (cursor_offset(&rest) + 3) & ~(size_t)3);
	const uint32_t value = cursor_u32(&rest);
	if (!cursor_ok(&rest))
		return NULL;
	*crc = value;
	return text;
}

const char *elf_image_alternate_link(
	const struct elf_image *image, char build_id[ELF_BUILD_ID_TEXT_BYTES])
{
	struct cursor rest;
	const char *const text = link_text(image, ".gnu_debugaltlink", &rest);

	if (text == NULL)
		return read_supplement(image, false, build_id);
	write_hex(rest.position, cursor_left(&rest), build_id);
	return text;
}
