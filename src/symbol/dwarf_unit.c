/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/hash_index.h"
#include "base/search.h"
#include "base/xalloc.h"
#include "symbol/dwarf_constants.h"

/* A table of abbreviations is compiled, and kept in several times its size. */
static const uint64_t WORK_PER_ABBREV_BYTE = 4;

static const char *const section_names[DWARF_SECTIONS] = {
	[DWARF_INFO] = ".debug_info",
	[DWARF_ABBREV] = ".debug_abbrev",
	[DWARF_STR] = ".debug_str",
	[DWARF_LINE] = ".debug_line",
	[DWARF_LINE_STR] = ".debug_line_str",
	[DWARF_STR_OFFSETS] = ".debug_str_offsets",
	[DWARF_ADDR] = ".debug_addr",
	[DWARF_RANGES] = ".debug_ranges",
	[DWARF_RNGLISTS] = ".debug_rnglists",
	[DWARF_ARANGES] = ".debug_aranges",
};

/* The sections are unpacked side by side: in a compressed file that is most of the work. */
struct loading {
	struct dwarf *dwarf;
	const struct elf_image *image;
	unsigned threads;
	struct error errors[DWARF_SECTIONS];
	bool failed[DWARF_SECTIONS];
};

bool dwarf_load_section(struct dwarf *dwarf, const struct elf_image *image,
	enum dwarf_section section, bool may_populate, struct error *err)
{
	char name[64];

	snprintf(name, sizeof name, "%s%s", section_names[section], dwarf->is_split ? ".dwo" : "");
	return elf_image_load(image, name, may_populate, &dwarf->sections[section], err);
}

static void load_section(void *context, size_t index)
{
	struct loading *const loading = context;

	loading->failed[index] = !dwarf_load_section(loading->dwarf, loading->image,
		(enum dwarf_section)index, loading->threads != 1, &loading->errors[index]);
}

static bool is_any_packed(const struct elf_image *image)
{
	for (size_t i = 0; i < image->section_count; i++)
		if ((image->sections[i].flags & SHF_COMPRESSED) != 0)
			return true;
	return elf_image_section(image, ".zdebug_info") != NULL;
}

static bool load_sections(
	struct dwarf *dwarf, const struct elf_image *image, unsigned threads, struct error *err)
{
	struct loading loading = { .dwarf = dwarf, .image = image, .threads = threads };

	if (is_any_packed(image))
		parallel_run(DWARF_SECTIONS, threads, load_section, &loading);
	else
		for (size_t i = 0; i < DWARF_SECTIONS; i++)
			load_section(&loading, i);
	for (size_t i = 0; i < DWARF_SECTIONS; i++) {
		if (!loading.failed[i])
			continue;
		*err = loading.errors[i];
		return false;
	}
	return true;
}

bool dwarf_unit_read_header(struct dwarf *dwarf, struct cursor *in, struct dwarf_unit *unit)
{
	*unit = (struct dwarf_unit){
		.dwarf = dwarf, .info = in->start, .offset = cursor_offset(in)
	};
	unit->encoding.offset_bytes = 4;
	uint64_t length = cursor_u32(in);
	if (length == UINT32_MAX) {
		unit->encoding.offset_bytes = 8;
		length = cursor_u64(in);
	}
	if (!cursor_ok(in) || length > cursor_left(in))
		return false;
	unit->limit = cursor_offset(in) + length;

	const bool is_wide = unit->encoding.offset_bytes == 8;
	unit->encoding.version = cursor_u16(in);
	unit->type = DW_UT_compile;
	if (unit->encoding.version >= 5) {
		unit->type = cursor_u8(in);
		unit->encoding.address_bytes = cursor_u8(in);
		unit->abbrev_offset = is_wide ? cursor_u64(in) : cursor_u32(in);
		if (unit->type == DW_UT_skeleton || unit->type == DW_UT_split_compile)
			unit->id = cursor_u64(in);
		if (unit->type == DW_UT_type || unit->type == DW_UT_split_type)
			cursor_skip(in, 8u + unit->encoding.offset_bytes);
	} else {
		unit->abbrev_offset = is_wide ? cursor_u64(in) : cursor_u32(in);
		unit->encoding.address_bytes = cursor_u8(in);
	}
	unit->first_die = cursor_offset(in);
	if (!cursor_ok(in) || unit->first_die > unit->limit)
		return false;
	cursor_seek(in, unit->limit);
	return true;
}

