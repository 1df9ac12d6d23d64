/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/search.h"
#include "base/xalloc.h"
#include "symbol/demangle.h"
#include "symbol/dwarf_constants.h"
#include "symbol/dwarf_line.h"
#include "symbol/dwarf_name.h"
#include "symbol/dwarf_scan.h"
#include "symbol/dwarf_split.h"
#include "symbol/dwarf_unit.h"
#include "symbol/dwarf_value.h"

static const uint32_t NO_UNIT = UINT32_MAX;

/* A unit with addresses. */
struct dwarf_job {
	struct dwarf_unit *unit;
	uint32_t *positions; /* of its addresses, in the reader's array; part of job_positions */
	size_t count;
	struct arena arena; /* frames and paths of its answers */
};

struct dwarf_reader {
	struct dwarf dwarf;
	struct elf_image alternate_image; /* empty when there is none */
	struct dwarf alternate;
	bool has_alternate;
	bool misses_alternate;
	struct dwarf_splits splits;
	const uint64_t *vaddrs;
	const bool *is_function;
	size_t count;
	struct dwarf_answer *answers;
	uint32_t *unit_of;   /* per address */
	uint32_t *unclaimed; /* while units are assigned: see vaddrs_first_free */
	uint32_t *job_positions;
	struct dwarf_job *jobs;
	size_t job_count;
	struct boundaries *boundaries; /* while they are collected: where units begin and end */
};

struct dwarf_frame dwarf_frame_named(
	const struct dwarf_answer *answer, uint32_t position, const char *symbol)
{
	struct dwarf_frame frame = answer->frames[position];
	const bool is_outermost = position + 1 == answer->frame_count;
	/* gcc's name, in DWARF 2, for the cold part of a function: the linker has a better. */
	const bool is_part = strncmp(frame.name, "__second_sect_of_", 17) == 0;

	if (is_part && symbol != NULL)
		frame.name = "";
	if (is_outermost && frame.linkage[0] == '\0' && symbol != NULL &&
		(frame.name[0] == '\0' || demangle_wanted(symbol)))
		frame.linkage = symbol;
	return frame;
}

bool dwarf_exists(const struct elf_image *image)
{
	return elf_image_section(image, ".debug_info") != NULL ||
	       elf_image_section(image, ".zdebug_info") != NULL;
}

static void open_alternate(
	struct dwarf_reader *reader, const struct elf_image *image, struct file_search *search)
{
	char build_id[ELF_BUILD_ID_TEXT_BYTES];
	struct error err;

	if (elf_image_alternate_link(image, build_id) == NULL)
		return;
	if (file_search_alternate(search, image, &reader->alternate_image))
		reader->has_alternate = dwarf_init(&reader->alternate, &reader->alternate_image,
			false, search->options->threads, &search->budget, &err);
	if (reader->has_alternate)
		reader->dwarf.alternate = &reader->alternate;
	reader->misses_alternate = !reader->has_alternate;
}

bool dwarf_reader_new(const struct elf_image *image, struct file_search *search,
	const char *program, struct dwarf_reader **reader, struct error *err)
{
	struct dwarf_reader *const opened = xcalloc(1, sizeof *opened);

	if (!dwarf_init(
		    &opened->dwarf, image, false, search->options->threads, &search->budget, err)) {
		free(opened);
		return false;
	}
	open_alternate(opened, image, search);
	dwarf_splits_init(&opened->splits, search, program);
	*reader = opened;
	return true;
}

void dwarf_reader_free(struct dwarf_reader *reader)
{
	if (reader == NULL)
		return;
	for (size_t i = 0; i < reader->job_count; i++)
		arena_deinit(&reader->jobs[i].arena);
	free(reader->jobs);
	free(reader->job_positions);
	free(reader->unit_of);
	free(reader->answers);
	dwarf_splits_deinit(&reader->splits);
	if (reader->has_alternate)
		dwarf_deinit(&reader->alternate);
	elf_image_close(&reader->alternate_image);
	dwarf_deinit(&reader->dwarf);
	free(reader);
}

