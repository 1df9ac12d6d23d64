/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/node_maker.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/function_name.h"
#include "base/file.h"
#include "base/printable.h"
#include "base/xalloc.h"

/* What makes a node; texts are the view's, so they are compared by pointer. */
struct node_key {
	const char *function;
	const char *file;
	const char *module; /* identity */
	const char *build;  /* keeps offsets of different builds apart; "" otherwise */
	uint64_t offset;    /* in the module */
	uint32_t line;
	uint32_t start_line;
	bool is_inlined;
};

struct short_name {
	const char *full; /* the profile's pointer */
	const char *text; /* the view's */
};

struct node_maker {
	struct view *view;
	struct filter *filter;
	const struct module_table *table;
	struct node_rules rules;

	const struct profile *profile;
	const struct module_place *places;

	struct node_key *keys; /* of the view's nodes */
	size_t key_capacity;
	struct hash_index index;

	/* Texts of the current profile in the view's pool, by their pointer. */
	struct short_name *names;
	size_t name_count, name_capacity;
	struct hash_index name_index;

	uint32_t *made;
	size_t made_capacity;
	struct buffer text;
};

struct node_maker *node_maker_new(struct view *view, struct filter *filter,
	const struct module_table *table, struct node_rules rules)
{
	struct node_maker *const maker = xcalloc(1, sizeof *maker);

	maker->view = view;
	maker->filter = filter;
	maker->table = table;
	maker->rules = rules;
	hash_index_init(&maker->index);
	hash_index_init(&maker->name_index);
	buffer_init(&maker->text, &memory_or_exit);
	return maker;
}

void node_maker_free(struct node_maker *maker)
{
	if (maker == NULL)
		return;
	free(maker->keys);
	free(maker->names);
	free(maker->made);
	hash_index_deinit(&maker->index);
	hash_index_deinit(&maker->name_index);
	buffer_deinit(&maker->text);
	free(maker);
}

void node_maker_enter(
	struct node_maker *maker, const struct profile *profile, const struct module_place *places)
{
	maker->profile = profile;
	maker->places = places;
	maker->name_count = 0;
	hash_index_deinit(&maker->name_index);
}

static bool is_name(const void *items, uint32_t position, const void *key)
{
	const struct short_name *const names = items;

	return names[position].full == key;
}

/* The view's copy of a text of the profile. */
static const char *keep(struct node_maker *maker, const char *text)
{
	const uint32_t found = hash_index_add(&maker->name_index, hash_u64((uintptr_t)text),
		is_name, maker->names, text, (uint32_t)maker->name_count);

	if (found != HASH_INDEX_NONE)
		return maker->names[found].text;
	maker->names = xgrow(
		maker->names, &maker->name_capacity, maker->name_count + 1, sizeof *maker->names);
	struct short_name *const name = &maker->names[maker->name_count++];
	*name = (struct short_name){ text, string_pool_add(&maker->view->strings, text) };
	return name->text;
}

static uint64_t hash_key(const struct node_key *key)
{
	uint64_t hash = hash_u64((uintptr_t)key->function);

	hash = hash_combine(hash, (uintptr_t)key->file);
	hash = hash_combine(hash, (uintptr_t)key->module);
	hash = hash_combine(hash, (uintptr_t)key->build);
	hash = hash_combine(hash, key->offset);
	return hash_combine(
		hash, (uint64_t)key->line << 32 | (uint64_t)key->start_line << 1 | key->is_inlined);
}

static bool is_key(const void *items, uint32_t position, const void *key)
{
	const struct node_key *const have = (const struct node_key *)items + position;
	const struct node_key *const wanted = key;

	return have->function == wanted->function && have->file == wanted->file &&
	       have->module == wanted->module && have->build == wanted->build &&
	       have->offset == wanted->offset && have->line == wanted->line &&
	       have->start_line == wanted->start_line && have->is_inlined == wanted->is_inlined;
}

/* How much of a function's name is shown. */
enum detail { DETAIL_SHORT, DETAIL_ARGUMENTS, DETAIL_MODULE, DETAIL_DECLARATION, DETAILS };

static void append_function(
	struct node_maker *maker, const struct view_node *node, enum detail detail)
{
	struct buffer *const text = &maker->text;

