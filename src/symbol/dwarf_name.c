/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_name.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
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

/*
 * Fortran's linkage names have the module ("__mod_MOD_func"), which the names in the source lack,
 * and no demangler reads them.
 */
static bool is_named_by_linkage(const struct dwarf_name *name)
{
	if (name->linkage[0] == '\0')
		return false;
	switch (dwarf_unit_root(name->unit)->language) {
	case DW_LANG_Fortran77:
	case DW_LANG_Fortran90:
	case DW_LANG_Fortran95:
	case DW_LANG_Fortran03:
	case DW_LANG_Fortran08:
	case DW_LANG_Fortran18:
		return true;
	default:
		return false;
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
	*XAPPEND(names->names, names->count, names->capacity) = key;
	struct dwarf_name *const name = &names->names[next];
	follow(names, unit, offset, name);
	if (is_named_by_linkage(name))
		name->name = name->linkage;
	return *name;
}

enum {
	MAX_DEPTH = 256,    /* of nested DIEs; compilers reach a few dozen */
	MAX_REFERENCES = 8, /* classes inside functions inside classes ... */
	MAX_NAME_BYTES = 8192,
	BYTES_PER_WORK = 16, /* most DIEs are skipped */
};

/* A DIE around the one being read. */
struct scope {
	uint64_t offset;
	bool is_named; /* it is part of the names inside it */
	bool has_prefix;
	const char *prefix; /* of the names inside it; in the arena, once has_prefix */
};

struct scope_walk {
	struct dwarf_names *names;
	struct dwarf_unit *unit;
	struct arena *arena;
	unsigned references; /* that led here */
	size_t depth;
	struct scope open[MAX_DEPTH];
};

bool dwarf_scope_wanted(const struct dwarf_name *name)
{
	if (name->linkage[0] != '\0' || name->name[0] == '\0' || name->is_external)
		return false;
	switch (dwarf_unit_root(name->unit)->language) {
	case DW_LANG_C_plus_plus:
	case DW_LANG_C_plus_plus_03:
	case DW_LANG_C_plus_plus_11:
	case DW_LANG_C_plus_plus_14:
	case DW_LANG_C_plus_plus_17:
	case DW_LANG_C_plus_plus_20:
	case DW_LANG_Rust:
		return true;
	default:
		return false;
	}
}

static bool is_named(uint16_t tag)
{
	switch (tag) {
	case DW_TAG_class_type:
	case DW_TAG_namespace:
	case DW_TAG_structure_type:
	case DW_TAG_subprogram:
	case DW_TAG_union_type:
		return true;
	default:
		return false;
	}
}

static uint16_t tag_at(struct dwarf_unit *unit, uint64_t offset)
{
	struct cursor in = dwarf_unit_cursor(unit, offset);
	const struct dwarf_abbrev *const abbrev =
		dwarf_abbrevs_find(dwarf_unit_abbrevs(unit), cursor_uleb(&in));

	return abbrev == NULL ? 0 : abbrev->tag;
}

static const char *join(
	struct scope_walk *walk, const char *prefix, const char *name, const char *end)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	buffer_append_string(&text, prefix);
	buffer_append_string(&text, name);
	buffer_append_string(&text, end);
	if (text.size > MAX_NAME_BYTES || !dwarf_spend(walk->unit->dwarf, text.size))
		return prefix;
	return arena_copy_text(walk->arena, text.data, text.size);
}

static const char *prefix_at(struct scope_walk *walk, const struct dwarf_name *name);

/* What a DIE around the current one is called, which is of the name `inner`. */
static const char *scope_name(const struct scope_walk *walk, const struct scope *scope,
	const char *name, const char *inner)
{
	if (name[0] != '\0')
		return name;
	if (tag_at(walk->unit, scope->offset) == DW_TAG_namespace)
		return "(anonymous namespace)";
	/* The type of a lambda has no name, and this function. */
	return strncmp(inner, "operator()", strlen("operator()")) == 0 ? "{lambda}"
								       : "{unnamed type}";
}

/* The name of the next named DIE from `i` on, towards the current one, which is called `name`. */
static const char *inner_name(struct scope_walk *walk, size_t i, const char *name)
{
	for (; i < walk->depth; i++)
		if (walk->open[i].is_named)
			return dwarf_names_find(walk->names, walk->unit, walk->open[i].offset).name;
	return name;
}

/*
 * The names of the DIEs around the current one, which is called `inner`: the outermost first, each
 * followed by "::".
 */