/* The first unit that claims an address has it. False when there was more to do than there may. */
static bool claim(struct dwarf_reader *reader, uint32_t unit, uint64_t start, uint64_t limit)
{
	const size_t first = vaddrs_lower_bound(reader->vaddrs, reader->count, start);

	if (reader->boundaries != NULL) {
		boundaries_add(reader->boundaries, start);
		boundaries_add(reader->boundaries, limit);
		return dwarf_spend(&reader->dwarf, BOUNDARY_WORK);
	}
	for (uint32_t i = vaddrs_first_free(reader->unclaimed, (uint32_t)first);
		i < reader->count && reader->vaddrs[i] < limit;
		i = vaddrs_first_free(reader->unclaimed, i)) {
		reader->unit_of[i] = unit;
		vaddrs_take(reader->unclaimed, i);
	}
	return dwarf_spend(&reader->dwarf, 1);
}

static int compare_offset(const void *key, const void *item)
{
	const uint64_t wanted = *(const uint64_t *)key;
	const uint64_t offset = ((const struct dwarf_unit *)item)->offset;

	return wanted < offset ? -1 : wanted > offset;
}

/* One set of .debug_aranges: the ranges of one unit. False when there are no more. */
static bool claim_set(struct dwarf_reader *reader, struct cursor *in)
{
	const struct dwarf *const dwarf = &reader->dwarf;
	const size_t begin = cursor_offset(in);
	uint64_t length = cursor_u32(in);
	const bool is_wide = length == UINT32_MAX;

	if (is_wide)
		length = cursor_u64(in);
	if (!cursor_ok(in) || length > cursor_left(in))
		return false;
	struct cursor set = *in;
	set.end = set.position + length;
	cursor_skip(in, length);
	cursor_skip(&set, 2); /* version */
	const uint64_t offset = is_wide ? cursor_u64(&set) : cursor_u32(&set);
	const uint8_t address_bytes = cursor_u8(&set);
	cursor_skip(&set, 1); /* size of a segment selector */
	/* The pairs are aligned to their own size, counted from the set's beginning. */
	const size_t pair_bytes = 2u * address_bytes;
	if (address_bytes != 8 && address_bytes != 4)
		return true;
	cursor_skip(&set, -(cursor_offset(&set) - begin) & (pair_bytes - 1));

	struct dwarf_unit *const unit = dwarf->unit_count == 0
						? NULL
						: bsearch(&offset, dwarf->units, dwarf->unit_count,
							  sizeof *dwarf->units, compare_offset);
	if (unit == NULL)
		return true;
	const uint32_t position = (uint32_t)(unit - dwarf->units);
	while (cursor_left(&set) >= pair_bytes) {
		const uint64_t start = address_bytes == 8 ? cursor_u64(&set) : cursor_u32(&set);
		const uint64_t size = address_bytes == 8 ? cursor_u64(&set) : cursor_u32(&set);
		uint64_t limit = 0;
		if (start == 0 && size == 0)
			break;
		unit->in_aranges = true;
		if (start >= dwarf->code_start && !__builtin_add_overflow(start, size, &limit) &&
			!claim(reader, position, start, limit))
			return false;
	}
	return true;
}

/* Units that .debug_aranges does not speak of say themselves where their code is. */
static void claim_by_root(struct dwarf_reader *reader, uint32_t position)
{
	struct dwarf_unit *const unit = &reader->dwarf.units[position];
	struct dwarf_range_reader ranges;
	struct dwarf_range range;

	if (unit->type == DW_UT_type || unit->type == DW_UT_partial)
		return;
	const struct dwarf_root *const root = dwarf_unit_root(unit);
	dwarf_range_begin(&ranges, unit, &root->low_pc, &root->high_pc, &root->ranges);
	while (dwarf_range_next(&ranges, &range) &&
		claim(reader, position, range.start, range.limit))
		continue;
}

