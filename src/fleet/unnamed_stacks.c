/* SPDX-License-Identifier: Apache-2.0 */
#include "fleet/unnamed_stacks.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fleet/clickhouse_text.h"
#include "fleet/stack_names.h"

/* An answer has a limit, and a stack may have a thousand frames. */
enum { STACKS_MAX = 1000 };

/* Each file has a range of addresses of its own; no file is as large. */
#define FILE_SPAN (UINT64_C(1) << 40)
enum { FILES_MAX = 1 << 20 };

void unnamed_stacks_deinit(struct unnamed_stacks *stacks)
{
	profile_free(stacks->profile);
	free(stacks->items);
	json_decref(stacks->rows);
	*stacks = (struct unnamed_stacks){ 0 };
}

/* The offset of "FILE+0xOFFSET", as fleet/stack_names.c writes it. */
static bool parse_unnamed(const char *frame, size_t *file_size, uint64_t *offset)
{
	const char *const plus = strrchr(frame, '+');
	char *end = NULL;

	if (plus == NULL || plus == frame || strncmp(plus, "+0x", 3) != 0 ||
		strspn(plus + 3, "0123456789abcdef") != strlen(plus + 3) || strlen(plus) > 19 ||
		plus[3] == '\0')
		return false;
	*file_size = (size_t)(plus - frame);
	*offset = strtoull(plus + 3, &end, 16);
	return true;
}

static bool is_build_id(const char *text)
{
	return text[0] != '\0' && strspn(text, "0123456789abcdef") == strlen(text);
}

/* The position of an address at or after `at`; the number of them when there is none. */
static size_t find_address(const struct unnamed_stack *item, size_t at, const char *offset)
{
	const size_t count = json_array_size(item->offsets);

	while (at < count &&
		strcmp(json_string_value(json_array_get(item->offsets, at)), offset) != 0)
		at++;
	return at;
}

/*
 * The build-id of a frame without a name: that of the next address with its offset. "" when it has
 * none, or when two files have that offset in this stack.
 */
static const char *find_build_id(
	const struct unnamed_stack *item, size_t *at, uint64_t offset_value)
{
	char offset[24];

	snprintf(offset, sizeof offset, "%" PRIu64, offset_value);
	const size_t count = json_array_size(item->offsets);
	const size_t found = find_address(item, *at, offset);
	if (found == count)
		return "";
	const char *const build_id = json_string_value(json_array_get(item->build_ids, found));
	for (size_t i = find_address(item, 0, offset); i < count;
		i = find_address(item, i + 1, offset))
		if (strcmp(json_string_value(json_array_get(item->build_ids, i)), build_id) != 0)
			return "";
	*at = found + 1;
	return is_build_id(build_id) ? build_id : "";
}

/* The first address of a file, which is mapped if it is not yet; 0 when there are too many. */
static uint64_t map_file(
	struct profile *profile, const char *name, size_t name_size, const char *build_id)
{
	CLEANUP(buffer_deinit) struct buffer path = BUFFER_OR_EXIT;
	size_t at = 0;

	/* From the root: a relative path would be looked up in the current folder. */
	buffer_append_char(&path, '/');
	buffer_append(&path, name, name_size);
	while (at < profile->mapping_count &&
		(strcmp(profile->mappings[at].build_id, build_id) != 0 ||
			strcmp(profile->mappings[at].path, buffer_string(&path)) != 0))
		at++;
	if (at == profile->mapping_count && at < FILES_MAX) {
		const struct profile_mapping mapping = {
			.start = (at + 1) * FILE_SPAN,
			.limit = (at + 2) * FILE_SPAN,
			.path = buffer_string(&path),
			.build_id = build_id,
			.executable = true,
		};
		profile_add_mapping(profile, &mapping);
	}
	return at < FILES_MAX ? profile->mappings[at].start : 0;
}

static uint32_t add_frame(
	struct profile *profile, struct unnamed_stack *item, size_t *at, const char *frame)
{
	size_t name_size = 0;
	uint64_t offset = 0;

	if (parse_unnamed(frame, &name_size, &offset) && offset < FILE_SPAN) {
		const char *const build_id = find_build_id(item, at, offset);
		const uint64_t start =
			build_id[0] == '\0' ? 0 : map_file(profile, frame, name_size, build_id);
		if (start != 0) {
			item->unnamed++;
			return profile_add_address(profile, start + offset);
		}
	}
	return profile_add_named(profile,
		&(struct profile_frame){ .function = frame, .linkage_name = "", .file = "" }, 1);
}

/* Columns: stack, frames, build_ids, offsets. */
static void take_row(struct unnamed_stacks *stacks, const json_t *row)
{
	const json_t *const frames = json_array_get(row, 1);
	const size_t depth = json_array_size(frames);
	CLEANUP(free_cleanup) uint32_t *locations = xcalloc(depth, sizeof *locations);
	struct unnamed_stack item = {
		.stack = clickhouse_unsigned(row, 0),
		.build_ids = json_array_get(row, 2),
		.offsets = json_array_get(row, 3),
	};
	size_t at = 0;

	stacks->last = item.stack;
	for (size_t i = 0; i < depth; i++)
		locations[depth - 1 - i] = add_frame(
			stacks->profile, &item, &at, json_string_value(json_array_get(frames, i)));
	if (item.unnamed == 0)
		return;
	const uint32_t stack = profile_add_stack(stacks->profile, locations, depth);
	*XAPPEND(stacks->items, stacks->count, stacks->capacity) = item;
	profile_add_sample(stacks->profile,
		&(struct profile_sample){ .stack = stack, .thread = PROFILE_NONE });
}

