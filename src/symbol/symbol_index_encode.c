/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_index_encode.h"

#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/cursor.h"
#include "base/xalloc.h"

enum {
	MAX_TEXT_BYTES = 1 << 20, /* a longer name or path is left out */
	PACK_LEVEL = 12,
	FUNCTIONS_PER_BLOCK = SYMBOL_INDEX_BLOCK_BYTES / sizeof(struct symbol_index_function),
};

static bool is_text(const void *items, uint32_t position, const void *key)
{
	const struct symbol_chains *const chains = items;

	return strcmp(chains->text.data + chains->text_offsets[position], key) == 0;
}

static uint32_t add_text(struct symbol_chains *chains, const char *text)
{
	size_t size = strlen(text);

	/* Many frames may share a long text, and each of them reads it. */
	if (size > MAX_TEXT_BYTES ||
		(chains->budget != NULL && !work_budget_spend(chains->budget, size))) {
		text = "";
		size = 0;
	}
	const uint32_t next = (uint32_t)chains->text_count;
	const uint32_t found = hash_index_add(
		&chains->text_index, hash_bytes(text, size), is_text, chains, text, next);
	if (found != HASH_INDEX_NONE)
		return chains->text_offsets[found];
	chains->is_full = chains->is_full || chains->text.size > UINT32_MAX / 2;
	*XAPPEND(chains->text_offsets, chains->text_count, chains->text_capacity) =
		(uint32_t)chains->text.size;
	buffer_append(&chains->text, text, size + 1);
	return chains->text_offsets[next];
}

void symbol_chains_init(struct symbol_chains *chains, struct work_budget *budget)
{
	*chains = (struct symbol_chains){ .budget = budget };
	buffer_init(&chains->text, &memory_or_exit);
	hash_index_init(&chains->text_index);
	hash_index_init(&chains->function_index);
	hash_index_init(&chains->chain_index);
	/* The text at 0 is the empty one. */
	(void)add_text(chains, "");
	*XAPPEND(chains->chains, chains->chain_count, chains->chain_capacity) =
		(struct symbol_chain){ 0 };
}

void symbol_chains_deinit(struct symbol_chains *chains)
{
	buffer_deinit(&chains->text);
	free(chains->text_offsets);
	hash_index_deinit(&chains->text_index);
	free(chains->functions);
	hash_index_deinit(&chains->function_index);
	free(chains->chains);
	hash_index_deinit(&chains->chain_index);
}

static bool is_function(const void *items, uint32_t position, const void *key)
{
	return memcmp(&((const struct symbol_index_function *)items)[position], key,
		       sizeof(struct symbol_index_function)) == 0;
}

static uint32_t add_function(struct symbol_chains *chains, const struct dwarf_frame *frame)
{
	const struct symbol_index_function function = {
		.name = add_text(chains, frame->name),
		.linkage = add_text(chains, frame->linkage),
		.start_line = frame->start_line,
	};
	const uint32_t next = (uint32_t)chains->function_count;
	const uint32_t found =
		hash_index_add(&chains->function_index, hash_bytes(&function, sizeof function),
			is_function, chains->functions, &function, next);

	if (found != HASH_INDEX_NONE)
		return found;
	*XAPPEND(chains->functions, chains->function_count, chains->function_capacity) = function;
	return next;
}

static bool is_chain(const void *items, uint32_t position, const void *key)
{
	return memcmp(&((const struct symbol_chain *)items)[position], key,
		       sizeof(struct symbol_chain)) == 0;
}

uint32_t symbol_chains_add(
	struct symbol_chains *chains, uint32_t outer, const struct dwarf_frame *frame)
{
	const struct symbol_chain chain = {
		.outer = outer,
		.function = add_function(chains, frame),
		.file = add_text(chains, frame->file),
		.line = frame->line,
	};
	const uint32_t next = (uint32_t)chains->chain_count;
	const uint32_t found = hash_index_add(&chains->chain_index,
		hash_bytes(&chain, sizeof chain), is_chain, chains->chains, &chain, next);

	if (found != HASH_INDEX_NONE)
		return found;
	chains->is_full = chains->is_full || next > UINT32_MAX / 2;
	*XAPPEND(chains->chains, chains->chain_count, chains->chain_capacity) = chain;
	return next;
}

/* Blocks that were packed: their table, and their bytes. */
struct packer {
	ZSTD_CCtx *context;
	struct symbol_index_block *blocks;
	size_t count, capacity;
	uint32_t kind_counts[SYMBOL_INDEX_KINDS];
	struct buffer packed;
	bool failed;
};