/* What claims a later one than the last is damaged. */
enum { MIN_VERSION = 2, MAX_VERSION = 5, MAX_FUTURE_VERSION = 9 };

bool dwarf_unit_is_readable(const struct dwarf_unit *unit)
{
	return unit->encoding.version >= MIN_VERSION && unit->encoding.version <= MAX_VERSION &&
	       (unit->encoding.address_bytes == 8 || unit->encoding.address_bytes == 4);
}

void dwarf_note_damage(struct dwarf *dwarf, const char *damage)
{
	const char *none = NULL;

	/* Work that was stopped is no damage of what was read. */
	if (!work_budget_is_spent(dwarf->budget))
		(void)!atomic_compare_exchange_strong(&dwarf->damage, &none, damage);
}

static size_t count_zeros(const unsigned char *data, size_t size)
{
	size_t count = 0;

	while (count < size && data[count] == 0)
		count++;
	return count;
}

bool dwarf_is_alignment(const struct cursor *rest)
{
	const size_t left = cursor_left(rest);

	return left <= DWARF_MAX_ALIGNMENT_BYTES && count_zeros(rest->position, left) == left;
}

void dwarf_check_padding(struct dwarf *dwarf, const struct cursor *rest, const char *damage)
{
	if (!dwarf_is_alignment(rest))
		dwarf_note_damage(dwarf, damage);
}

/* Linkers align units, and may leave out one. A page of zeros is a hole in the file. */
static const size_t MAX_PADDING_BYTES = 4095;

/* False where a unit begins. */
static bool skip_padding(struct dwarf *dwarf, struct cursor *in)
{
	enum { LENGTH_BYTES = 4 };
	const size_t left = cursor_left(in);
	const size_t zeros = count_zeros(in->position, left);

	if (zeros > MAX_PADDING_BYTES)
		dwarf_note_damage(dwarf, "zeros in place of units in .debug_info");
	if (zeros < LENGTH_BYTES && zeros != left)
		return false;
	cursor_skip(in, zeros == left ? zeros : zeros - zeros % LENGTH_BYTES);
	return true;
}

static bool refuse_units(const struct dwarf *dwarf, unsigned version, struct error *err)
{
	if (version > MAX_VERSION && version <= MAX_FUTURE_VERSION) {
		error_set(err, ERROR_UNSUPPORTED,
			"%s: its debug information is of DWARF %u, and heapctl reads %d to %d",
			dwarf->path, version, MIN_VERSION, MAX_VERSION);
		return error_hint(err, "compile it with -gdwarf-%d", MAX_VERSION);
	}
	return error_set(err, ERROR_INPUT, "%s: .debug_info: it is damaged: no unit can be read",
		dwarf->path);
}

static bool find_units(struct dwarf *dwarf, struct error *err)
{
	const struct elf_bytes *const info = &dwarf->sections[DWARF_INFO];
	struct cursor in = cursor_over(info->data, info->size);
	struct dwarf_unit unit;
	unsigned unread_version = 0;

	while (cursor_left(&in) > 0) {
		if (skip_padding(dwarf, &in))
			continue;
		if (!dwarf_unit_read_header(dwarf, &in, &unit)) {
			dwarf_note_damage(dwarf, "a unit outside .debug_info");
			break;
		}
		if (dwarf_unit_is_readable(&unit))
			*XAPPEND(dwarf->units, dwarf->unit_count, dwarf->unit_capacity) = unit;
		else
			unread_version = unit.encoding.version;
	}
	return dwarf->unit_count != 0 || info->size == 0 ||
	       refuse_units(dwarf, unread_version, err);
}

static bool take_memory(const struct dwarf *dwarf, uint64_t bytes, struct error *err)
{
	return work_budget_take_memory(dwarf->budget, bytes) ||
	       error_set(err, ERROR_MEMORY,
		       "%s: its debug information takes more than half of this machine's memory",
		       dwarf->path);
}

