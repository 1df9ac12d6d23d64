/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "symbol/dwarf_line.h"
#include "symbol/dwarf_name.h"
#include "symbol/dwarf_scan.h"
#include "symbol/dwarf_value.h"

/* What a job has read, ready to be made into frames. */
struct job_state {
	struct arena *arena;
	struct dwarf_unit *unit;
	struct dwarf_unit *die_unit; /* the split unit where there is one */
	struct dwarf_scan scan;
	struct dwarf_lines lines;
	bool has_lines;
	struct dwarf_row *rows;
	const char **paths; /* of the line program's files, made when wanted */
	struct dwarf_names names;
	struct dwarf_scope_query *queries; /* frames whose names may need the enclosing scopes */
	size_t query_count, query_capacity;
};

static const char *path_of(struct job_state *state, uint64_t file)
{
	if (!state->has_lines || file >= state->lines.file_count)
		return "";
	if (state->paths[file] == NULL) {
		CLEANUP(buffer_deinit) struct buffer path = BUFFER_OR_EXIT;
		dwarf_lines_path(&state->lines, file, &path);
		if (!dwarf_spend(state->unit->dwarf, path.size))
			buffer_clear(&path);
		state->paths[file] = arena_copy_text(state->arena, path.data, path.size);
	}
	return state->paths[file];
}

static uint32_t chain_length(const struct dwarf_scan *scan, uint32_t link)
{
	uint32_t length = 0;

	for (; link != DWARF_NO_LINK; link = scan->links[link].outer)
		length++;
	return length;
}

static void name_frame(
	struct job_state *state, const struct dwarf_code *code, struct dwarf_frame *frame)
{
	struct dwarf_unit *unit = state->die_unit;
	uint64_t offset = code->offset;

	/* All calls of an inlined function share what it is called. */
	if (code->is_inlined && code->origin.form != 0)
		(void)dwarf_value_reference(unit, &code->origin, &unit, &offset);
	const struct dwarf_name name = dwarf_names_find(&state->names, unit, offset);
	frame->name = name.name;
	frame->linkage = name.linkage;
	frame->start_line = name.line;
	/* The symbol table has the full name of a function that was not inlined. */
	if (!code->is_inlined || !dwarf_scope_wanted(&name))
		return;
	*XAPPEND(state->queries, state->query_count, state->query_capacity) =
		(struct dwarf_scope_query){ name, &frame->name };
}

static void answer(struct job_state *state, size_t i, struct dwarf_answer *out)
{
	const struct dwarf_scan *const scan = &state->scan;
	const struct dwarf_row *const row = &state->rows[i];
	const uint32_t length = chain_length(scan, scan->chains[i]);
	const uint32_t count = length == 0 ? (row->has_row ? 1 : 0) : length;

	if (count == 0)
		return;
	struct dwarf_frame *const frames =
		arena_alloc(state->arena, count * sizeof *frames, _Alignof(struct dwarf_frame));
	const char *file = row->has_row ? path_of(state, row->file) : "";
	uint32_t line = row->line;
	uint32_t at = 0;
	if (length == 0)
		frames[0] = (struct dwarf_frame){ "", "", file, line, 0 };
	for (uint32_t link = scan->chains[i]; link != DWARF_NO_LINK;
		link = scan->links[link].outer) {
		const struct dwarf_code *const code = &scan->codes[scan->links[link].code];
		frames[at] = (struct dwarf_frame){ "", "", file, line, 0 };
		name_frame(state, code, &frames[at]);
		file = code->call_file == 0 && code->call_line == 0
			       ? ""
			       : path_of(state, code->call_file);
		line = code->call_line;
		at++;
	}
	*out = (struct dwarf_answer){ frames, count };
}

/* A text of the unit's piece of .debug_info, which does not live as long as the answers. */
static void keep_text(const struct job_state *state, const char **text)
{
	const uintptr_t start = (uintptr_t)(state->unit->info + state->unit->offset);
	const uintptr_t at = (uintptr_t)*text;

	if (at >= start && at - start < state->unit->limit - state->unit->offset)
		*text = arena_copy_text(state->arena, *text, strlen(*text));
}

static void keep_texts(
	const struct job_state *state, const struct dwarf_answer *answers, size_t count)
{
	for (size_t i = 0; i < count; i++)
		for (uint32_t j = 0; j < answers[i].frame_count; j++) {
			/* Made by answer() in the arena. */
			struct dwarf_frame *const frame =
				(struct dwarf_frame *)(uintptr_t)&answers[i].frames[j];
			keep_text(state, &frame->name);
			keep_text(state, &frame->linkage);
		}
}

struct dwarf_unit *dwarf_die_unit(struct dwarf_splits *splits, struct dwarf_unit *unit)
{
	/* The whole table is wanted anyway; then reading the root needs no part of it. */
	(void)dwarf_unit_abbrevs(unit);
	struct dwarf_unit *const split =
		dwarf_unit_is_skeleton(unit) ? dwarf_splits_find(splits, unit) : NULL;
	return split == NULL ? unit : split;
}

void dwarf_unit_answer(struct dwarf_unit *unit, struct dwarf_splits *splits,
	const struct dwarf_addresses *addresses, const uint32_t *positions, size_t count,
	struct arena *arena, struct dwarf_answer *answers)
{
	CLEANUP(free_cleanup) uint64_t *vaddrs = xcalloc(count, sizeof *vaddrs);
	CLEANUP(free_cleanup) bool *is_function = xcalloc(count, sizeof *is_function);
	CLEANUP(free_cleanup) struct dwarf_row *rows = xcalloc(count, sizeof *rows);
	CLEANUP(free_cleanup) const char **paths = NULL;
	struct job_state state = { .arena = arena, .unit = unit, .rows = rows };

	for (size_t i = 0; i < count; i++) {
		vaddrs[i] = addresses->vaddrs[positions[i]];
		is_function[i] = addresses->is_function[positions[i]];
	}
	state.die_unit = dwarf_die_unit(splits, unit);
	dwarf_names_init(&state.names);
	state.has_lines = dwarf_lines_init(&state.lines, unit);
	if (state.has_lines) {
		paths = state.paths = xcalloc(state.lines.file_count, sizeof *paths);
		dwarf_lines_run(&state.lines, vaddrs, count, rows);
	}
	dwarf_scan_init(&state.scan, state.die_unit, vaddrs, is_function, count);
	for (size_t i = 0; i < count; i++)
		answer(&state, i, &answers[i]);
	dwarf_scope_qualify(&state.names, state.queries, state.query_count, arena);
	if (unit->is_of_piece)
		keep_texts(&state, answers, count);
	free(state.queries);
	dwarf_scan_deinit(&state.scan);
	if (state.has_lines)
		dwarf_lines_deinit(&state.lines);
	dwarf_names_deinit(&state.names);
}