static void pack(struct packer *packer, enum symbol_index_kind kind, uint64_t first,
	const void *data, size_t size)
{
	const size_t room = ZSTD_compressBound(size);

	if (size == 0 || packer->failed)
		return;
	if (size > SYMBOL_INDEX_MAX_BLOCK_BYTES || !buffer_reserve(&packer->packed, room)) {
		packer->failed = true;
		return;
	}
	const size_t packed = ZSTD_compress2(
		packer->context, packer->packed.data + packer->packed.size, room, data, size);
	if (ZSTD_isError(packed)) {
		packer->failed = true;
		return;
	}
	*XAPPEND(packer->blocks, packer->count, packer->capacity) = (struct symbol_index_block){
		.first = first,
		.offset = packer->packed.size,
		.packed_bytes = (uint32_t)packed,
		.bytes = (uint32_t)size,
	};
	packer->packed.size += packed;
	packer->kind_counts[kind]++;
}

/* The frames of a chain, the outermost first. */
struct frames {
	struct symbol_chain items[SYMBOL_INDEX_MAX_FRAMES];
	size_t count;
};

static void list_frames(const struct symbol_chains *chains, uint32_t chain, struct frames *frames)
{
	size_t count = 0;

	for (uint32_t at = chain; at != NO_SYMBOL_CHAIN; at = chains->chains[at].outer)
		count++;
	frames->count = count > SYMBOL_INDEX_MAX_FRAMES ? 0 : count;
	for (uint32_t at = chain; frames->count != 0 && at != NO_SYMBOL_CHAIN;
		at = chains->chains[at].outer)
		frames->items[--count] = chains->chains[at];
}

static void append_uleb(struct buffer *out, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		buffer_append_char(out, (char)(value | 0x80));
	buffer_append_char(out, (char)value);
}

static void append_sleb(struct buffer *out, int64_t value)
{
	for (; value < -0x40 || value >= 0x40; value >>= 7)
		buffer_append_char(out, (char)((value & 0x7f) | 0x80));
	buffer_append_char(out, (char)(value & 0x7f));
}

static void append_range(struct buffer *out, const struct frames *frames, struct frames *before)
{
	size_t shared = 0;

	while (shared < frames->count && shared < before->count &&
		frames->items[shared].function == before->items[shared].function &&
		frames->items[shared].file == before->items[shared].file &&
		frames->items[shared].line == before->items[shared].line)
		shared++;
	append_uleb(out, frames->count);
	if (frames->count != 0)
		append_uleb(out, shared);
	for (size_t i = shared; i < frames->count; i++) {
		const struct symbol_chain *const frame = &frames->items[i];
		const struct symbol_chain last =
			i < before->count ? before->items[i] : (struct symbol_chain){ 0 };
		append_uleb(
			out, frame->function == last.function ? 0 : (uint64_t)frame->function + 1);
		append_uleb(out, frame->file == last.file ? 0 : (uint64_t)frame->file + 1);
		append_sleb(out, (int64_t)frame->line - (int64_t)last.line);
	}
	before->count = frames->count;
	memcpy(before->items, frames->items, frames->count * sizeof *frames->items);
}

/* A block of ranges while it is filled. */
struct range_block {
	uint64_t first;
	uint64_t last_vaddr;
	size_t count;	      /* of ranges */
	struct buffer groups; /* of struct symbol_index_group */
	struct buffer records;
	struct frames before;
};

static void pack_range_block(struct packer *packer, struct range_block *block)
{
	CLEANUP(buffer_deinit) struct buffer whole = BUFFER_OR_EXIT;
	const uint32_t group_count =
		(uint32_t)(block->groups.size / sizeof(struct symbol_index_group));

	if (group_count == 0)
		return;
	buffer_append(&whole, &group_count, sizeof group_count);
	buffer_append(&whole, block->groups.data, block->groups.size);
	buffer_append(&whole, block->records.data, block->records.size);
	pack(packer, SYMBOL_INDEX_RANGES, block->first, whole.data, whole.size);
	buffer_clear(&block->groups);
	buffer_clear(&block->records);
	block->count = 0;
}

static void add_range(struct packer *packer, struct range_block *block, uint64_t vaddr,
	const struct frames *frames)
{
	if (block->records.size >= SYMBOL_INDEX_BLOCK_BYTES || vaddr - block->first > UINT32_MAX)
		pack_range_block(packer, block);
	if (block->count == 0)
		block->first = vaddr;
	if (block->count++ % SYMBOL_INDEX_GROUP_RANGES == 0) {
		const struct symbol_index_group group = { (uint32_t)(vaddr - block->first),
			(uint32_t)block->records.size };
		buffer_append(&block->groups, &group, sizeof group);
		block->before.count = 0;
		block->last_vaddr = vaddr;
	}
	append_uleb(&block->records, vaddr - block->last_vaddr);
	append_range(&block->records, frames, &block->before);
	block->last_vaddr = vaddr;
}