/* Counts what the sections hold: for the work that they may cause, and for memory. */
static bool charge_sections(struct dwarf *dwarf, uint64_t more_bytes, struct error *err)
{
	uint64_t bytes = more_bytes;
	uint64_t unpacked = 0;

	for (int i = 0; i < DWARF_SECTIONS; i++) {
		bytes += dwarf->sections[i].size;
		unpacked += dwarf->sections[i].owned == NULL ? 0 : dwarf->sections[i].size;
	}
	work_budget_allow_file(dwarf->budget, bytes);
	return take_memory(dwarf, unpacked, err);
}

/* Sections of zeros; compilers write none. */
static bool check_contents(struct dwarf *dwarf, struct error *err)
{
	enum { MIN_BYTES = 16 };
	static const enum dwarf_section never_zero[] = { DWARF_ABBREV, DWARF_STR, DWARF_LINE,
		DWARF_LINE_STR, DWARF_RNGLISTS };

	for (size_t i = 0; i < sizeof never_zero / sizeof *never_zero; i++) {
		const struct elf_bytes *const bytes = &dwarf->sections[never_zero[i]];
		if (bytes->size >= MIN_BYTES &&
			count_zeros(bytes->data, bytes->size) == bytes->size)
			return error_set(err, ERROR_INPUT,
				"%s: %s: it is damaged: nothing but zeros", dwarf->path,
				section_names[never_zero[i]]);
	}
	return true;
}

bool dwarf_finish_loading(struct dwarf *dwarf, uint64_t more_bytes, struct error *err)
{
	static const enum dwarf_section texts[] = { DWARF_STR, DWARF_LINE_STR };

	if (!check_contents(dwarf, err))
		return false;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		struct elf_bytes *const bytes = &dwarf->sections[texts[i]];
		bytes->size = elf_text_table(bytes->data, bytes->size).size;
	}
	return charge_sections(dwarf, more_bytes, err);
}

void dwarf_open(struct dwarf *dwarf, const struct elf_image *image, bool is_split,
	struct work_budget *budget)
{
	*dwarf = (struct dwarf){
		.path = xstrdup(image->path),
		.code_start = image->code_start,
		.code_limit = image->code_limit,
		.is_split = is_split,
		.table_index = xcalloc(1, sizeof *dwarf->table_index),
		.budget = budget,
	};
	for (int i = 0; i < DWARF_SECTIONS; i++)
		dwarf->sections[i].data = (const unsigned char *)"";
	pthread_mutex_init(&dwarf->lock, NULL);
}

bool dwarf_init(struct dwarf *dwarf, const struct elf_image *image, bool is_split, unsigned threads,
	struct work_budget *budget, struct error *err)
{
	dwarf_open(dwarf, image, is_split, budget);
	if (!load_sections(dwarf, image, threads, err) || !dwarf_finish_loading(dwarf, 0, err) ||
		!find_units(dwarf, err)) {
		dwarf_deinit(dwarf);
		return false;
	}
	return true;
}

bool dwarf_load_info(
	struct dwarf *dwarf, const struct elf_image *image, bool may_populate, struct error *err)
{
	const struct elf_bytes *const info = &dwarf->sections[DWARF_INFO];

	if (!dwarf_load_section(dwarf, image, DWARF_INFO, may_populate, err) ||
		!take_memory(dwarf, info->owned == NULL ? 0 : info->size, err))
		return false;
	return find_units(dwarf, err);
}

void dwarf_deinit(struct dwarf *dwarf)
{
	for (int i = 0; i < DWARF_SECTIONS; i++)
		elf_bytes_free(&dwarf->sections[i]);
	for (size_t i = 0; i < dwarf->table_count; i++)
		dwarf_abbrevs_free(dwarf->tables[i].abbrevs);
	if (dwarf->table_index != NULL)
		hash_index_deinit(dwarf->table_index);
	free(dwarf->table_index);
	free(dwarf->tables);
	free(dwarf->units);
	free(dwarf->path);
	pthread_mutex_destroy(&dwarf->lock);
}

struct dwarf_unit *dwarf_unit_at(const struct dwarf *dwarf, uint64_t offset)
{
	const size_t count = search_count_up_to(dwarf->units, dwarf->unit_count,
		sizeof *dwarf->units, offsetof(struct dwarf_unit, offset), offset);

	if (count == 0)
		return NULL;
	struct dwarf_unit *const unit = &dwarf->units[count - 1];
	return offset >= unit->first_die && offset < unit->limit ? unit : NULL;
}