static const char *prefix_here(struct scope_walk *walk, const char *inner)
{
	const char *prefix = "";

	for (size_t i = 0; i < walk->depth; i++) {
		struct scope *const scope = &walk->open[i];
		if (!scope->is_named)
			continue;
		if (!scope->has_prefix) {
			const struct dwarf_name name =
				dwarf_names_find(walk->names, walk->unit, scope->offset);
			const char *const text = scope_name(walk, scope, name.name,
				name.name[0] == '\0' ? inner_name(walk, i + 1, inner) : "");
			/* What is defined outside of its class or namespace was declared in it. */
			if (name.unit != walk->unit || name.place != scope->offset)
				prefix = prefix_at(walk, &name);
			scope->prefix = join(walk, prefix, text, "::");
			scope->has_prefix = true;
		}
		prefix = scope->prefix;
	}
	return prefix;
}

/* A query for the scopes around a DIE needs no more than that. */
static const char *full_name(
	struct scope_walk *walk, const char *prefix, const struct dwarf_scope_query *query)
{
	return walk->references > 0 ? prefix : join(walk, prefix, query->name.name, "");
}

/* Reads the unit up to the last of the queries, all of which are of it and sorted. */
static void run(struct scope_walk *walk, const struct dwarf_scope_query *queries, size_t count)
{
	struct dwarf_unit *const unit = walk->unit;
	const struct dwarf_abbrevs *const abbrevs = dwarf_unit_abbrevs(unit);
	struct cursor in = dwarf_unit_cursor(unit, unit->first_die);
	size_t next = 0;

	while (next < count && cursor_left(&in) > 0) {
		const uint64_t offset = cursor_offset(&in);
		const uint64_t code = cursor_uleb(&in);
		if (code == 0) {
			if (walk->depth <= 1)
				return;
			walk->depth--;
			continue;
		}
		const struct dwarf_abbrev *const abbrev = dwarf_abbrevs_find(abbrevs, code);
		if (abbrev == NULL)
			return;
		const uint64_t sibling = dwarf_step_over(&in, abbrevs, abbrev, &unit->encoding);
		for (; next < count && queries[next].name.place <= offset; next++) {
			const char *const prefix =
				queries[next].name.place == offset
					? prefix_here(walk, queries[next].name.name)
					: "";
			if (prefix[0] != '\0')
				*queries[next].text = full_name(walk, prefix, &queries[next]);
		}
		if (next == count || !abbrev->has_children)
			continue;
		const uint64_t here = cursor_offset(&in) - unit->offset;
		const uint64_t wanted = queries[next].name.place - unit->offset;
		if (sibling > here && sibling <= wanted) {
			cursor_skip(&in, sibling - here);
			continue;
		}
		if (walk->depth == MAX_DEPTH)
			return;
		walk->open[walk->depth++] =
			(struct scope){ .offset = offset, .is_named = is_named(abbrev->tag) };
	}
}

static void qualify_unit(struct dwarf_names *names, const struct dwarf_scope_query *queries,
	size_t count, struct arena *arena, unsigned references)
{
	struct scope_walk *const walk = xmalloc(sizeof *walk);
	const uint64_t bytes = queries[count - 1].name.place - queries[0].name.unit->offset;

	walk->names = names;
	walk->unit = queries[0].name.unit;
	walk->arena = arena;
	walk->references = references;
	walk->depth = 0;
	if (dwarf_spend(walk->unit->dwarf, 1 + bytes / BYTES_PER_WORK))
		run(walk, queries, count);
	free(walk);
}

/* The prefix of another DIE than those around the current one. */
static const char *prefix_at(struct scope_walk *walk, const struct dwarf_name *name)
{
	const char *text = "";
	const struct dwarf_scope_query query = { *name, &text };

	if (walk->references < MAX_REFERENCES)
		qualify_unit(walk->names, &query, 1, walk->arena, walk->references + 1);
	return text;
}

static int compare_queries(const void *a, const void *b)
{
	const struct dwarf_name *const left = &((const struct dwarf_scope_query *)a)->name;
	const struct dwarf_name *const right = &((const struct dwarf_scope_query *)b)->name;

	if (left->unit != right->unit)
		return (uintptr_t)left->unit < (uintptr_t)right->unit ? -1 : 1;
	return left->place < right->place ? -1 : left->place > right->place;
}

void dwarf_scope_qualify(struct dwarf_names *names, struct dwarf_scope_query *queries, size_t count,
	struct arena *arena)
{
	if (count == 0)
		return;
	qsort(queries, count, sizeof *queries, compare_queries);
	for (size_t first = 0, i = 1; i <= count; i++)
		if (i == count || queries[i].name.unit != queries[first].name.unit) {
			qualify_unit(names, &queries[first], i - first, arena, 0);
			first = i;
		}
}
