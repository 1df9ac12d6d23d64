/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/node_builder.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/function_name.h"
#include "base/file.h"
#include "base/utf8.h"
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

struct node_builder {
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

struct node_builder *node_builder_new(struct view *view, struct filter *filter,
	const struct module_table *table, struct node_rules rules)
{
	struct node_builder *const builder = xcalloc(1, sizeof *builder);

	builder->view = view;
	builder->filter = filter;
	builder->table = table;
	builder->rules = rules;
	hash_index_init(&builder->index);
	hash_index_init(&builder->name_index);
	buffer_init(&builder->text, &memory_or_exit);
	return builder;
}

void node_builder_free(struct node_builder *builder)
{
	if (builder == NULL)
		return;
	free(builder->keys);
	free(builder->names);
	free(builder->made);
	hash_index_deinit(&builder->index);
	hash_index_deinit(&builder->name_index);
	buffer_deinit(&builder->text);
	free(builder);
}

void node_builder_enter(struct node_builder *builder, const struct profile *profile,
	const struct module_place *places)
{
	builder->profile = profile;
	builder->places = places;
	builder->name_count = 0;
	hash_index_deinit(&builder->name_index);
}

static bool is_name(const void *items, uint32_t position, const void *key)
{
	const struct short_name *const names = items;

	return names[position].full == key;
}

/* The view's copy of a text of the profile. */
static const char *keep(struct node_builder *builder, const char *text)
{
	const uint32_t found = hash_index_add(&builder->name_index, hash_u64((uintptr_t)text),
		is_name, builder->names, text, (uint32_t)builder->name_count);

	if (found != HASH_INDEX_NONE)
		return builder->names[found].text;
	struct short_name *const name =
		XAPPEND(builder->names, builder->name_count, builder->name_capacity);
	*name = (struct short_name){ text, string_pool_add(&builder->view->strings, text) };
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
	struct node_builder *builder, const struct view_node *node, enum detail detail)
{
	struct buffer *const text = &builder->text;

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

static void append_line(struct node_builder *builder, const struct view_node *node)
{
	if (node->file[0] == '\0')
		buffer_append_string(&builder->text, " ??:0");
	else
		buffer_printf(&builder->text, " %s:%u", node->file, node->line);
}

static void append_name(struct node_builder *builder, const struct view_node *node,
	const struct node_key *key, enum detail detail)
{
	struct buffer *const text = &builder->text;
	const enum view_granularity granularity = builder->view->granularity;

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
		append_function(builder, node, detail);
	else
		module_append_place(text, node->module, node->address, key->offset);
	if (granularity == VIEW_FILE_FUNCTIONS && node->file[0] != '\0')
		buffer_printf(text, " %s", node->file);
	if (granularity == VIEW_ADDRESSES ||
		(granularity == VIEW_LINES && (node->function[0] != '\0' || node->file[0] != '\0')))
		append_line(builder, node);
}

static void set_name(struct node_builder *builder, size_t at, enum detail detail)
{
	buffer_clear(&builder->text);
	append_name(builder, &builder->view->nodes[at], &builder->keys[at], detail);
	/* It is printed as it is; the function in the node stays what it was. */
	if (!utf8_is_printable(builder->text.data, builder->text.size)) {
		CLEANUP(buffer_deinit) struct buffer printable = BUFFER_OR_EXIT;
		utf8_append_printable(&printable, builder->text.data, builder->text.size);
		buffer_clear(&builder->text);
		buffer_append(&builder->text, printable.data, printable.size);
	}
	builder->view->nodes[at].name = string_pool_add_sized(
		&builder->view->strings, builder->text.data, builder->text.size);
}

static uint32_t find_or_add(
	struct node_builder *builder, const struct node_key *key, const struct view_node *node)
{
	struct view *const view = builder->view;
	const uint32_t next = (uint32_t)view->node_count;
	const uint32_t found =
		hash_index_add(&builder->index, hash_key(key), is_key, builder->keys, key, next);

