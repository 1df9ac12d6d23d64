/* SPDX-License-Identifier: Apache-2.0 */
#include "unwind/table.h"

#include <string.h>

#include "unwind/cfi.h"

enum {
	HEADER_VERSION = 1,
	/* sdata4 | datarel: what linkers write the index in. */
	INDEX_ENCODING = 0x3b,
	INDEX_ENTRY_BYTES = 8,
	PE_OMIT = 0xff,
	/* Compilers write some ten bytes of instructions into a CIE; more would be run too often.
	 */
	COMMON_BYTES_MAX = 1024,
	ROWS_AT_FIRST = 512,
};

struct index {
	struct cursor entries;
	uint64_t frames; /* address of .eh_frame */
	size_t count;
};

static bool read_index(const struct unwind_section *header, struct index *index, struct error *err)
{
	struct cursor cursor = cursor_over(header->bytes, header->size);
	const uint8_t version = cursor_u8(&cursor);
	const uint8_t frames_encoding = cursor_u8(&cursor);
	const uint8_t count_encoding = cursor_u8(&cursor);
	const uint8_t entry_encoding = cursor_u8(&cursor);

	if (version != HEADER_VERSION || frames_encoding == PE_OMIT || count_encoding == PE_OMIT ||
		entry_encoding != INDEX_ENCODING)
		return error_set(err, ERROR_UNSUPPORTED, "it has no sorted index of functions");
	index->frames = cfi_pointer(&cursor, frames_encoding,
		header->address + cursor_offset(&cursor), header->address);
	const uint64_t count = cfi_pointer(
		&cursor, count_encoding, header->address + cursor_offset(&cursor), header->address);
	if (!cursor_ok(&cursor))
		return cursor_error(&cursor, ".eh_frame_hdr", err);
	const size_t room = cursor_left(&cursor) / INDEX_ENTRY_BYTES;
	index->count = count < room ? (size_t)count : room;
	index->entries = cursor;
	return true;
}

/* The next entry: where a function begins, and the address of its description. */
static void next_entry(struct index *index, uint64_t header, uint64_t *function, uint64_t *entry)
{
	*function = header + (uint64_t)(int32_t)cursor_u32(&index->entries);
	*entry = header + (uint64_t)(int32_t)cursor_u32(&index->entries);
}

bool unwind_frames_address(
	const struct unwind_section *header, uint64_t *address, struct error *err)
{
	struct index index = { 0 };

	if (!read_index(header, &index, err))
		return false;
	*address = index.frames;
	return true;
}

bool unwind_extent(
	const struct unwind_section *header, struct unwind_extent *extent, struct error *err)
{
	struct index index = { 0 };

	if (!read_index(header, &index, err))
		return false;
	*extent = (struct unwind_extent){ .address = index.frames, .functions = index.count };
	for (size_t i = 0; i < index.count; i++) {
		uint64_t function = 0, entry = 0;
		next_entry(&index, header->address, &function, &entry);
		if (entry > extent->last_entry)
			extent->last_entry = entry;
	}
	return true;
}

struct table_builder {
	struct unwind_table *table;
	const struct unwind_section *frames;
	enum unwind_machine machine;
	uint64_t base;
	struct cfi_common common;
	uint64_t common_at; /* offset of the CIE in `common`; UINT64_MAX: none yet */
	bool no_memory;
};

/* Room for one more item of that size; NULL without memory. */
static void *grow(const struct memory *memory, void *items, size_t size, size_t *capacity)
{
	const size_t larger = *capacity == 0 ? ROWS_AT_FIRST : *capacity * 2;
	void *const moved = memory_resize(memory, items, *capacity * size, larger * size);

	if (moved != NULL)
		*capacity = larger;
	return moved;
}

static bool reserve_row(struct unwind_table *table)
{
	if (table->count < table->capacity)
		return true;
	if (table->capacity >= UNWIND_ROWS_MAX)
		return false;
	struct unwind_row *const rows =
		grow(table->memory, table->rows, sizeof *rows, &table->capacity);
	if (rows != NULL)
		table->rows = rows;
	return rows != NULL;
}

