/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/symbol_index.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <zstd.h>

#include "base/cursor.h"
#include "base/hash_index.h"
#include "base/search.h"
#include "base/xalloc.h"
#include "symbol/symbol_index_format.h"

/* Like other compressed sections (elf_image.c): names shrink to a fifth. */
static const uint64_t FAIR_RATIO = 20;
static const uint64_t FAIR_BASE_BYTES = (uint64_t)32 << 20;

/* The blocks of a kind. Those of functions and texts are kept once unpacked. */
struct block_list {
	struct symbol_index_block *blocks;
	size_t count;
	_Atomic(char *) *contents; /* NULL while packed */
};

/* A frame of the range being read. */
struct range_frame {
	uint32_t function;
	uint32_t file; /* offset of a text, plus 1; 0 for none */
	uint32_t line;
};

struct range_reader {
	struct cursor in; /* over the records of the group */
	size_t block;	  /* that is unpacked; the number of blocks at the beginning */
	struct symbol_index_group *groups; /* of the block; room for those of the largest */
	size_t group_count;
	size_t group; /* that the cursor is in; their number at the beginning */
	const char *records;
	size_t record_bytes;
	uint64_t next_start;
	bool has_next;
	uint32_t frame_count;
	struct range_frame frames[SYMBOL_INDEX_MAX_FRAMES]; /* the outermost first */
};

/* Finds a part of the addresses, on a thread of its own. */
struct index_reader {
	struct symbol_index *index;
	size_t first; /* of its addresses */
	size_t limit;
	ZSTD_DCtx *unpacker;
	struct arena arena;
	struct range_reader ranges;
	char *range_block; /* room for the largest */
	bool is_damaged;
};

struct symbol_index {
	const unsigned char *data; /* of the section */
	size_t size;
	enum symbol_source source;
	struct block_list lists[SYMBOL_INDEX_KINDS];
	struct work_budget *budget;
	const uint64_t *vaddrs;
	struct dwarf_answer *answers;
	struct index_reader *readers;
	size_t reader_count;
	bool is_damaged;
};

bool symbol_index_exists(const struct elf_image *image)
{
	return elf_image_section(image, SYMBOL_INDEX_SECTION) != NULL;
}

/* Whether the blocks lie in the section, are in order and are not too large; adds their sizes. */
static bool check_blocks(
	const struct symbol_index *index, const struct block_list *list, uint64_t *bytes)
{
	for (size_t i = 0; i < list->count; i++) {
		const struct symbol_index_block *const block = &list->blocks[i];
		if (block->offset > index->size ||
			block->packed_bytes > index->size - block->offset || block->bytes == 0 ||
			block->bytes > SYMBOL_INDEX_MAX_BLOCK_BYTES ||
			(i > 0 && block->first <= list->blocks[i - 1].first))
			return false;
		*bytes += block->bytes;
	}
	return true;
}

static bool read_tables(
	struct symbol_index *index, const struct symbol_index_header *header, const char **problem)
{
	struct symbol_index_header blank = *header;
	uint64_t table_bytes = 0;
	uint64_t bytes = 0;
	size_t at = sizeof *header;

	for (int kind = 0; kind < SYMBOL_INDEX_KINDS; kind++)
		table_bytes +=
			(uint64_t)header->block_counts[kind] * sizeof(struct symbol_index_block);
	*problem = "it is damaged";
	if (table_bytes > index->size - at)
		return false;
	blank.checksum = 0;
	if (hash_fixed_combine(hash_fixed_bytes(&blank, sizeof blank),
		    hash_fixed_bytes(index->data + at, table_bytes)) != header->checksum)
		return false;
	for (int kind = 0; kind < SYMBOL_INDEX_KINDS; kind++) {
		struct block_list *const list = &index->lists[kind];
		list->count = header->block_counts[kind];
		list->blocks = xcalloc(list->count, sizeof *list->blocks);
		list->contents = xcalloc(list->count, sizeof *list->contents);
		const size_t list_bytes = list->count * sizeof *list->blocks;
		memcpy(list->blocks, index->data + at, list_bytes);
		at += list_bytes;
		if (!check_blocks(index, list, &bytes))
			return false;
	}
	*problem = "it claims to hold more than a file of its size does: damaged or malicious";
	if (bytes > FAIR_BASE_BYTES + index->size * FAIR_RATIO)
		return false;
	*problem = "it takes more than half of this machine's memory";
	work_budget_allow_file(index->budget, bytes);
	return work_budget_take_memory(index->budget, bytes);
}

