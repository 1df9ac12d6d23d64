/* SPDX-License-Identifier: Apache-2.0 */
/* Makes ELF files in memory, section by section. */
#pragma once

#include <elf.h>
#include <string.h>

#include "base/buffer.h"

enum { ELF_BUILDER_SECTIONS = 24 };

struct elf_builder {
	struct buffer out; /* the file, once elf_builder_finish was called */
	struct buffer names;
	Elf64_Shdr headers[ELF_BUILDER_SECTIONS];
	size_t count;
};

static inline void elf_builder_init(struct elf_builder *builder)
{
	static const Elf64_Ehdr empty;

	*builder = (struct elf_builder){ .count = 1 };
	buffer_init(&builder->out, &memory_heap);
	buffer_init(&builder->names, &memory_heap);
	buffer_append(&builder->out, &empty, sizeof empty);
	buffer_append_char(&builder->names, '\0');
}

static inline void elf_builder_deinit(struct elf_builder *builder)
{
	buffer_deinit(&builder->out);
	buffer_deinit(&builder->names);
}

/* Returns the section's number. A section of type SHT_NOBITS keeps the size in `header`. */
static inline size_t elf_builder_add(struct elf_builder *builder, const char *name,
	const Elf64_Shdr *header, const void *data, size_t size)
{
	Elf64_Shdr *const added = &builder->headers[builder->count];

	*added = *header;
	added->sh_name = (Elf64_Word)builder->names.size;
	added->sh_offset = builder->out.size;
	buffer_append(&builder->names, name, strlen(name) + 1);
	if (header->sh_type != SHT_NOBITS) {
		added->sh_size = size;
		buffer_append(&builder->out, data, size);
	}
	return builder->count++;
}

/* A .text of `size` bytes at `vaddr`, whose contents are left out as in a debug file. */
static inline size_t elf_builder_add_code(
	struct elf_builder *builder, uint64_t vaddr, uint64_t size)
{
	const Elf64_Shdr header = { .sh_type = SHT_NOBITS,
		.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
		.sh_addr = vaddr,
		.sh_size = size };

	return elf_builder_add(builder, ".text", &header, NULL, 0);
}

static inline size_t elf_builder_add_data(
	struct elf_builder *builder, const char *name, const void *data, size_t size)
{
	const Elf64_Shdr header = { .sh_type = SHT_PROGBITS };

	return elf_builder_add(builder, name, &header, data, size);
}

/* Writes the names and the headers; builder->out is the file then. */
static inline void elf_builder_finish(struct elf_builder *builder)
{
	static const char own_name[] = ".shstrtab";
	const Elf64_Shdr strings = { .sh_type = SHT_STRTAB };
	Elf64_Ehdr header = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
			EV_CURRENT },
		.e_shentsize = sizeof(Elf64_Shdr),
	};

	const size_t at = elf_builder_add(builder, own_name, &strings, NULL, 0);
	builder->headers[at].sh_size = builder->names.size;
	buffer_append(&builder->out, builder->names.data, builder->names.size);
	header.e_shoff = builder->out.size;
	header.e_shnum = (Elf64_Half)builder->count;
	header.e_shstrndx = (Elf64_Half)at;
	buffer_append(&builder->out, builder->headers, builder->count * sizeof *builder->headers);
	memcpy(builder->out.data, &header, sizeof header);
}
