/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file as a symbolizer needs it: sections, segments, the build-id. Only 64-bit little-endian
 * files. Every offset in the file is checked before use: a file is input, and may be damaged or
 * hostile.
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
#include "symbol/unpack.h"

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
	struct file_map map; /* the memory of `data`, or empty when that is owned or borrowed */
	void *owned;
	struct elf_section *sections;
	size_t section_count;
	struct elf_segment *segments;
	size_t segment_count;
	uint64_t code_start; /* lowest and one past the highest vaddr of code */
	uint64_t code_limit;
	bool has_code; /* the code itself is in the file, so it is not a debug file */
	char build_id[ELF_BUILD_ID_TEXT_BYTES]; /* lower-case hex; "" when there is none */
};

MUST_CHECK bool elf_image_open(const char *path, struct elf_image *image, struct error *err);

/* The descriptor may be closed afterwards; `path` is the image's, for messages. */
MUST_CHECK bool elf_image_open_fd(
	int fd, const char *path, struct elf_image *image, struct error *err);

/* Borrows `data`; takes it over when `owned` is not NULL, on failure too. */
MUST_CHECK bool elf_image_over(const char *name, const void *data, size_t size, void *owned,
	struct elf_image *image, struct error *err);
void elf_image_close(struct elf_image *image);

/* NULL when there is none of this name with contents. */
const struct elf_section *elf_image_section(const struct elf_image *image, const char *name);

/*
 * The contents, unpacked if they are compressed (SHF_COMPRESSED; .zdebug_ under the plain name).
 * False only when they are damaged; a section that does not exist has size 0. With `may_populate` a
 * second thread gets the memory of a large one ready.
 */
MUST_CHECK bool elf_image_load(const struct elf_image *image, const char *name, bool may_populate,
	struct elf_bytes *bytes, struct error *err);

/* What is packed in a section, as it is in the file. */
struct elf_packed {
	enum unpack_format format;
	const unsigned char *data;
	size_t data_size;
	uint64_t size; /* unpacked */
};

/*
 * The section of this name, if it exists and is compressed; else its `data` is NULL. False when it
 * is damaged.
 */
MUST_CHECK bool elf_image_find_packed(const struct elf_image *image, const char *name,
	struct elf_packed *packed, struct error *err);

/*
 * Lets the kernel take back the memory of bytes of the file that were read. They may be read again:
 * they come from the file then.
 */
void elf_image_release(const struct elf_image *image, const unsigned char *data, size_t size);

/* The segment that contains this byte of the file, code first; NULL without one. */
const struct elf_segment *elf_image_segment_at(const struct elf_image *image, uint64_t file_offset);

/* What .gnu_debuglink names, with the CRC-32 of that file; NULL when there is none. */
const char *elf_image_debug_link(const struct elf_image *image, uint32_t *crc);

/*
 * The file to which dwz moved the common parts of several files, and its build-id:
 * .gnu_debugaltlink or, in DWARF 5, .debug_sup. The name in the file, NULL when there is none.
 */
const char *elf_image_alternate_link(
	const struct elf_image *image, char build_id[ELF_BUILD_ID_TEXT_BYTES]);
