/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/elf_identity.h"

#include <string.h>

#include "base/cursor.h"

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

static bool find_build_id_in(struct elf_image *image, uint64_t offset, uint64_t size)
{
	struct cursor notes = cursor_over(image->data + offset, size);

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
 * which supplementary file they want. The name in the file, NULL when it is not of that kind.
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

void elf_identify(struct elf_image *image, const Elf64_Ehdr *header)
{
	for (size_t i = 0; i < image->section_count; i++) {
		const struct elf_section *const section = &image->sections[i];
		if (section->type == SHT_NOTE &&
			find_build_id_in(image, section->offset, section->size))
			return;
	}
	for (size_t i = 0; i < header->e_phnum; i++) {
		Elf64_Phdr note;
		uint64_t at = 0;
		if (__builtin_add_overflow(header->e_phoff, i * sizeof note, &at) ||
			at > image->size || image->size - at < sizeof note)
			break;
		memcpy(&note, image->data + at, sizeof note);
		if (note.p_type == PT_NOTE && note.p_offset <= image->size &&
			note.p_filesz <= image->size - note.p_offset &&
			find_build_id_in(image, note.p_offset, note.p_filesz))
			return;
	}
	/* A supplementary file has a checksum in place of a build-id. */
	(void)read_supplement(image, true, image->build_id);
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