static bool read_header(struct symbol_index *index, const char **problem)
{
	struct symbol_index_header header;

	*problem = "it is damaged";
	if (index->size < sizeof header)
		return false;
	memcpy(&header, index->data, sizeof header);
	if (memcmp(header.magic, symbol_index_magic, sizeof header.magic) != 0)
		return false;
	*problem = "it is of another version of heapctl";
	if (header.version != SYMBOL_INDEX_VERSION)
		return false;
	index->source = (enum symbol_source)header.source;
	*problem = "it is damaged";
	return header.source <= SYMBOL_SOURCE_DWARF && read_tables(index, &header, problem);
}

bool symbol_index_open(const struct elf_image *image, struct work_budget *budget,
	struct symbol_index **index, struct error *err)
{
	const struct elf_section *const section = elf_image_section(image, SYMBOL_INDEX_SECTION);
	const char *problem = "it has no index of symbols";
	CLEANUP(symbol_index_cleanup) struct symbol_index *opened = xcalloc(1, sizeof *opened);

	opened->budget = budget;
	if (section != NULL) {
		opened->data = image->data + section->offset;
		opened->size = section->size;
	}
	if (section == NULL || !read_header(opened, &problem)) {
		error_set(err, ERROR_INPUT, "%s: %s", image->path, problem);
		return error_hint(err, "make it again with heapctl symbols index");
	}
	*index = TAKE(opened);
	return true;
}

void symbol_index_free(struct symbol_index *index)
{
	if (index == NULL)
		return;
	for (int kind = 0; kind < SYMBOL_INDEX_KINDS; kind++) {
		for (size_t i = 0; i < index->lists[kind].count; i++)
			free(atomic_load(&index->lists[kind].contents[i]));
		free(index->lists[kind].contents);
		free(index->lists[kind].blocks);
	}
	for (size_t i = 0; i < index->reader_count; i++) {
		ZSTD_freeDCtx(index->readers[i].unpacker);
		arena_deinit(&index->readers[i].arena);
		free(index->readers[i].range_block);
		free(index->readers[i].ranges.groups);
	}
	free(index->readers);
	free(index->answers);
	free(index);
}

enum symbol_source symbol_index_source(const struct symbol_index *index)
{
	return index->source;
}

bool symbol_index_debug_source(
	const struct elf_image *image, enum symbol_source *source, struct error *err)
{
	CLEANUP(symbol_index_cleanup) struct symbol_index *index = NULL;
	struct work_budget budget;

	*source = SYMBOL_SOURCE_NONE;
	if (elf_image_section(image, ".debug_info") != NULL ||
		elf_image_section(image, ".zdebug_info") != NULL) {
		*source = SYMBOL_SOURCE_DWARF;
		return true;
	}
	if (!symbol_index_exists(image)) {
		if (elf_image_section(image, ".symtab") != NULL)
			*source = SYMBOL_SOURCE_TABLE;
		return true;
	}
	work_budget_init(&budget);
	if (!symbol_index_open(image, &budget, &index, err))
		return false;
	*source = index->source;
	return true;
}

bool symbol_index_is_damaged(const struct symbol_index *index)
{
	return index->is_damaged;
}

static bool unpack(
	struct index_reader *reader, const struct symbol_index_block *block, char *contents)
{
	if (reader->unpacker == NULL)
		reader->unpacker = ZSTD_createDCtx();
	if (reader->unpacker != NULL &&
		ZSTD_decompressDCtx(reader->unpacker, contents, block->bytes,
			reader->index->data + block->offset, block->packed_bytes) == block->bytes)
		return true;
	reader->is_damaged = true;
	return false;
}