static uint64_t pack_ranges(struct packer *packer, const struct symbol_chains *chains,
	const struct symbol_ranges *ranges)
{
	CLEANUP(free_cleanup) struct frames *frames = xmalloc(sizeof *frames);
	CLEANUP(free_cleanup) struct range_block *block = xcalloc(1, sizeof *block);
	uint32_t last = NO_SYMBOL_CHAIN;
	uint64_t count = 0;

	buffer_init(&block->groups, &memory_or_exit);
	buffer_init(&block->records, &memory_or_exit);
	for (size_t i = 0; i < ranges->count; i++) {
		if (ranges->chains[i] == last)
			continue;
		list_frames(chains, ranges->chains[i], frames);
		add_range(packer, block, ranges->vaddrs[i], frames);
		last = ranges->chains[i];
		count++;
	}
	pack_range_block(packer, block);
	buffer_deinit(&block->groups);
	buffer_deinit(&block->records);
	return count;
}

static void pack_functions(struct packer *packer, const struct symbol_chains *chains)
{
	for (size_t at = 0; at < chains->function_count; at += FUNCTIONS_PER_BLOCK) {
		const size_t left = chains->function_count - at;
		const size_t count = left < FUNCTIONS_PER_BLOCK ? left : FUNCTIONS_PER_BLOCK;
		pack(packer, SYMBOL_INDEX_FUNCTIONS, at, &chains->functions[at],
			count * sizeof *chains->functions);
	}
}

static void pack_texts(struct packer *packer, const struct symbol_chains *chains)
{
	const struct buffer *const text = &chains->text;

	for (size_t at = 0; at < text->size;) {
		const size_t enough = text->size - at < SYMBOL_INDEX_BLOCK_BYTES
					      ? text->size - at
					      : SYMBOL_INDEX_BLOCK_BYTES;
		/* A text is not cut. */
		const char *const end =
			memchr(text->data + at + enough - 1, '\0', text->size - at - enough + 1);
		const size_t size = (size_t)(end + 1 - (text->data + at));
		pack(packer, SYMBOL_INDEX_TEXTS, at, text->data + at, size);
		at += size;
	}
}

/* The contents of the section. */
static void append_section(struct buffer *out, struct packer *packer, enum symbol_source source)
{
	const size_t table_bytes = packer->count * sizeof *packer->blocks;
	struct symbol_index_header header = {
		.version = SYMBOL_INDEX_VERSION,
		.source = (uint32_t)source,
	};

	memcpy(header.magic, symbol_index_magic, sizeof header.magic);
	memcpy(header.block_counts, packer->kind_counts, sizeof header.block_counts);
	for (size_t i = 0; i < packer->count; i++)
		packer->blocks[i].offset += sizeof header + table_bytes;
	header.checksum = hash_fixed_combine(hash_fixed_bytes(&header, sizeof header),
		hash_fixed_bytes(packer->blocks, table_bytes));
	buffer_append(out, &header, sizeof header);
	buffer_append(out, packer->blocks, table_bytes);
	buffer_append(out, packer->packed.data, packer->packed.size);
}

static void append_zeros(struct buffer *out, size_t alignment)
{
	while (out->size % alignment != 0)
		buffer_append_char(out, '\0');
}

static void append_note(struct buffer *out, const char *build_id)
{
	const size_t size = strlen(build_id) / 2;
	const Elf64_Nhdr note = { 4, (Elf64_Word)size, NT_GNU_BUILD_ID };

	buffer_append(out, &note, sizeof note);
	buffer_append(out, "GNU", 4);
	for (size_t i = 0; i < size; i++)
		buffer_append_char(out,
			(char)(hex_digit(build_id[2 * i]) << 4 | hex_digit(build_id[2 * i + 1])));
}

static const char section_names[] =
	"\0.note.gnu.build-id\0.text\0" SYMBOL_INDEX_SECTION "\0.shstrtab";

static Elf64_Word name_of(const char *name)
{
	const char *const found =
		memmem(section_names, sizeof section_names, name, strlen(name) + 1);

	return (Elf64_Word)(found - section_names);
}

enum { SECTION_COUNT = 5 };

/* Where a section of the file is that is being written. */
struct extent {
	size_t start;
	size_t limit;
};