static bool is_same_rule(struct unwind_rule a, struct unwind_rule b)
{
	return memcmp(&a, &b, sizeof a) == 0;
}

/* A row that begins where the last one does takes its place: nothing lies between the two. */
static bool add_row(struct table_builder *builder, uint64_t address, struct unwind_rule rule)
{
	struct unwind_table *const table = builder->table;
	const uint32_t pc = (uint32_t)(address - builder->base);

	if (table->count > 0 && table->rows[table->count - 1].pc == pc)
		table->count--;
	if (table->count > 0 && is_same_rule(table->rows[table->count - 1].rule, rule))
		return true;
	if (!reserve_row(table)) {
		builder->no_memory = true;
		return false;
	}
	table->rows[table->count++] = (struct unwind_row){ .pc = pc, .rule = rule };
	return true;
}

static bool add_stretch(void *context, uint64_t begin, uint64_t end, struct unwind_rule rule)
{
	struct table_builder *const builder = context;

	builder->table->code_bytes += end - begin;
	if (rule.cfa != UNWIND_CFA_NONE)
		builder->table->covered_bytes += end - begin;
	return add_row(builder, begin, rule);
}

/* An entry of .eh_frame at an offset: its contents after the length and the id. */
static bool read_entry(const struct table_builder *builder, uint64_t offset, struct cursor *body,
	uint64_t *id, uint64_t *id_offset)
{
	struct cursor cursor = cursor_over(builder->frames->bytes, builder->frames->size);

	cursor_seek(&cursor, offset);
	uint64_t length = cursor_u32(&cursor);
	if (length == UINT32_MAX)
		length = cursor_u64(&cursor);
	*id_offset = cursor_offset(&cursor);
	*id = cursor_u32(&cursor);
	if (!cursor_ok(&cursor) || length < sizeof(uint32_t) ||
		length - sizeof(uint32_t) > cursor_left(&cursor))
		return false;
	cursor.end = cursor.position + (length - sizeof(uint32_t));
	*body = cursor;
	return true;
}

/* The letters of an augmentation that begins with z, each with its data; see the LSB. */
static bool read_augmentation(
	struct cfi_common *common, const char *letters, struct cursor data, uint64_t address)
{
	enum { PE_ALIGNED = 0x50 };

	for (const char *letter = letters + 1; *letter != '\0'; letter++) {
		uint8_t encoding = 0;
		switch (*letter) {
		case 'R':
			common->pointer_encoding = cursor_u8(&data);
			break;
		case 'L':
			cursor_u8(&data);
			break;
		case 'P':
			encoding = cursor_u8(&data);
			if ((encoding & 0x70) == PE_ALIGNED)
				return false;
			cfi_pointer(&data, encoding & 0x0f, address, 0);
			break;
		case 'S':
			common->is_signal_frame = true;
			break;
		case 'B': /* aarch64: return addresses are signed with the B key */
			break;
		default:
			return false;
		}
	}
	return cursor_ok(&data);
}

static bool read_common(struct table_builder *builder, uint64_t offset)
{
	struct cfi_common common = { .machine = builder->machine };
	struct cursor body;
	uint64_t id = 0, id_offset = 0;

	if (!read_entry(builder, offset, &body, &id, &id_offset) || id != 0 ||
		cursor_left(&body) > 2 * COMMON_BYTES_MAX)
		return false;
	const uint8_t version = cursor_u8(&body);
	const char *const augmentation = cursor_string(&body);
	if (version != 1 && version != 3)
		return false;
	common.code_align = cursor_uleb(&body);
	common.data_align = cursor_sleb(&body);
	common.return_register = version == 1 ? cursor_u8(&body) : cursor_uleb(&body);
	if (augmentation[0] == 'z') {
		const uint64_t size = cursor_uleb(&body);
		const uint64_t address = builder->frames->address + cursor_offset(&body);
		const unsigned char *const data = cursor_take(&body, size);
		common.has_augmentation = true;
		if (data == NULL || !read_augmentation(&common, augmentation,
					    cursor_over(data, (size_t)size), address))
			return false;
	} else if (augmentation[0] != '\0') {
		return false;
	}
	if (!cursor_ok(&body) || cursor_left(&body) > COMMON_BYTES_MAX ||
		!cfi_common_run(&common, body))
		return false;
	builder->common = common;
	builder->common_at = offset;
	return true;
}