struct cursor dwarf_unit_cursor(const struct dwarf_unit *unit, uint64_t offset)
{
	struct cursor in = cursor_over(unit->info, unit->limit);

	cursor_seek(&in, offset);
	return in;
}

static struct cursor abbrev_cursor(const struct dwarf_unit *unit)
{
	const struct elf_bytes *const section = &unit->dwarf->sections[DWARF_ABBREV];
	struct cursor in = cursor_over(section->data, section->size);

	cursor_seek(&in, unit->abbrev_offset);
	return in;
}

static void take_root_attribute(
	struct dwarf_unit *unit, uint16_t name, const struct dwarf_value *value)
{
	struct dwarf_root *const root = &unit->root;

	switch (name) {
	case DW_AT_name:
		root->name = *value;
		break;
	case DW_AT_comp_dir:
		root->directory = *value;
		break;
	case DW_AT_low_pc:
		root->low_pc = *value;
		break;
	case DW_AT_high_pc:
		root->high_pc = *value;
		break;
	case DW_AT_ranges:
		root->ranges = *value;
		break;
	case DW_AT_language:
		root->language = value->number;
		break;
	case DW_AT_stmt_list:
		root->lines = *value;
		break;
	case DW_AT_dwo_name:
	case DW_AT_GNU_dwo_name:
		root->split_name = *value;
		break;
	case DW_AT_GNU_dwo_id:
		unit->id = value->number;
		break;
	case DW_AT_str_offsets_base:
		root->str_offsets_base = value->number;
		break;
	case DW_AT_addr_base:
	case DW_AT_GNU_addr_base:
		root->addr_base = value->number;
		break;
	case DW_AT_rnglists_base:
		root->rnglists_base = value->number;
		break;
	case DW_AT_GNU_ranges_base:
		root->ranges_base = value->number;
		break;
	default:
		break;
	}
}

/* A split unit has no bases: its parts of the sections begin with a header of known size. */
static void set_split_bases(struct dwarf_unit *unit)
{
	const uint64_t offset_bytes = unit->encoding.offset_bytes;
	const uint64_t length_bytes = offset_bytes == 8 ? 12 : 4;

	unit->root.str_offsets_base = unit->str_offsets_start;
	unit->root.rnglists_base = unit->rnglists_start;
	if (unit->encoding.version >= 5) {
		unit->root.str_offsets_base += length_bytes + 4;
		unit->root.rnglists_base += length_bytes + 8;
	}
}

/* Reads a table as far as `only` (see dwarf_abbrevs_new) and charges for it. */
static struct dwarf_abbrevs *read_table(const struct dwarf_unit *unit, uint64_t only)
{
	struct cursor in = abbrev_cursor(unit);
	const size_t start = cursor_offset(&in);

	if (work_budget_is_spent(unit->dwarf->budget))
		in = cursor_over(NULL, 0);
	struct dwarf_abbrevs *const table = dwarf_abbrevs_new(&in, &unit->encoding, only);
	(void)dwarf_spend(unit->dwarf, 1 + (cursor_offset(&in) - start) * WORK_PER_ABBREV_BYTE);
	return table;
}

static bool is_unit_tag(uint16_t tag)
{
	return tag == DW_TAG_compile_unit || tag == DW_TAG_partial_unit ||
	       tag == DW_TAG_type_unit || tag == DW_TAG_skeleton_unit;
}

static void read_root(struct dwarf_unit *unit)
{
	struct cursor in = dwarf_unit_cursor(unit, unit->first_die);
	const uint64_t code = cursor_uleb(&in);
	const struct dwarf_abbrevs *const known = atomic_load(&unit->abbrevs);
	struct dwarf_abbrevs *const made = known == NULL ? read_table(unit, code) : NULL;
	const struct dwarf_abbrevs *const abbrevs = known == NULL ? made : known;
	const struct dwarf_abbrev *const abbrev = dwarf_abbrevs_search(abbrevs, code);

	if (abbrev == NULL || !is_unit_tag(abbrev->tag))
		dwarf_note_damage(unit->dwarf, "a unit without its first entry");
	if (unit->dwarf->is_split)
		set_split_bases(unit);
	if (abbrev != NULL)
		(void)dwarf_spend(unit->dwarf, abbrev->attribute_count);
	for (unsigned i = 0; abbrev != NULL && i < abbrev->attribute_count; i++) {
		const struct dwarf_attribute *const attribute =
			&abbrevs->attributes[abbrev->first_attribute + i];
		const struct dwarf_value value = dwarf_value_read(
			&in, attribute->form, attribute->implicit, &unit->encoding);
		if (cursor_ok(&in))
			take_root_attribute(unit, attribute->name, &value);
	}
	dwarf_abbrevs_free(made);
}