static void append_section_headers(struct buffer *out, const struct elf_image *image,
	const struct extent *note, const struct extent *index, const struct extent *names)
{
	const Elf64_Shdr headers[SECTION_COUNT] = {
		{ 0 },
		{ .sh_name = name_of(".note.gnu.build-id"),
			.sh_type = SHT_NOTE,
			.sh_offset = note->start,
			.sh_size = note->limit - note->start,
			.sh_addralign = 4 },
		/* As in a debug file: the code is elsewhere, and these are its addresses. */
		{ .sh_name = name_of(".text"),
			.sh_type = SHT_NOBITS,
			.sh_flags = SHF_ALLOC | SHF_EXECINSTR,
			.sh_addr = image->code_start,
			.sh_offset = note->start,
			.sh_size = image->code_limit - image->code_start,
			.sh_addralign = 1 },
		{ .sh_name = name_of(SYMBOL_INDEX_SECTION),
			.sh_type = SHT_PROGBITS,
			.sh_offset = index->start,
			.sh_size = index->limit - index->start,
			.sh_addralign = 8 },
		{ .sh_name = name_of(".shstrtab"),
			.sh_type = SHT_STRTAB,
			.sh_offset = names->start,
			.sh_size = names->limit - names->start,
			.sh_addralign = 1 },
	};

	buffer_append(out, headers, sizeof headers);
}

static void append_program_headers(struct buffer *out, const struct elf_image *image)
{
	for (size_t i = 0; i < image->segment_count; i++) {
		const struct elf_segment *const segment = &image->segments[i];
		const Elf64_Phdr header = {
			.p_type = PT_LOAD,
			.p_flags = PF_R | (segment->executable ? PF_X : 0),
			.p_vaddr = segment->vaddr,
			.p_paddr = segment->vaddr,
			.p_memsz = segment->memory_bytes,
			.p_align = 4096,
		};
		buffer_append(out, &header, sizeof header);
	}
}

static void append_file(struct buffer *out, const struct elf_image *image, struct packer *packer,
	enum symbol_source source)
{
	CLEANUP(buffer_deinit) struct buffer file = BUFFER_OR_EXIT;
	struct extent note;
	struct extent index;
	struct extent names;
	Elf64_Ehdr header;

	memcpy(&header, image->data, sizeof header); /* the machine, and the kind of file */
	header.e_entry = 0;
	header.e_flags = 0;
	header.e_phoff = sizeof header;
	header.e_phentsize = sizeof(Elf64_Phdr);
	header.e_phnum = (Elf64_Half)image->segment_count;
	header.e_ehsize = sizeof header;
	header.e_shentsize = sizeof(Elf64_Shdr);
	header.e_shnum = SECTION_COUNT;
	header.e_shstrndx = SECTION_COUNT - 1;
	buffer_append(&file, &header, sizeof header);
	append_program_headers(&file, image);
	note.start = file.size;
	append_note(&file, image->build_id);
	note.limit = file.size;
	append_zeros(&file, 8);
	index.start = file.size;
	append_section(&file, packer, source);
	index.limit = file.size;
	names.start = file.size;
	buffer_append(&file, section_names, sizeof section_names);
	names.limit = file.size;
	append_zeros(&file, 8);
	header.e_shoff = file.size;
	append_section_headers(&file, image, &note, &index, &names);
	memcpy(file.data, &header, sizeof header);
	buffer_append(out, file.data, file.size);
}

bool symbol_index_encode(const struct symbol_chains *chains, const struct symbol_ranges *ranges,
	const struct elf_image *image, enum symbol_source source, struct buffer *out,
	uint64_t *range_count, struct error *err)
{
	struct packer packer = { .context = ZSTD_createCCtx() };

	buffer_init(&packer.packed, &memory_or_exit);
	packer.failed = packer.context == NULL || chains->is_full;
	if (!packer.failed) {
		(void)ZSTD_CCtx_setParameter(packer.context, ZSTD_c_compressionLevel, PACK_LEVEL);
		(void)ZSTD_CCtx_setParameter(packer.context, ZSTD_c_checksumFlag, 1);
		*range_count = pack_ranges(&packer, chains, ranges);
		pack_functions(&packer, chains);
		pack_texts(&packer, chains);
	}
	if (!packer.failed)
		append_file(out, image, &packer, source);
	ZSTD_freeCCtx(packer.context);
	free(packer.blocks);
	buffer_deinit(&packer.packed);
	return !packer.failed ||
	       error_set(err, ERROR_UNSUPPORTED, "it has more symbols than an index can hold");
}