	if (found != HASH_INDEX_NONE)
		return found;
	builder->keys =
		xgrow(builder->keys, &builder->key_capacity, next + 1, sizeof *builder->keys);
	builder->keys[next] = *key;
	view_add_own_node(view, node);
	set_name(builder, next, DETAIL_SHORT);
	return next;
}

/* What is known of a location apart from its frames. */
struct node_place {
	const struct profile_module *module; /* NULL when no mapping covers it */
	uint64_t address;
	uint64_t offset;
	uint64_t into_function; /* bytes, where the function has no name; 0 when unknown */
};

static struct node_place find_place(
	const struct node_builder *builder, const struct profile_location *location)
{
	const uint64_t address =
		location->address - (location->address != 0 && !location->is_exact);
	struct node_place place = { .address = address, .offset = address };

	if (location->mapping != PROFILE_NONE) {
		const struct module_place *const at = &builder->places[location->mapping];
		place.module = &builder->table->modules[at->module];
		place.offset = address - at->base;
	}
	if (location->function_start != 0 && location->function_start <= address)
		place.into_function = address - location->function_start;
	return place;
}

static const char *build_of(struct node_builder *builder, const struct profile_module *module,
	const struct profile_location *location)
{
	if (module == NULL || !module->differs)
		return "";
	const struct profile_mapping *const mapping =
		&builder->profile->mappings[location->mapping];
	return mapping->build_id[0] != '\0' ? mapping->build_id : mapping->path;
}

/* The file's name in this profile: another build may have another. */
static const char *module_name(const struct node_builder *builder,
	const struct profile_module *module, const struct profile_location *location)
{
	const char *const path = builder->profile->mappings[location->mapping].path;

	return module->differs && path[0] != '\0' ? path_base_name(path) : module->name;
}

/* The view's copy of what a node of a function, or of a place without one, is printed as. */
static const char *printed_name(
	struct node_builder *builder, const struct view_node *node, const struct node_key *key)
{
	struct buffer *const text = &builder->text;