const struct dwarf_root *dwarf_unit_root(struct dwarf_unit *unit)
{
	if (!atomic_load(&unit->has_root)) {
		pthread_mutex_lock(&unit->dwarf->lock);
		if (!atomic_load(&unit->has_root))
			read_root(unit);
		atomic_store(&unit->has_root, true);
		pthread_mutex_unlock(&unit->dwarf->lock);
	}
	return &unit->root;
}

static bool is_table_at(const void *items, uint32_t position, const void *key)
{
	const struct dwarf_abbrevs_at *const table =
		&((const struct dwarf_abbrevs_at *)items)[position];
	const struct dwarf_abbrevs_at *const wanted = key;

	return table->offset == wanted->offset &&
	       table->encoding.version == wanted->encoding.version &&
	       table->encoding.address_bytes == wanted->encoding.address_bytes &&
	       table->encoding.offset_bytes == wanted->encoding.offset_bytes;
}

/* Units may share a table. NULL when the unit's was not read yet. */
static const struct dwarf_abbrevs *find_table(const struct dwarf_unit *unit)
{
	struct dwarf *const dwarf = unit->dwarf;
	const struct dwarf_abbrevs_at key = { unit->abbrev_offset, unit->encoding, NULL };

	pthread_mutex_lock(&dwarf->lock);
	const uint32_t found = hash_index_find(
		dwarf->table_index, hash_u64(key.offset), is_table_at, dwarf->tables, &key);
	const struct dwarf_abbrevs *const abbrevs =
		found == HASH_INDEX_NONE ? NULL : dwarf->tables[found].abbrevs;
	pthread_mutex_unlock(&dwarf->lock);
	return abbrevs;
}

/* Takes a table over, unless another thread has read it, too; returns the one to use. */
static const struct dwarf_abbrevs *keep_table(
	const struct dwarf_unit *unit, struct dwarf_abbrevs *abbrevs)
{
	struct dwarf *const dwarf = unit->dwarf;
	const struct dwarf_abbrevs_at key = { unit->abbrev_offset, unit->encoding, abbrevs };

	pthread_mutex_lock(&dwarf->lock);
	const uint32_t next = (uint32_t)dwarf->table_count;
	const uint32_t found = hash_index_add(
		dwarf->table_index, hash_u64(key.offset), is_table_at, dwarf->tables, &key, next);
	if (found == HASH_INDEX_NONE) {
		dwarf->tables = xgrow(
			dwarf->tables, &dwarf->table_capacity, next + 1u, sizeof *dwarf->tables);
		dwarf->tables[dwarf->table_count++] = key;
	} else {
		dwarf_abbrevs_free(abbrevs);
		abbrevs = dwarf->tables[found].abbrevs;
	}
	pthread_mutex_unlock(&dwarf->lock);
	return abbrevs;
}

void dwarf_unit_borrow_abbrevs(struct dwarf_unit *unit, struct dwarf_abbrevs_at *last)
{
	const struct dwarf_abbrevs_at key = { unit->abbrev_offset, unit->encoding, NULL };

	if (last->abbrevs == NULL || !is_table_at(last, 0, &key)) {
		dwarf_abbrevs_free(last->abbrevs);
		*last = key;
		last->abbrevs = read_table(unit, 0);
	}
	atomic_store(&unit->abbrevs, last->abbrevs);
}

/*
 * Tables are read without the lock: it would make the other threads wait for a good part of a scan.
 */
const struct dwarf_abbrevs *dwarf_unit_abbrevs(struct dwarf_unit *unit)
{
	const struct dwarf_abbrevs *abbrevs = atomic_load(&unit->abbrevs);

	if (abbrevs != NULL)
		return abbrevs;
	abbrevs = find_table(unit);
	if (abbrevs == NULL) {
		abbrevs = keep_table(unit, read_table(unit, 0));
	}
	atomic_store(&unit->abbrevs, abbrevs);
	return abbrevs;
}