/* Unpacks a block, unless another thread is the first to have done so; NULL when it is damaged. */
static const char *unpack_shared(struct index_reader *reader,
	const struct symbol_index_block *block, _Atomic(char *) *contents)
{
	CLEANUP(free_cleanup) char *unpacked = xmalloc(block->bytes);
	char *other = NULL;

	if (!unpack(reader, block, unpacked))
		return NULL;
	if (!atomic_compare_exchange_strong(contents, &other, unpacked))
		return other;
	return TAKE(unpacked);
}

/* The block of a kind that has this number or offset; NULL where there is none or a damaged one. */
static const char *find_block(struct index_reader *reader, enum symbol_index_kind kind,
	uint64_t wanted, const struct symbol_index_block **block)
{
	struct block_list *const list = &reader->index->lists[kind];
	const size_t count = search_count_up_to(list->blocks, list->count, sizeof *list->blocks,
		offsetof(struct symbol_index_block, first), wanted);

	if (count == 0 || reader->is_damaged)
		return NULL;
	*block = &list->blocks[count - 1];
	const char *const contents = atomic_load(&list->contents[count - 1]);
	return contents != NULL ? contents
				: unpack_shared(reader, *block, &list->contents[count - 1]);
}

static const char *find_text(struct index_reader *reader, uint64_t offset)
{
	const struct symbol_index_block *block = NULL;
	const char *const contents = find_block(reader, SYMBOL_INDEX_TEXTS, offset, &block);

	if (contents == NULL)
		return "";
	if (contents[block->bytes - 1] != '\0' || offset - block->first >= block->bytes) {
		reader->is_damaged = true;
		return "";
	}
	return contents + (offset - block->first);
}

static struct symbol_index_function find_function(struct index_reader *reader, uint32_t number)
{
	const struct symbol_index_block *block = NULL;
	struct symbol_index_function function = { 0 };
	const char *const contents = find_block(reader, SYMBOL_INDEX_FUNCTIONS, number, &block);

	if (contents == NULL)
		return function;
	const uint64_t at = (number - block->first) * sizeof function;
	if (at + sizeof function > block->bytes)
		reader->is_damaged = true;
	else
		memcpy(&function, contents + at, sizeof function);
	return function;
}

/* Reads where the next range of the block begins. */
static void read_start(struct range_reader *ranges)
{
	ranges->has_next = cursor_left(&ranges->in) > 0;
	if (ranges->has_next)
		ranges->next_start += cursor_uleb(&ranges->in);
}

static bool begin_block(struct index_reader *reader, size_t number)
{
	struct range_reader *const ranges = &reader->ranges;
	const struct symbol_index_block *const block =
		&reader->index->lists[SYMBOL_INDEX_RANGES].blocks[number];
	uint32_t count = 0;

	ranges->block = number;
	if (!unpack(reader, block, reader->range_block) || block->bytes < sizeof count)
		return false;
	memcpy(&count, reader->range_block, sizeof count);
	const uint64_t list_bytes = (uint64_t)count * sizeof *ranges->groups;
	if (count == 0 || list_bytes > block->bytes - sizeof count)
		return false;
	memcpy(ranges->groups, reader->range_block + sizeof count, list_bytes);
	ranges->group = ranges->group_count = count;
	ranges->records = reader->range_block + sizeof count + list_bytes;
	ranges->record_bytes = block->bytes - sizeof count - list_bytes;
	return true;
}

/* The last group of the block that begins up to `vaddr`. */
static size_t find_group(const struct range_reader *ranges, uint64_t distance)
{
	size_t low = 0;
	size_t count = ranges->group_count;

	while (count > 1) {
		const size_t half = count / 2;
		if (ranges->groups[low + half].distance <= distance) {
			low += half;
			count -= half;
		} else {
			count = half;
		}
	}
	return low;
}

