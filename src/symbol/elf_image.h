/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file as a symbolizer needs it: sections, what is loaded where, the build-id. 64-bit
 * little-endian files, the only ones that run a server here. Every offset in the file is checked
 * before it is followed: a file is input, and may be damaged or hostile.
 *
 * Words. A *vaddr* is an address as the file's own headers, symbols and DWARF have it; the runtime
 * address is the vaddr plus where the loader put the file. A *debug file* keeps the sections'
 * headers but not the contents of code and data.
 *
 * An image is not changed after it was opened: any thread may read it.
 */
#pragma once

#include <elf.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"

enum {
	ELF_BUILD_ID_TEXT_BYTES = 2 * 64 + 1,
};

struct elf_section {
	const char *name; /* in the file */
	uint32_t type;
	uint32_t link; /* position of a related section */
	uint64_t flags;
	uint64_t vaddr;
	uint64_t offset;
	uint64_t size; /* within the file, unless the type is SHT_NOBITS */
	uint64_t entry_bytes;
};

/* A PT_LOAD: what the loader maps. */
struct elf_segment {
	uint64_t offset;
	uint64_t file_bytes;
	uint64_t vaddr;
	uint64_t memory_bytes;
	bool executable;
};

struct elf_image {
	char *path; /* what was opened, for messages */
	const unsigned char *data;
	size_t size;
	struct file_map map; /* behind data, or empty when `owned` or somebody else's memory is */
	void *owned;
	struct elf_section *sections;
	size_t section_count;
	struct elf_segment *segments;
	size_t segment_count;
	uint64_t code_start; /* lowest and one past the highest vaddr of code */
	uint64_t code_limit;
	bool has_code; /* the code itself is in the file: it is no debug file */
	char build_id[ELF_BUILD_ID_TEXT_BYTES]; /* lower-case hex; "" when there is none */
};

/* Bytes of a section: part of the image's file, or unpacked into memory of their own. */
struct elf_bytes {
	const unsigned char *data;
	size_t size;
	void *owned;
};

/* A table of NUL-terminated texts, cut behind its last NUL so that every text in it ends inside. */
struct elf_bytes elf_text_table(const void *data, size_t size);

/* The text at an offset of such a table; "" when there is none. */
static inline const char *elf_text_at(const struct elf_bytes *table, uint64_t offset)
{
	return offset < table->size ? (const char *)table->data + offset : "";
}

MUST_CHECK bool elf_image_open(const char *path, struct elf_image *image, struct error *err);

/* The descriptor may be closed afterwards; `path` is the image's, for messages. */
MUST_CHECK bool elf_image_open_fd(
	int fd, const char *path, struct elf_image *image, struct error *err);

/* Borrows `data`; takes it over when `owned` is not NULL, on failure too. */
MUST_CHECK bool elf_image_over(const char *name, const void *data, size_t size, void *owned,
	struct elf_image *image, struct error *err);
void elf_image_close(struct elf_image *image);

static inline void elf_image_cleanup(struct elf_image *image)
{
	elf_image_close(image);
}

/* NULL when there is none of this name with contents. */
const struct elf_section *elf_image_section(const struct elf_image *image, const char *name);

/*
 * The contents, unpacked if they are compressed (SHF_COMPRESSED; .zdebug_ under the plain name).
 * False only when they are damaged; a section that does not exist has size 0.
 */
MUST_CHECK bool elf_image_load(const struct elf_image *image, const char *name,
	struct elf_bytes *bytes, struct error *err);
void elf_bytes_free(struct elf_bytes *bytes);

/* The segment that holds this byte of the file, code first; NULL when none does. */
const struct elf_segment *elf_image_segment_at(const struct elf_image *image, uint64_t file_offset);