/* Reads the description of a function at the address `entry`, and what it has in common. */
static bool read_function(
	struct table_builder *builder, uint64_t entry, struct cfi_function *function)
{
	struct cursor body;
	uint64_t id = 0, id_offset = 0;

	if (entry < builder->frames->address ||
		!read_entry(builder, entry - builder->frames->address, &body, &id, &id_offset) ||
		id == 0 || id > id_offset)
		return false;
	const uint64_t common_at = id_offset - id;
	if (common_at != builder->common_at && !read_common(builder, common_at)) {
		builder->common_at = UINT64_MAX;
		return false;
	}
	const uint8_t encoding = builder->common.pointer_encoding;
	const uint64_t begin =
		cfi_pointer(&body, encoding, builder->frames->address + cursor_offset(&body), 0);
	const uint64_t size = cfi_pointer(&body, encoding & 0x0f, 0, 0);
	if (builder->common.has_augmentation)
		cursor_skip(&body, cursor_uleb(&body));
	*function =
		(struct cfi_function){ .begin = begin, .end = begin + size, .instructions = body };
	return cursor_ok(&body) && function->end > begin;
}

/* False when there is no memory; a function that cannot be read is left out. */
static bool add_function(struct table_builder *builder, uint64_t entry, uint64_t min_begin)
{
	struct cfi_function function;

	if (!read_function(builder, entry, &function))
		return true;
	/* Of functions that overlap the first one counts: so each byte is described once. */
	if (function.begin < min_begin || function.begin < builder->base ||
		function.end - builder->base > UINT32_MAX)
		return true;
	return cfi_function_run(&builder->common, &function, add_stretch, builder) &&
	       add_row(builder, function.end, (struct unwind_rule){ .cfa = UNWIND_CFA_NONE });
}

static void give_back_spare(struct unwind_table *table)
{
	struct unwind_row *const rows = memory_resize(table->memory, table->rows,
		table->capacity * sizeof *rows, table->count * sizeof *rows);

	if (table->count > 0 && rows != NULL) {
		table->rows = rows;
		table->capacity = table->count;
	}
}

/* Where the next function may begin. */
static uint64_t next_begin(const struct unwind_table *built, uint64_t base)
{
	return built->count == 0 ? 0 : base + built->rows[built->count - 1].pc;
}

static bool finish_table(
	struct unwind_table *table, struct table_builder *builder, struct error *err)
{
	if (builder->no_memory) {
		unwind_table_deinit(builder->table);
		return error_set(err, ERROR_MEMORY, "no memory for the unwind table");
	}
	if (builder->table->count == 0)
		return error_set(err, ERROR_INPUT, "no function in .eh_frame can be read");
	give_back_spare(builder->table);
	*table = *builder->table;
	return true;
}

bool unwind_table_build(struct unwind_table *table, enum unwind_machine machine,
	const struct unwind_section *header, const struct unwind_section *frames, uint64_t base,
	const struct memory *memory, struct error *err)
{
	struct unwind_table built = { .memory = memory };
	struct table_builder builder = { .table = &built,
		.frames = frames,
		.machine = machine,
		.base = base,
		.common_at = UINT64_MAX };
	struct index index = { 0 };

	if (!read_index(header, &index, err))
		return false;
	for (size_t i = 0; i < index.count; i++) {
		uint64_t function = 0, entry = 0;
		next_entry(&index, header->address, &function, &entry);
		if (!add_function(&builder, entry, next_begin(&built, base)))
			break;
	}
	return finish_table(table, &builder, err);
}

void unwind_table_deinit(struct unwind_table *table)
{
	if (table->rows != NULL)
		memory_resize(table->memory, table->rows, table->capacity * sizeof *table->rows, 0);
	*table = (struct unwind_table){ .memory = table->memory };
}

struct wanted {
	uint64_t address;
	struct unwind_rule rule;
};