	buffer_clear(text);
	if (node->function[0] != '\0')
		function_name_append_short(text, node->function);
	else
		module_append_place(text, node->module, node->address, key->offset);
	return string_pool_add_sized(&builder->view->strings, text->data, text->size);
}

static uint32_t make_node(struct node_builder *builder, const struct profile_location *location,
	const struct profile_frame *frame, bool is_inlined)
{
	static const struct profile_frame unknown = { .function = "", .file = "" };
	const enum view_granularity granularity = builder->view->granularity;
	const struct node_place place = find_place(builder, location);
	const bool has_lines = granularity == VIEW_LINES || granularity == VIEW_ADDRESSES;
	struct view_node node = { .name = "", .is_inlined = is_inlined };
	struct node_key key = { .is_inlined = is_inlined };

	if (frame == NULL)
		frame = &unknown;
	node.function = keep(builder, granularity == VIEW_FILES ? "" : frame->function);
	node.file = keep(builder, frame->file);
	node.module = keep(
		builder, place.module == NULL ? "" : module_name(builder, place.module, location));
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
		key.build = keep(builder, build_of(builder, place.module, location));
		const uint64_t into = granularity == VIEW_ADDRESSES ? 0 : place.into_function;
		key.offset = place.offset - into;
		node.address = place.address - into;
	} else if (builder->rules.regardless_of_module) {
		key.module = "";
	} else if (!builder->rules.regardless_of_start_line &&
		   (place.module == NULL || !place.module->differs)) {
		key.start_line = frame->start_line;
	}
	if (builder->rules.by_printed_name && granularity != VIEW_FILES &&
		(granularity != VIEW_ADDRESSES || location->is_named)) {
		node.function = key.function = printed_name(builder, &node, &key);
		key.module = "";
		/* Keys are compared by their pointers, and "" of the profile is another one. */
		if (key.build[0] == '\0')
			key.build = "";
		key.offset = 0;
	}
	return find_or_add(builder, &key, &node);
}

size_t node_builder_make(struct node_builder *builder, const struct profile_location *location,
	const uint32_t **nodes)
{
	const struct profile_frame *const frames =
		location->frame_count == 0 ? NULL
					   : &builder->profile->frames[location->first_frame];
	size_t count = 0;

	builder->made = xgrow(builder->made, &builder->made_capacity, location->frame_count + 1,
		sizeof *builder->made);
	for (uint32_t i = location->frame_count; i-- > 0;) {
		if (filter_shows(builder->filter, &frames[i]))
			builder->made[count++] = make_node(
				builder, location, &frames[i], i + 1 < location->frame_count);
		if (builder->rules.no_inlines)
			break;
	}
	if (location->frame_count == 0) {
		static const struct profile_frame unknown = { .function = "", .file = "" };
		if (filter_shows(builder->filter, &unknown))
			builder->made[count++] = make_node(builder, location, NULL, false);
	}
	*nodes = builder->made;
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
static bool distinguish(struct node_builder *builder, uint32_t *order, enum detail detail)
{
	struct view *const view = builder->view;
	bool found = false;

	for (size_t i = 0; i < view->node_count; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, view->node_count, sizeof *order, by_name, view);
	for (size_t i = 0, end = 0; i < view->node_count; i = end) {
		const char *const name = view->nodes[order[i]].name;
		for (end = i + 1; end < view->node_count && view->nodes[order[end]].name == name;)
			end++;
		for (size_t at = i; end - i > 1 && at < end; at++) {
			set_name(builder, order[at], detail);
			found = true;
		}
	}
	return found;
}

void node_builder_finish(struct node_builder *builder)
{
	CLEANUP(free_cleanup)
	uint32_t *order = xreallocarray(NULL, builder->view->node_count, sizeof *order);

	for (int detail = DETAIL_ARGUMENTS; detail < DETAILS; detail++) {
		if (!distinguish(builder, order, (enum detail)detail))
			break;
	}
}

void node_totals_deinit(struct node_totals *totals)
{
	free(totals->nodes);
	free(totals->flat);
	*totals = (struct node_totals){ 0 };
}

void node_totals_make_room(struct node_totals *totals, size_t node_count)
{
	const size_t old = totals->count;
	size_t capacity = totals->capacity;

	if (node_count <= old)
		return;
	totals->flat = xgrow(totals->flat, &capacity, node_count, sizeof *totals->flat);
	totals->nodes = xgrow(totals->nodes, &totals->capacity, node_count, sizeof *totals->nodes);
	memset(totals->flat + old, 0, (node_count - old) * sizeof *totals->flat);
	memset(totals->nodes + old, 0, (node_count - old) * sizeof *totals->nodes);
	totals->count = node_count;
}

void node_totals_add(struct node_totals *totals, const uint32_t *nodes, size_t depth,
	const struct estimate *estimate)
{
	const uint32_t number = ++totals->stack_count;
	const node_pair value_variance = { estimate->value, estimate->variance };
	const double samples = estimate->samples;
	struct node_total *const all = totals->nodes;

	if (depth == 0)
		return;
	totals->whole += estimate->value;
	estimate_add(&totals->flat[nodes[depth - 1]], *estimate);
	for (size_t i = 0; i < depth; i++) {
		struct node_total *const total = &all[nodes[i]];
		if (total->seen_by == number)
			continue;
		total->seen_by = number;
		total->value_variance += value_variance;
		total->samples += samples;
	}
}

struct view_totals *node_totals_take(const struct node_totals *totals)
{
	struct view_totals *const taken = xcalloc(totals->count, sizeof *taken);

	for (size_t i = 0; i < totals->count; i++) {
		const struct node_total *const total = &totals->nodes[i];
		taken[i] = (struct view_totals){
			.flat = totals->flat[i],
			.cumulative = { total->value_variance[0], total->value_variance[1],
				total->samples },
		};
	}
	return taken;
}