	if (detail == DETAIL_SHORT)
		function_name_append_short(text, node->function);
	else
		buffer_append_string(text, node->function);
	if (detail >= DETAIL_MODULE && node->module[0] != '\0')
		buffer_printf(text, " [%s]", node->module);
	if (detail >= DETAIL_DECLARATION && node->file[0] != '\0' && node->start_line != 0)
		buffer_printf(text, " (%s:%u)", path_base_name(node->file), node->start_line);
	if (node->is_inlined)
		buffer_append_string(text, " (inline)");
}

static void append_place(struct node_maker *maker, const struct view_node *node, uint64_t offset)
{
	if (node->module[0] == '\0')
		buffer_printf(&maker->text, "0x%" PRIx64, node->address);
	else
		buffer_printf(&maker->text, "[%s]+0x%" PRIx64, node->module, offset);
}

static void append_line(struct node_maker *maker, const struct view_node *node)
{
	if (node->file[0] == '\0')
		buffer_append_string(&maker->text, " ??:0");
	else
		buffer_printf(&maker->text, " %s:%u", node->file, node->line);
}

static void append_name(struct node_maker *maker, const struct view_node *node,
	const struct node_key *key, enum detail detail)
{
	struct buffer *const text = &maker->text;
	const enum view_granularity granularity = maker->view->granularity;

	if (granularity == VIEW_FILES) {
		if (node->file[0] != '\0')
			buffer_append_string(text, node->file);
		else
			buffer_printf(
				text, "[%s]", node->module[0] == '\0' ? "unknown" : node->module);
		return;
	}
	if (granularity == VIEW_ADDRESSES)
		buffer_printf(text, "%016" PRIx64 " ", node->address);
	if (node->function[0] != '\0')
		append_function(maker, node, detail);
	else
		append_place(maker, node, key->offset);
	if (granularity == VIEW_FILE_FUNCTIONS && node->file[0] != '\0')
		buffer_printf(text, " %s", node->file);
	if (granularity == VIEW_ADDRESSES ||
		(granularity == VIEW_LINES && (node->function[0] != '\0' || node->file[0] != '\0')))
		append_line(maker, node);
}

static void set_name(struct node_maker *maker, size_t at, enum detail detail)
{
	buffer_clear(&maker->text);
	append_name(maker, &maker->view->nodes[at], &maker->keys[at], detail);
	/* It is printed as it is; the function in the node stays what it was. */
	if (!printable_is_all(maker->text.data, maker->text.size)) {
		CLEANUP(buffer_cleanup) struct buffer printable = { 0 };
		buffer_init(&printable, &memory_or_exit);
		printable_append(&printable, maker->text.data, maker->text.size);
		buffer_clear(&maker->text);
		buffer_append(&maker->text, printable.data, printable.size);
	}
	maker->view->nodes[at].name =
		string_pool_add_sized(&maker->view->strings, maker->text.data, maker->text.size);
}

static uint32_t find_or_add(
	struct node_maker *maker, const struct node_key *key, const struct view_node *node)
{
	struct view *const view = maker->view;
	const uint32_t next = (uint32_t)view->node_count;
	const uint32_t found =
		hash_index_add(&maker->index, hash_key(key), is_key, maker->keys, key, next);

	if (found != HASH_INDEX_NONE)
		return found;
	maker->keys = xgrow(maker->keys, &maker->key_capacity, next + 1, sizeof *maker->keys);
	maker->keys[next] = *key;
	view_add_node(view, node);
	set_name(maker, next, DETAIL_SHORT);
	return next;
}

/* What is known of a location apart from its frames. */
struct place {
	const struct module *module; /* NULL when no mapping covers it */
	uint64_t address;
	uint64_t offset;
	uint64_t into_function; /* bytes, where the function has no name; 0 when unknown */
};

static struct place find_place(
	const struct node_maker *maker, const struct profile_location *location)
{
	const uint64_t address =
		location->address - (location->address != 0 && !location->is_exact);
	struct place place = { .address = address, .offset = address };

	if (location->mapping != PROFILE_NONE) {
		const struct module_place *const at = &maker->places[location->mapping];
		place.module = &maker->table->modules[at->module];
		place.offset = address - at->base;
	}
	if (location->function_start != 0 && location->function_start <= address)
		place.into_function = address - location->function_start;
	return place;
}

static const char *build_of(struct node_maker *maker, const struct module *module,
	const struct profile_location *location)
{
	if (module == NULL || !module->differs)
		return "";
	const struct profile_mapping *const mapping = &maker->profile->mappings[location->mapping];
	return mapping->build_id[0] != '\0' ? mapping->build_id : mapping->path;
}