static bool take_stretch(void *context, uint64_t begin, uint64_t end, struct unwind_rule rule)
{
	struct wanted *const wanted = context;

	(void)begin;
	wanted->rule = rule;
	return wanted->address >= end;
}

/* The last entry of the index whose function does not begin behind `address`; 0 for none. */
static uint64_t find_entry(const struct index *index, uint64_t header, uint64_t address)
{
	size_t low = 0, high = index->count;
	uint64_t found = 0;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;
		struct index at = *index;
		uint64_t function = 0, entry = 0;
		cursor_skip(&at.entries, middle * INDEX_ENTRY_BYTES);
		next_entry(&at, header, &function, &entry);
		if (function <= address) {
			found = entry;
			low = middle + 1;
		} else {
			high = middle;
		}
	}
	return found;
}

/* Reads the description of the function that holds `address`. */
static bool find_function(struct table_builder *builder, const struct unwind_section *header,
	uint64_t address, struct cfi_function *function)
{
	struct index index = { 0 };
	struct error ignored;

	return read_index(header, &index, &ignored) &&
	       read_function(builder, find_entry(&index, header->address, address), function) &&
	       address >= function->begin && address < function->end;
}

bool unwind_section_function(enum unwind_machine machine, const struct unwind_section *header,
	const struct unwind_section *frames, uint64_t address, uint64_t *begin)
{
	struct table_builder builder = {
		.frames = frames, .machine = machine, .common_at = UINT64_MAX
	};
	struct cfi_function function;

	if (!find_function(&builder, header, address, &function))
		return false;
	*begin = function.begin;
	return true;
}

struct unwind_rule unwind_section_find(enum unwind_machine machine,
	const struct unwind_section *header, const struct unwind_section *frames, uint64_t address)
{
	struct table_builder builder = {
		.frames = frames, .machine = machine, .common_at = UINT64_MAX
	};
	struct wanted wanted = { .address = address };
	struct cfi_function function;

	if (find_function(&builder, header, address, &function))
		(void)cfi_function_run(&builder.common, &function, take_stretch, &wanted);
	return wanted.rule;
}

struct unwind_rule unwind_table_find(const struct unwind_row *rows, size_t count, uint32_t pc)
{
	size_t low = 0;

	if (count == 0 || pc < rows[0].pc)
		return (struct unwind_rule){ .cfa = UNWIND_CFA_NONE };
	/* rows[low].pc <= pc; without a branch that depends on the rows. */
	while (count > 1) {
		const size_t half = count / 2;
		low = rows[low + half].pc <= pc ? low + half : low;
		count -= half;
	}
	return rows[low].rule;
}

/* --- Without an index --- */

/* Where a function begins, and the address of its entry. */
struct described {
	uint64_t begin, entry;
};

struct described_list {
	struct described *items;
	size_t count, capacity;
	const struct memory *memory;
};

static void described_list_cleanup(const struct described_list *list)
{
	memory_resize(list->memory, list->items, list->capacity * sizeof *list->items, 0);
}

static bool add_described(struct described_list *list, struct described described)
{
	if (list->count == list->capacity) {
		struct described *const items =
			grow(list->memory, list->items, sizeof *items, &list->capacity);
		if (items == NULL)
			return false;
		list->items = items;
	}
	list->items[list->count++] = described;
	return true;
}

/* All functions that are described, one entry after the other. False without memory. */
static bool list_functions(struct table_builder *builder, struct described_list *list)
{
	const struct unwind_section *const frames = builder->frames;
	struct cursor cursor = cursor_over(frames->bytes, frames->size);

	while (cursor_left(&cursor) > sizeof(uint32_t)) {
		const uint64_t entry = frames->address + cursor_offset(&cursor);
		struct cfi_function function;
		uint64_t length = cursor_u32(&cursor);
		if (length == UINT32_MAX)
			length = cursor_u64(&cursor);
		/* The end has no length. */
		if (length == 0 || length > cursor_left(&cursor))
			break;
		if (read_function(builder, entry, &function) &&
			!add_described(list, (struct described){ function.begin, entry }))
			return false;
		cursor_take(&cursor, length);
	}
	return true;
}

