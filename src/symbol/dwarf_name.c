/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_name.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "symbol/dwarf_constants.h"
#include "symbol/dwarf_value.h"

/* From the call to the function to its declaration there are three; damaged files have cycles. */
enum { MAX_STEPS = 16 };

void dwarf_names_init(struct dwarf_names *names)
{
	*names = (struct dwarf_names){ 0 };
	hash_index_init(&names->index);
}

void dwarf_names_deinit(struct dwarf_names *names)
{
	hash_index_deinit(&names->index);
	free(names->names);
	*names = (struct dwarf_names){ 0 };
}

/* Takes what this DIE says and is still unknown, and the reference to the next one. */
static void read_names(struct dwarf_names *names, struct dwarf_unit *unit, uint64_t offset,
	struct dwarf_name *name, struct dwarf_value *next)
{
	const struct dwarf_abbrevs *const abbrevs = dwarf_unit_abbrevs(unit);
	struct cursor in = dwarf_unit_cursor(unit, offset);
	const struct dwarf_abbrev *const abbrev = dwarf_abbrevs_find(abbrevs, cursor_uleb(&in));

	if (abbrev == NULL ||
		!dwarf_spend_batched(unit->dwarf, &names->pending, abbrev->attribute_count))
		return;
	for (unsigned i = 0; i < abbrev->attribute_count; i++) {
		const struct dwarf_attribute *const attribute =
			&abbrevs->attributes[abbrev->first_attribute + i];
		const struct dwarf_value value = dwarf_value_read(
			&in, attribute->form, attribute->implicit, &unit->encoding);
		if (!cursor_ok(&in))
			return;
		switch (attribute->name) {
		case DW_AT_name:
			if (name->name[0] == '\0')
				name->name = dwarf_value_text(unit, &value);
			break;
		case DW_AT_linkage_name:
		case DW_AT_MIPS_linkage_name:
			if (name->linkage[0] == '\0')
				name->linkage = dwarf_value_text(unit, &value);
			break;
		case DW_AT_decl_line:
			if (name->line == 0 && value.number <= UINT32_MAX)
				name->line = (uint32_t)value.number;
			break;
		case DW_AT_external:
			name->is_external = value.number != 0;
			break;
		case DW_AT_abstract_origin:
		case DW_AT_specification:
			*next = value;
			break;
		default:
			break;
		}
	}
}

static void follow(struct dwarf_names *names, struct dwarf_unit *unit, uint64_t offset,
	struct dwarf_name *name)
{
	for (int i = 0; i < MAX_STEPS; i++) {
		struct dwarf_value next = { 0 };
		name->unit = unit;
		name->place = offset;
		read_names(names, unit, offset, name, &next);
		if (next.form == 0 || !dwarf_value_reference(unit, &next, &unit, &offset))
			return;
	}
}

static bool is_name_of(const void *items, uint32_t position, const void *key)
{
	const struct dwarf_name *const name = &((const struct dwarf_name *)items)[position];
	const struct dwarf_name *const wanted = key;

	return name->offset == wanted->offset && name->dwarf == wanted->dwarf;
}

struct dwarf_name dwarf_names_find(
	struct dwarf_names *names, struct dwarf_unit *unit, uint64_t offset)
{
	const struct dwarf_name key = {
		.dwarf = unit->dwarf, .offset = offset, .name = "", .linkage = ""
	};
	const uint64_t hash = hash_combine(hash_u64(offset), (uintptr_t)unit->dwarf);
	const uint32_t next = (uint32_t)names->count;
	const uint32_t found =
		hash_index_add(&names->index, hash, is_name_of, names->names, &key, next);

	if (found != HASH_INDEX_NONE)
		return names->names[found];
	names->names =
		xgrow(names->names, &names->capacity, names->count + 1, sizeof *names->names);
	names->names[names->count++] = key;
	follow(names, unit, offset, &names->names[next]);
	return names->names[next];
}
