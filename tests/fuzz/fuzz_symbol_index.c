/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An index of symbols. The first byte says what follows: the section, whose checksum is mended, or
 * the contents of a block of each kind, after two lengths of 16 bits, which are packed here.
 */
#include <endian.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/hash_index.h"
#include "elf_builder.h"
#include "fuzz_symbol.h"
#include "symbol/symbol_index.h"
#include "symbol/symbol_index_format.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mend_checksum(struct buffer *section)
{
	struct symbol_index_header header;
	uint64_t bytes = 0;

	if (section->size < sizeof header)
		return;
	memcpy(&header, section->data, sizeof header);
	for (int kind = 0; kind < SYMBOL_INDEX_KINDS; kind++)
		bytes += (uint64_t)header.block_counts[kind] * sizeof(struct symbol_index_block);
	if (bytes > section->size - sizeof header)
		return;
	header.checksum = 0;
	header.checksum = hash_fixed_combine(hash_fixed_bytes(&header, sizeof header),
		hash_fixed_bytes(section->data + sizeof header, bytes));
	memcpy(section->data, &header, sizeof header);
}

static void pack_blocks(struct buffer *section, const uint8_t *data, size_t size)
{
	static const uint64_t firsts[SYMBOL_INDEX_KINDS] = { 0x1000, 0, 0 };
	struct symbol_index_header header = {
		.version = SYMBOL_INDEX_VERSION,
		.source = SYMBOL_SOURCE_DWARF,
		.block_counts = { 1, 1, 1 },
	};
	struct symbol_index_block blocks[SYMBOL_INDEX_KINDS];
	char packed[3][ZSTD_COMPRESSBOUND(1 << 16)];
	uint64_t offset = sizeof header + sizeof blocks;

	memcpy(header.magic, symbol_index_magic, sizeof header.magic);
	for (int kind = 0; kind < SYMBOL_INDEX_KINDS; kind++) {
		uint16_t wanted = UINT16_MAX;
		if (kind + 1 < SYMBOL_INDEX_KINDS && size >= sizeof wanted) {
			memcpy(&wanted, data, sizeof wanted);
			data += sizeof wanted;
			size -= sizeof wanted;
		}
		const size_t given = le16toh(wanted) < size ? le16toh(wanted) : size;
		const size_t bytes =
			ZSTD_compress(packed[kind], sizeof packed[kind], data, given, 1);
		blocks[kind] = (struct symbol_index_block){ firsts[kind], offset, (uint32_t)bytes,
			(uint32_t)given };
		offset += bytes;
		data += given;
		size -= given;
	}
	buffer_append(section, &header, sizeof header);
	buffer_append(section, blocks, sizeof blocks);
	for (int kind = 0; kind < SYMBOL_INDEX_KINDS; kind++)
		buffer_append(section, packed[kind], blocks[kind].packed_bytes);
}

static void find_all(const struct elf_image *image)
{
	CLEANUP(symbol_index_cleanup) struct symbol_index *index = NULL;
	uint64_t vaddrs[FUZZ_ADDRESSES];
	struct work_budget budget;
	struct error err;

	work_budget_init(&budget);
	work_budget_allow_addresses(&budget, FUZZ_ADDRESSES);
	fuzz_choose(image, vaddrs);
	if (!symbol_index_open(image, &budget, &index, &err))
		return;
	fuzz_read_answers(symbol_index_find(index, vaddrs, FUZZ_ADDRESSES, 1));
}

static void find_functions(const struct elf_image *image)
{
	CLEANUP(symbol_index_cleanup) struct symbol_index *index = NULL;
	struct work_budget budget;
	size_t count = 0;
	struct error err;

	work_budget_init(&budget);
	if (symbol_index_open(image, &budget, &index, &err))
		free(symbol_index_functions(index, &count));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(buffer_deinit) struct buffer section = BUFFER_OR_EXIT;
	CLEANUP(elf_image_close) struct elf_image image = { 0 };
	struct elf_builder builder;
	struct error err;

	if (size == 0)
		return 0;
	if (data[0] % 2 == 0) {
		buffer_append(&section, data + 1, size - 1);
		mend_checksum(&section);
	} else {
		pack_blocks(&section, data + 1, size - 1);
	}
	elf_builder_init(&builder);
	elf_builder_add_code(&builder, 0x1000, 0x1000);
	elf_builder_add_data(&builder, SYMBOL_INDEX_SECTION, section.data, section.size);
	elf_builder_finish(&builder);
	if (elf_image_over("fuzz", builder.out.data, builder.out.size, NULL, &image, &err)) {
		find_all(&image);
		find_functions(&image);
	}
	elf_builder_deinit(&builder);
	return 0;
}