static void assign_units(struct dwarf_reader *reader)
{
	const struct elf_bytes *const aranges = &reader->dwarf.sections[DWARF_ARANGES];
	struct cursor in = cursor_over(aranges->data, aranges->size);

	reader->unclaimed = xcalloc(reader->count + 1, sizeof *reader->unclaimed);
	vaddrs_free_all(reader->unclaimed, reader->count);
	for (size_t i = 0; i < reader->count; i++)
		reader->unit_of[i] = NO_UNIT;
	while (cursor_left(&in) > 0 && claim_set(reader, &in))
		continue;
	for (size_t i = 0; i < reader->dwarf.unit_count; i++)
		if (!reader->dwarf.units[i].in_aranges)
			claim_by_root(reader, (uint32_t)i);

	/* A function that no unit claims: .debug_aranges may be incomplete. */
	bool is_missing = false;
	for (size_t i = 0; i < reader->count && !is_missing; i++)
		is_missing = reader->unit_of[i] == NO_UNIT && reader->is_function[i];
	for (size_t i = 0; is_missing && i < reader->dwarf.unit_count; i++)
		if (reader->dwarf.units[i].in_aranges)
			claim_by_root(reader, (uint32_t)i);
	free(reader->unclaimed);
	reader->unclaimed = NULL;
}

void dwarf_plan(
	struct dwarf_reader *reader, const uint64_t *vaddrs, const bool *is_function, size_t count)
{
	reader->vaddrs = vaddrs;
	reader->is_function = is_function;
	reader->count = count;
	reader->answers = xcalloc(count, sizeof *reader->answers);
	reader->unit_of = xcalloc(count, sizeof *reader->unit_of);
	reader->job_positions = xcalloc(count, sizeof *reader->job_positions);
	assign_units(reader);

	/* Counting sort: each unit's addresses stay sorted. */
	const size_t unit_count = reader->dwarf.unit_count;
	CLEANUP(free_cleanup) uint32_t *counts = xcalloc(unit_count, sizeof *counts);
	CLEANUP(free_cleanup) uint32_t *job_of = xcalloc(unit_count, sizeof *job_of);
	for (size_t i = 0; i < count; i++)
		if (reader->unit_of[i] != NO_UNIT && counts[reader->unit_of[i]]++ == 0)
			reader->job_count++;
	reader->jobs = xcalloc(reader->job_count, sizeof *reader->jobs);
	size_t job = 0;
	uint32_t *next = reader->job_positions;
	for (size_t i = 0; i < unit_count; i++) {
		if (counts[i] == 0)
			continue;
		reader->jobs[job] = (struct dwarf_job){ &reader->dwarf.units[i], next, 0, { 0 } };
		next += counts[i];
		job_of[i] = (uint32_t)job++;
	}
	for (size_t i = 0; i < count; i++) {
		if (reader->unit_of[i] == NO_UNIT)
			continue;
		struct dwarf_job *const owner = &reader->jobs[job_of[reader->unit_of[i]]];
		owner->positions[owner->count++] = (uint32_t)i;
	}
}

size_t dwarf_job_count(const struct dwarf_reader *reader)
{
	return reader->job_count;
}

uint64_t dwarf_job_bytes(const struct dwarf_reader *reader, size_t job)
{
	const struct dwarf_unit *const unit = reader->jobs[job].unit;

	return unit->limit - unit->offset;
}

