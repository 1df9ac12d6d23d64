/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/dwarf.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/search.h"
#include "base/xalloc.h"
#include "symbol/demangle.h"
#include "symbol/dwarf_aranges.h"
#include "symbol/dwarf_constants.h"
#include "symbol/dwarf_line.h"
#include "symbol/dwarf_scan.h"
#include "symbol/dwarf_split.h"
#include "symbol/dwarf_stream.h"
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
	char *alternate_problem; /* NULL when there is none */
	struct dwarf_splits splits;
	struct dwarf_addresses addresses;
	struct dwarf_answer *answers;
	uint32_t *unit_of;   /* per address */
	uint32_t *unclaimed; /* while units are assigned: see vaddrs_first_free */
	uint32_t *job_positions;
	struct dwarf_job *jobs;
	size_t job_count;
	struct arena *arenas; /* of answers without jobs */
	size_t arena_count;
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
	CLEANUP(buffer_deinit) struct buffer problem = BUFFER_OR_EXIT;
	struct error err;

	if (elf_image_alternate_link(image, build_id) == NULL)
		return;
	if (!file_search_alternate(search, image, &reader->alternate_image, &problem)) {
		reader->alternate_problem = buffer_take(&problem);
		return;
	}
	reader->has_alternate = dwarf_init(&reader->alternate, &reader->alternate_image, false,
		search->options->threads, &search->budget, &err);
	if (reader->has_alternate)
		reader->dwarf.alternate = &reader->alternate;
	else
		reader->alternate_problem = xstrdup(err.message);
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

/*
 * Smaller ones take up to a third less processor time as a whole, because libdeflate is faster than
 * ISA-L and clearing the memory does not cost much yet.
 */
static const uint64_t MIN_STREAM_BYTES = (uint64_t)64 << 20;

static bool answer_streamed(struct dwarf_reader *reader, const struct elf_image *image,
	const struct file_search *search, const struct elf_packed *info, bool *is_answered,
	struct error *err)
{
	const unsigned threads = search->options->threads;
	const struct dwarf_stream_request request = {
		.image = image,
		.info = *info,
		.threads = threads,
		.piece_bytes = DWARF_PIECE_BYTES,
		.splits = &reader->splits,
		.addresses = &reader->addresses,
	};

	reader->answers = xcalloc(reader->addresses.count, sizeof *reader->answers);
	reader->arena_count = parallel_thread_count(threads);
	reader->arenas = xcalloc(reader->arena_count, sizeof *reader->arenas);
	switch (dwarf_stream_run(&reader->dwarf, &request, reader->answers, reader->arenas, err)) {
	case DWARF_STREAM_ANSWERED:
		*is_answered = true;
		return true;
	case DWARF_STREAM_UNSUITED:
		free(reader->answers);
		reader->answers = NULL;
		return dwarf_load_info(&reader->dwarf, image, threads != 1, err);
	case DWARF_STREAM_FAILED:
	default:
		return false;
	}
}

bool dwarf_hint(struct error *err)
{
	/* Such errors have their hint. */
	if (err->kind == ERROR_UNSUPPORTED)
		return false;
	return error_hint(err, "%s",
		err->kind == ERROR_MEMORY ? "raise the limit of the address space (ulimit -v)"
					  : DWARF_DAMAGE_HINT);
}

bool dwarf_reader_answer(const struct elf_image *image, struct file_search *search,
	const char *program, const struct dwarf_addresses *addresses, struct dwarf_reader **reader,
	struct error *err)
{
	struct elf_packed info;
	bool is_answered = false;

	if (!dwarf_stream_is_possible(image, &info) || info.size < MIN_STREAM_BYTES ||
		!dwarf_stream_is_worthwhile(image)) {
		if (!dwarf_reader_new(image, search, program, reader, err))
			return false;
		dwarf_plan(*reader, addresses->vaddrs, addresses->is_function, addresses->count);
		return true;
	}
	struct dwarf_reader *const opened = xcalloc(1, sizeof *opened);
	dwarf_open(&opened->dwarf, image, false, &search->budget);
	dwarf_splits_init(&opened->splits, search, program);
	opened->addresses = *addresses;
	if (!answer_streamed(opened, image, search, &info, &is_answered, err)) {
		dwarf_reader_free(opened);
		return false;
	}
	if (!is_answered)
		dwarf_plan(opened, addresses->vaddrs, addresses->is_function, addresses->count);
	*reader = opened;
	return true;
}

void dwarf_reader_free(struct dwarf_reader *reader)
{
	if (reader == NULL)
		return;
	for (size_t i = 0; i < reader->job_count; i++)
		arena_deinit(&reader->jobs[i].arena);
	for (size_t i = 0; i < reader->arena_count; i++)
		arena_deinit(&reader->arenas[i]);
	free(reader->arenas);
	free(reader->jobs);
	free(reader->job_positions);
	free(reader->unit_of);
	free(reader->answers);
	dwarf_splits_deinit(&reader->splits);
	if (reader->has_alternate)
		dwarf_deinit(&reader->alternate);
	elf_image_close(&reader->alternate_image);
	free(reader->alternate_problem);
	dwarf_deinit(&reader->dwarf);
	free(reader);
}