bool unnamed_stacks_read(struct clickhouse *clickhouse, uint64_t after,
	struct unnamed_stacks *stacks, struct error *err)
{
	CLEANUP(free_cleanup)
	char *query = xasprintf(
		"SELECT stack, arrayMap(f -> toString(f), f1) AS names, "
		"arrayMap(f -> toString(f), b1), arrayMap(o -> toString(o), o1) FROM "
		"(SELECT stack, argMax(frames, rank) AS f1, argMax(build_ids, rank) AS b1, "
		"argMax(offsets, rank) AS o1 FROM stack WHERE stack > %" PRIu64
		" GROUP BY stack) WHERE arrayExists(f -> match(f, '.[+]0x[0-9a-f]+$'), names) "
		"ORDER BY stack LIMIT %d",
		after, STACKS_MAX);
	size_t index;
	json_t *row;

	if (!clickhouse_select(clickhouse, query, "uaaa", &stacks->rows, err))
		return false;
	stacks->profile = profile_new(clickhouse_name(clickhouse));
	stacks->last = after;
	json_array_foreach(stacks->rows, index, row)
	{
		if (json_array_size(json_array_get(row, 2)) !=
			json_array_size(json_array_get(row, 3)))
			return error_set(err, ERROR_INPUT,
				"%s: a stack has other build-ids than offsets",
				clickhouse_name(clickhouse));
		take_row(stacks, row);
	}
	stacks->is_at_end = json_array_size(stacks->rows) < STACKS_MAX;
	profile_assign_mappings(stacks->profile);
	return true;
}

static size_t count_unnamed(const struct profile *profile, const struct profile_stack *stack)
{
	size_t count = 0;

	for (uint32_t i = 0; i < stack->depth; i++) {
		const struct profile_location *const location =
			&profile->locations[profile->stack_locations[stack->first + i]];
		count += !location->is_named &&
			 (location->frame_count == 0 ||
				 profile->frames[location->first_frame].function[0] == '\0');
	}
	return count;
}

static void append_texts(struct buffer *out, const json_t *texts)
{
	const size_t count = json_array_size(texts);
	CLEANUP(free_cleanup) const char **all = xcalloc(count, sizeof *all);

	for (size_t i = 0; i < count; i++)
		all[i] = json_string_value(json_array_get(texts, i));
	clickhouse_append_texts(out, all, count);
}

static void append_numbers(struct buffer *out, const json_t *numbers)
{
	buffer_append_char(out, '[');
	for (size_t i = 0; i < json_array_size(numbers); i++)
		buffer_printf(out, "%s%" PRIu64, i == 0 ? "" : ",",
			(uint64_t)strtoull(
				json_string_value(json_array_get(numbers, i)), NULL, 10));
	buffer_append_char(out, ']');
}

static void append_row(struct buffer *out, struct stack_namer *namer,
	const struct unnamed_stack *item, const struct profile_stack *stack)
{
	const uint64_t site = stack_namer_take(namer, stack);

	buffer_printf(out, "%" PRIu64 "\t%" PRIu64 "\t", item->stack, site);
	clickhouse_append_texts(out, namer->names, namer->name_count);
	buffer_append_char(out, '\t');
	append_texts(out, item->build_ids);
	buffer_append_char(out, '\t');
	append_numbers(out, item->offsets);
	buffer_append_char(out, '\n');
}

bool unnamed_stacks_write(struct clickhouse *clickhouse, const struct unnamed_stacks *stacks,
	struct unnamed_counts *counts, struct error *err)
{
	const struct profile *const profile = stacks->profile;
	CLEANUP(stack_namer_deinit) struct stack_namer namer = { 0 };
	CLEANUP(buffer_deinit) struct buffer rows = BUFFER_OR_EXIT;
	struct unnamed_counts found = { 0 };

	if (!stack_namer_init(&namer, profile, err))
		return false;
	namer.keeps_named = true;
	for (size_t i = 0; i < stacks->count; i++) {
		const struct profile_stack *const stack =
			&profile->stacks[profile->samples[i].stack];
		const size_t unnamed = count_unnamed(profile, stack);
		found.unchanged += unnamed == stacks->items[i].unnamed;
		found.completed += unnamed == 0;
		found.improved += unnamed != 0 && unnamed < stacks->items[i].unnamed;
		if (unnamed < stacks->items[i].unnamed)
			append_row(&rows, &namer, &stacks->items[i], stack);
	}
	if (rows.size != 0 && !clickhouse_insert(clickhouse,
				      "INSERT INTO stack (stack, site, frames, build_ids, offsets) "
				      "FORMAT TabSeparated",
				      &rows, NULL, err))
		return false;
	counts->completed += found.completed;
	counts->improved += found.improved;
	counts->unchanged += found.unchanged;
	return true;
}