static bool begin_group(struct range_reader *ranges, uint64_t block_start, size_t number)
{
	const struct symbol_index_group *const group = &ranges->groups[number];
	const size_t limit =
		number + 1 < ranges->group_count ? group[1].offset : ranges->record_bytes;

	if (group->offset >= limit || limit > ranges->record_bytes)
		return false;
	ranges->group = number;
	ranges->frame_count = 0;
	ranges->in = cursor_over(ranges->records + group->offset, limit - group->offset);
	ranges->next_start = block_start + group->distance;
	read_start(ranges);
	return cursor_ok(&ranges->in);
}

static uint32_t take_u32(struct cursor *in)
{
	const uint64_t value = cursor_uleb(in);

	if (value > UINT32_MAX)
		cursor_fail(in, "a number is too large");
	return (uint32_t)value;
}

/* Reads the frames of the next range, which becomes the current one. */
static bool read_range(struct range_reader *ranges)
{
	struct cursor in = ranges->in;
	const uint64_t count = cursor_uleb(&in);
	const uint64_t shared = count == 0 ? 0 : cursor_uleb(&in);
	const uint32_t before = ranges->frame_count;

	if (count > SYMBOL_INDEX_MAX_FRAMES || shared > count || shared > before)
		cursor_fail(&in, "an impossible number of frames");
	for (uint64_t i = shared; i < count && cursor_ok(&in); i++) {
		struct range_frame *const frame = &ranges->frames[i];
		if (i >= before)
			*frame = (struct range_frame){ 0 };
		const uint32_t function = take_u32(&in);
		const uint32_t file = take_u32(&in);
		frame->line = (uint32_t)(frame->line + (uint64_t)cursor_sleb(&in));
		frame->function = function == 0 ? frame->function : function - 1;
		frame->file = file == 0 ? frame->file : file - 1;
	}
	ranges->in = in;
	if (!cursor_ok(&in))
		return false;
	ranges->frame_count = (uint32_t)count;
	read_start(ranges);
	return cursor_ok(&ranges->in);
}

static struct dwarf_answer make_answer(struct index_reader *reader)
{
	const struct range_reader *const ranges = &reader->ranges;
	const uint32_t count = ranges->frame_count;

	if (count == 0 || !work_budget_spend(reader->index->budget, count))
		return (struct dwarf_answer){ 0 };
	struct dwarf_frame *const frames =
		arena_alloc(&reader->arena, count * sizeof *frames, _Alignof(struct dwarf_frame));
	for (uint32_t i = 0; i < count; i++) {
		const struct range_frame *const from = &ranges->frames[count - 1 - i];
		const struct symbol_index_function function = find_function(reader, from->function);
		frames[i] = (struct dwarf_frame){
			.name = find_text(reader, function.name),
			.linkage = find_text(reader, function.linkage),
			.file = find_text(reader, from->file),
			.line = from->line,
			.start_line = function.start_line,
		};
	}
	return (struct dwarf_answer){ frames, count };
}

/* Reads on to the range of an address; true when that is another one than before. */
static bool seek_range(struct index_reader *reader, uint64_t vaddr)
{
	const struct block_list *const list = &reader->index->lists[SYMBOL_INDEX_RANGES];
	struct range_reader *const ranges = &reader->ranges;
	const size_t count = search_count_up_to(list->blocks, list->count, sizeof *list->blocks,
		offsetof(struct symbol_index_block, first), vaddr);
	bool is_new = false;

	if (count == 0)
		return false;
	const uint64_t block_start = list->blocks[count - 1].first;
	if (ranges->block != count - 1 && !begin_block(reader, count - 1)) {
		reader->is_damaged = true;
		return false;
	}
	const size_t group = find_group(ranges, vaddr - block_start);
	if (ranges->group != group) {
		is_new = true;
		reader->is_damaged = !begin_group(ranges, block_start, group);
	}
	while (!reader->is_damaged && ranges->has_next && ranges->next_start <= vaddr) {
		is_new = true;
		reader->is_damaged = !read_range(ranges);
	}
	return is_new;
}

static uint32_t largest_range_block(const struct symbol_index *index)
{
	const struct block_list *const list = &index->lists[SYMBOL_INDEX_RANGES];
	uint32_t largest = 0;

	for (size_t i = 0; i < list->count; i++)
		largest = list->blocks[i].bytes > largest ? list->blocks[i].bytes : largest;
	return largest;
}