/* The first unit that claims an address has it. False when there was more to do than there may. */
static bool claim(struct dwarf_reader *reader, uint32_t unit, uint64_t start, uint64_t limit)
{
	const size_t first =
		vaddrs_lower_bound(reader->addresses.vaddrs, reader->addresses.count, start);

	if (reader->boundaries != NULL) {
		boundaries_add(reader->boundaries, start);
		boundaries_add(reader->boundaries, limit);
		return dwarf_spend(&reader->dwarf, BOUNDARY_WORK);
	}
	for (uint32_t i = vaddrs_first_free(reader->unclaimed, (uint32_t)first);
		i < reader->addresses.count && reader->addresses.vaddrs[i] < limit;
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

/* One set of .debug_aranges: the ranges of one unit. False when there was more than there may. */
static bool claim_set(struct dwarf_reader *reader, struct dwarf_arange_set *set)
{
	const struct dwarf *const dwarf = &reader->dwarf;
	struct dwarf_unit *const unit =
		dwarf->unit_count == 0 ? NULL
				       : bsearch(&set->unit_offset, dwarf->units, dwarf->unit_count,
						 sizeof *dwarf->units, compare_offset);
	uint64_t start = 0;
	uint64_t size = 0;

	if (unit == NULL)
		return true;
	const uint32_t position = (uint32_t)(unit - dwarf->units);
	while (dwarf_arange_next(set, &start, &size)) {
		uint64_t limit = 0;
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
	struct dwarf_arange_set set;

	reader->unclaimed = xcalloc(reader->addresses.count + 1, sizeof *reader->unclaimed);
	vaddrs_free_all(reader->unclaimed, reader->addresses.count);
	for (size_t i = 0; i < reader->addresses.count; i++)
		reader->unit_of[i] = NO_UNIT;
	while (dwarf_arange_set_next(&in, &set) && claim_set(reader, &set))
		continue;
	for (size_t i = 0; i < reader->dwarf.unit_count; i++)
		if (!reader->dwarf.units[i].in_aranges)
			claim_by_root(reader, (uint32_t)i);

	/* A function that no unit claims: .debug_aranges may be incomplete. */
	bool is_missing = false;
	for (size_t i = 0; i < reader->addresses.count && !is_missing; i++)
		is_missing = reader->unit_of[i] == NO_UNIT && reader->addresses.is_function[i];
	for (size_t i = 0; is_missing && i < reader->dwarf.unit_count; i++)
		if (reader->dwarf.units[i].in_aranges)
			claim_by_root(reader, (uint32_t)i);
	free(reader->unclaimed);
	reader->unclaimed = NULL;
}

void dwarf_plan(
	struct dwarf_reader *reader, const uint64_t *vaddrs, const bool *is_function, size_t count)
{
	reader->addresses.vaddrs = vaddrs;
	reader->addresses.is_function = is_function;
	reader->addresses.count = count;
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

void dwarf_run_job(struct dwarf_reader *reader, size_t index)
{
	struct dwarf_job *const job = &reader->jobs[index];
	CLEANUP(free_cleanup) struct dwarf_answer *answers = xcalloc(job->count, sizeof *answers);

	dwarf_unit_answer(job->unit, &reader->splits, &reader->addresses, job->positions,
		job->count, &job->arena, answers);
	for (size_t i = 0; i < job->count; i++)
		reader->answers[job->positions[i]] = answers[i];
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
	dwarf_scan_boundaries(dwarf_die_unit(&collecting->reader->splits, unit), &found);
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

static void release_sections(struct dwarf *dwarf)
{
	for (int i = 0; i < DWARF_SECTIONS; i++)
		elf_bytes_free(&dwarf->sections[i]);
}

void dwarf_release_answers(struct dwarf_reader *reader)
{
	release_sections(&reader->dwarf);
	if (reader->has_alternate)
		release_sections(&reader->alternate);
	free(reader->answers);
	reader->answers = NULL;
	for (size_t i = 0; i < reader->job_count; i++)
		dwarf_release_job(reader, i);
	for (size_t i = 0; i < reader->arena_count; i++)
		arena_deinit(&reader->arenas[i]);
}

const char *dwarf_split_problem(const struct dwarf_reader *reader)
{
	return reader->splits.problem;
}

const char *dwarf_alternate_problem(const struct dwarf_reader *reader)
{
	return reader->alternate_problem;
}

static bool append_damage(const struct dwarf *dwarf, struct buffer *problem)
{
	const char *const damage = atomic_load(&dwarf->damage);

	if (damage != NULL)
		buffer_printf(
			problem, "%s: its debug information is damaged: %s", dwarf->path, damage);
	return damage != NULL;
}

bool dwarf_is_damaged(const struct dwarf_reader *reader, struct buffer *problem)
{
	return append_damage(&reader->dwarf, problem) ||
	       (reader->has_alternate && append_damage(&reader->alternate, problem));
}

bool dwarf_has_damaged_split(const struct dwarf_reader *reader, struct buffer *problem)
{
	const struct dwarf *const damaged = dwarf_splits_damaged(&reader->splits);

	return damaged != NULL && append_damage(damaged, problem);
}