static void sift_down(struct described *items, size_t at, size_t count)
{
	for (size_t child; (child = 2 * at + 1) < count; at = child) {
		if (child + 1 < count && items[child + 1].begin > items[child].begin)
			child++;
		if (items[at].begin >= items[child].begin)
			return;
		const struct described larger = items[child];
		items[child] = items[at];
		items[at] = larger;
	}
}

/* A heapsort: qsort() may take memory of the heap. */
static void sort_described(struct described *items, size_t count)
{
	for (size_t i = count / 2; i > 0; i--)
		sift_down(items, i - 1, count);
	for (size_t i = count; i > 1; i--) {
		const struct described largest = items[0];
		items[0] = items[i - 1];
		items[i - 1] = largest;
		sift_down(items, 0, i - 1);
	}
}

/* As unwind_table_build(), by .eh_frame alone. */
static bool build_from_frames(struct unwind_table *table, enum unwind_machine machine,
	const struct unwind_section *frames, uint64_t base, const struct memory *memory,
	struct error *err)
{
	CLEANUP(described_list_cleanup) struct described_list list = { .memory = memory };
	struct unwind_table built = { .memory = memory };
	struct table_builder builder = { .table = &built,
		.frames = frames,
		.machine = machine,
		.base = base,
		.common_at = UINT64_MAX };

	if (!list_functions(&builder, &list))
		return error_set(err, ERROR_MEMORY, "no memory for the list of functions");
	sort_described(list.items, list.count);
	for (size_t i = 0; i < list.count; i++) {
		if (!add_function(&builder, list.items[i].entry, next_begin(&built, base)))
			break;
	}
	return finish_table(table, &builder, err);
}

struct section_copy {
	struct unwind_section section;
	void *bytes;
	size_t capacity;
	const struct memory *memory;
};

static void section_copy_cleanup(const struct section_copy *copy)
{
	memory_resize(copy->memory, copy->bytes, copy->capacity, 0);
}

static bool copy_section(struct section_copy *copy, const struct unwind_loaded *header,
	uint64_t address, uint64_t size, struct error *err)
{
	enum { SECTION_BYTES_MAX = 1 << 30 };

	if (size == 0 || size > SECTION_BYTES_MAX)
		return error_set(err, ERROR_INPUT, "no section of a possible size");
	copy->bytes = memory_resize(copy->memory, NULL, 0, (size_t)size);
	if (copy->bytes == NULL)
		return error_set(err, ERROR_MEMORY, "no memory for a section");
	copy->capacity = (size_t)size;
	if (!header->copy(header->context, address, copy->bytes, (size_t)size))
		return error_set(err, ERROR_INPUT, "a section cannot be read");
	copy->section = (struct unwind_section){
		.bytes = copy->bytes, .size = (size_t)size, .address = address
	};
	return true;
}

/* The index leads to the last entry, whose length is its first word. */
static bool copy_frames(struct section_copy *frames, const struct unwind_loaded *header,
	const struct unwind_section *index, struct error *err)
{
	struct unwind_extent extent;
	uint32_t last_size = 0;

	if (!unwind_extent(index, &extent, err))
		return false;
	if (extent.last_entry < extent.address ||
		!header->copy(header->context, extent.last_entry, &last_size, sizeof last_size))
		return error_set(err, ERROR_INPUT, "the last entry cannot be read");
	return copy_section(frames, header, extent.address,
		extent.last_entry - extent.address + sizeof last_size + last_size, err);
}

bool unwind_loaded_table(struct unwind_table *table, enum unwind_machine machine,
	const struct unwind_loaded *header, uint64_t base, const struct memory *memory,
	struct error *err)
{
	CLEANUP(section_copy_cleanup) struct section_copy index = { .memory = memory };
	CLEANUP(section_copy_cleanup) struct section_copy frames = { .memory = memory };

	if (header->is_frames)
		return copy_section(&frames, header, header->address, header->size, err) &&
		       build_from_frames(table, machine, &frames.section, base, memory, err);
	return copy_section(&index, header, header->address, header->size, err) &&
	       copy_frames(&frames, header, &index.section, err) &&
	       unwind_table_build(
		       table, machine, &index.section, &frames.section, base, memory, err);
}