/* The file's name in this profile: another build may have another. */
static const char *module_name(const struct node_maker *maker, const struct module *module,
	const struct profile_location *location)
{
	const char *const path = maker->profile->mappings[location->mapping].path;

	return module->differs && path[0] != '\0' ? path_base_name(path) : module->name;
}

static uint32_t make_node(struct node_maker *maker, const struct profile_location *location,
	const struct profile_frame *frame, bool is_inlined)
{
	static const struct profile_frame unknown = { .function = "", .file = "" };
	const enum view_granularity granularity = maker->view->granularity;
	const struct place place = find_place(maker, location);
	const bool has_lines = granularity == VIEW_LINES || granularity == VIEW_ADDRESSES;
	struct view_node node = { .name = "", .is_inlined = is_inlined };
	struct node_key key = { .is_inlined = is_inlined };

	if (frame == NULL)
		frame = &unknown;
	node.function = granularity == VIEW_FILES ? "" : keep(maker, frame->function);
	node.file = keep(maker, frame->file);
	node.module = place.module == NULL ? "" : module_name(maker, place.module, location);
	node.line = has_lines ? frame->line : 0;
	node.start_line = granularity == VIEW_FILES ? 0 : frame->start_line;
	key.function = node.function;
	key.file = granularity == VIEW_FUNCTIONS ? "" : node.file;
	key.module = place.module == NULL ? "" : place.module->identity;
	key.build = "";
	key.line = node.line;
	if (granularity == VIEW_FILES) {
		node.is_inlined = key.is_inlined = false;
		if (node.file[0] != '\0')
			key.module = "";
	} else if (granularity == VIEW_ADDRESSES || node.function[0] == '\0') {
		key.build = keep(maker, build_of(maker, place.module, location));
		const uint64_t into = granularity == VIEW_ADDRESSES ? 0 : place.into_function;
		key.offset = place.offset - into;
		node.address = place.address - into;
	} else if (maker->rules.regardless_of_module) {
		key.module = "";
	} else if (place.module == NULL || !place.module->differs) {
		key.start_line = frame->start_line;
	}
	return find_or_add(maker, &key, &node);
}

size_t node_maker_make(
	struct node_maker *maker, const struct profile_location *location, const uint32_t **nodes)
{
	const struct profile_frame *const frames = maker->profile->frames + location->first_frame;
	size_t count = 0;

	maker->made = xgrow(
		maker->made, &maker->made_capacity, location->frame_count + 1, sizeof *maker->made);
	for (uint32_t i = location->frame_count; i-- > 0;) {
		if (filter_shows(maker->filter, &frames[i]))
			maker->made[count++] = make_node(
				maker, location, &frames[i], i + 1 < location->frame_count);
		if (maker->rules.no_inlines)
			break;
	}
	if (location->frame_count == 0) {
		static const struct profile_frame unknown = { .function = "", .file = "" };
		if (filter_shows(maker->filter, &unknown))
			maker->made[count++] = make_node(maker, location, NULL, false);
	}
	*nodes = maker->made;
	return count;
}

static int by_name(const void *a, const void *b, void *context)
{
	const struct view *const view = context;
	const uint32_t left = *(const uint32_t *)a;
	const uint32_t right = *(const uint32_t *)b;
	const uintptr_t l = (uintptr_t)view->nodes[left].name;
	const uintptr_t r = (uintptr_t)view->nodes[right].name;

	if (l != r)
		return l < r ? -1 : 1;
	return (left > right) - (left < right);
}

/* Gives one more detail to all nodes whose name is not theirs alone; whether there were any. */
static bool tell_apart(struct node_maker *maker, uint32_t *order, enum detail detail)
{
	struct view *const view = maker->view;
	bool found = false;

	for (size_t i = 0; i < view->node_count; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, view->node_count, sizeof *order, by_name, view);
	for (size_t i = 0, end = 0; i < view->node_count; i = end) {
		const char *const name = view->nodes[order[i]].name;
		for (end = i + 1; end < view->node_count && view->nodes[order[end]].name == name;)
			end++;
		for (size_t at = i; end - i > 1 && at < end; at++) {
			set_name(maker, order[at], detail);
			found = true;
		}
	}
	return found;
}

void node_maker_finish(struct node_maker *maker)
{
	CLEANUP(free_cleanup)
	uint32_t *order = xreallocarray(NULL, maker->view->node_count, sizeof *order);

	for (int detail = DETAIL_ARGUMENTS; detail < DETAILS; detail++) {
		if (!tell_apart(maker, order, (enum detail)detail))
			break;
	}
}