/* What a job has read, ready to be made into frames. */
struct job_state {
	struct dwarf_reader *reader;
	struct dwarf_job *job;
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
		if (!dwarf_spend(&state->reader->dwarf, path.size))
			buffer_clear(&path);
		state->paths[file] = arena_copy_text(&state->job->arena, path.data, path.size);
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

static void answer(struct job_state *state, size_t i)
{
	const struct dwarf_scan *const scan = &state->scan;
	const struct dwarf_row *const row = &state->rows[i];
	struct dwarf_answer *const out = &state->reader->answers[state->job->positions[i]];
	const uint32_t length = chain_length(scan, scan->chains[i]);
	const uint32_t count = length == 0 ? (row->has_row ? 1 : 0) : length;

	if (count == 0)
		return;
	struct dwarf_frame *const frames = arena_alloc(
		&state->job->arena, count * sizeof *frames, _Alignof(struct dwarf_frame));
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

/* The unit with the DIEs: the split one where there is one. */
static struct dwarf_unit *find_die_unit(struct dwarf_reader *reader, struct dwarf_unit *unit)
{
	/* The whole table is wanted anyway; then reading the root needs no part of it. */
	(void)dwarf_unit_abbrevs(unit);
	struct dwarf_unit *const split =
		dwarf_unit_is_skeleton(unit) ? dwarf_splits_find(&reader->splits, unit) : NULL;
	return split == NULL ? unit : split;
}

void dwarf_run_job(struct dwarf_reader *reader, size_t index)
{
	struct dwarf_job *const job = &reader->jobs[index];
	CLEANUP(free_cleanup) uint64_t *vaddrs = xcalloc(job->count, sizeof *vaddrs);
	CLEANUP(free_cleanup) bool *is_function = xcalloc(job->count, sizeof *is_function);
	CLEANUP(free_cleanup) struct dwarf_row *rows = xcalloc(job->count, sizeof *rows);
	CLEANUP(free_cleanup) const char **paths = NULL;
	struct job_state state = { .reader = reader, .job = job, .rows = rows };

	for (size_t i = 0; i < job->count; i++) {
		vaddrs[i] = reader->vaddrs[job->positions[i]];
		is_function[i] = reader->is_function[job->positions[i]];
	}
	state.die_unit = find_die_unit(reader, job->unit);
	dwarf_names_init(&state.names);
	state.has_lines = dwarf_lines_init(&state.lines, job->unit);
	if (state.has_lines) {
		paths = state.paths = xcalloc(state.lines.file_count, sizeof *paths);
		dwarf_lines_run(&state.lines, vaddrs, job->count, rows);
	}
	dwarf_scan_init(&state.scan, state.die_unit, vaddrs, is_function, job->count);
	for (size_t i = 0; i < job->count; i++)
		answer(&state, i);
	dwarf_scope_qualify(&state.names, state.queries, state.query_count, &job->arena);
	free(state.queries);
	dwarf_scan_deinit(&state.scan);
	if (state.has_lines)
		dwarf_lines_deinit(&state.lines);
	dwarf_names_deinit(&state.names);
}

void dwarf_release_job(struct dwarf_reader *reader, size_t index)
{
	arena_deinit(&reader->jobs[index].arena);
	arena_init(&reader->jobs[index].arena);
}

const uint32_t *dwarf_job_positions(const struct dwarf_reader *reader, size_t job, size_t *count)
{
	*count = reader->jobs[job].count;
	return reader->jobs[job].positions;
}

struct collecting {
	struct dwarf_reader *reader;
	struct boundaries *boundaries;
	pthread_mutex_t lock;
};

static void collect_unit(void *context, size_t index)
{
	struct collecting *const collecting = context;
	struct dwarf_unit *const unit = &collecting->reader->dwarf.units[index];
	CLEANUP(boundaries_deinit) struct boundaries found = { 0 };
	struct dwarf_lines lines;

	if (unit->type == DW_UT_type || unit->type == DW_UT_partial)
		return;
	dwarf_scan_boundaries(find_die_unit(collecting->reader, unit), &found);
	if (dwarf_lines_init(&lines, unit)) {
		dwarf_lines_boundaries(&lines, &found);
		dwarf_lines_deinit(&lines);
	}
	boundaries_sort(&found);
	pthread_mutex_lock(&collecting->lock);
	for (size_t i = 0; i < found.count; i++)
		boundaries_add(collecting->boundaries, found.vaddrs[i]);
	pthread_mutex_unlock(&collecting->lock);
}

void dwarf_boundaries(struct dwarf_reader *reader, unsigned threads, struct boundaries *boundaries)
{
	struct collecting collecting = { .reader = reader, .boundaries = boundaries };

	pthread_mutex_init(&collecting.lock, NULL);
	parallel_run(reader->dwarf.unit_count, threads, collect_unit, &collecting);
	pthread_mutex_destroy(&collecting.lock);
	reader->boundaries = boundaries;
	assign_units(reader);
	for (size_t i = 0; i < reader->dwarf.unit_count; i++)
		if (reader->dwarf.units[i].in_aranges)
			claim_by_root(reader, (uint32_t)i);
	reader->boundaries = NULL;
}

const struct dwarf_answer *dwarf_answers(const struct dwarf_reader *reader)
{
	return reader->answers;
}

const char *dwarf_missing_split(const struct dwarf_reader *reader)
{
	return reader->splits.missing;
}

bool dwarf_misses_alternate(const struct dwarf_reader *reader)
{
	return reader->misses_alternate;
}