static void find_part(void *context, size_t number)
{
	struct symbol_index *const index = context;
	struct index_reader *const reader = &index->readers[number];
	struct dwarf_answer current = { 0 };

	for (size_t i = reader->first; i < reader->limit && !reader->is_damaged; i++) {
		if (seek_range(reader, index->vaddrs[i]) && !reader->is_damaged)
			current = make_answer(reader);
		index->answers[i] = reader->is_damaged ? (struct dwarf_answer){ 0 } : current;
	}
}

/* Fewer take less time than a thread. */
static const size_t MIN_PART = 512;

static void open_readers(struct symbol_index *index, size_t count)
{
	const uint32_t largest = largest_range_block(index);

	index->reader_count = count;
	index->readers = xcalloc(count, sizeof *index->readers);
	for (size_t i = 0; i < count; i++) {
		struct index_reader *const reader = &index->readers[i];
		reader->index = index;
		reader->ranges.block = index->lists[SYMBOL_INDEX_RANGES].count;
		reader->range_block = xmalloc(largest);
		reader->ranges.groups = xmalloc(largest);
	}
}

const struct dwarf_answer *symbol_index_find(
	struct symbol_index *index, const uint64_t *vaddrs, size_t count, unsigned threads)
{
	const size_t parts = count / MIN_PART + 1;
	const size_t allowed = parallel_thread_count(threads);

	index->vaddrs = vaddrs;
	index->answers = xcalloc(count, sizeof *index->answers);
	open_readers(index, parts < allowed ? parts : allowed);
	for (size_t i = 0; i < index->reader_count; i++) {
		struct index_reader *const reader = &index->readers[i];
		reader->first = count / index->reader_count * i;
		reader->limit = i + 1 == index->reader_count
					? count
					: count / index->reader_count * (i + 1);
	}
	if (index->reader_count == 1)
		find_part(index, 0);
	else
		parallel_run(index->reader_count, threads, find_part, index);
	for (size_t i = 0; i < index->reader_count; i++)
		index->is_damaged = index->is_damaged || index->readers[i].is_damaged;
	return index->answers;
}

static const uint32_t NO_FUNCTION = UINT32_MAX;

struct extent_list {
	struct symbol_extent *extents;
	size_t count, capacity;
	uint32_t function; /* of the last one, which has no limit yet; NO_FUNCTION when it has */
};

static void add_range(struct extent_list *list, uint64_t start, uint32_t function)
{
	if (function == list->function)
		return;
	if (list->function != NO_FUNCTION)
		list->extents[list->count - 1].limit = start;
	if (function != NO_FUNCTION)
		*XAPPEND(list->extents, list->count, list->capacity) =
			(struct symbol_extent){ start, UINT64_MAX };
	list->function = function;
}

static bool add_block(struct extent_list *list, struct index_reader *reader, size_t number)
{
	struct range_reader *const ranges = &reader->ranges;
	const uint64_t start = reader->index->lists[SYMBOL_INDEX_RANGES].blocks[number].first;

	if (!begin_block(reader, number))
		return false;
	for (size_t group = 0; group < ranges->group_count; group++) {
		if (!begin_group(ranges, start, group))
			return false;
		while (ranges->has_next) {
			const uint64_t at = ranges->next_start;
			if (!read_range(ranges))
				return false;
			add_range(list, at,
				ranges->frame_count == 0 ? NO_FUNCTION
							 : ranges->frames[0].function);
		}
	}
	return true;
}

struct symbol_extent *symbol_index_functions(struct symbol_index *index, size_t *count)
{
	struct extent_list list = { .function = NO_FUNCTION };

	open_readers(index, 1);
	for (size_t i = 0; i < index->lists[SYMBOL_INDEX_RANGES].count; i++) {
		if (add_block(&list, &index->readers[0], i))
			continue;
		index->is_damaged = true;
		free(list.extents);
		return NULL;
	}
	*count = list.count;
	return list.extents;
}
