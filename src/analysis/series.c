/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/series.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/unsample.h"
#include "base/xalloc.h"

#define UNKNOWN UINT32_MAX

void series_init(struct series *series, enum profile_counter counter)
{
	*series = (struct series){ .counter = counter };
	string_pool_init(&series->strings);
}

static void series_profile_deinit(struct series_profile *profile)
{
	free(profile->lines);
	free(profile->allocated);
	free(profile->files);
}

void series_deinit(struct series *series)
{
	for (size_t i = 0; i < series->profile_count; i++)
		series_profile_deinit(&series->profiles[i]);
	for (size_t i = 0; i < series->shared_count; i++)
		profile_free(series->shared[i]);
	free(series->profiles);
	free(series->shared);
	string_pool_deinit(&series->strings);
}

/* A profile that is being added, and where its items went. */
struct transfer {
	const struct profile *from;
	struct profile *to;
	/* For each item of `from` its position in `to`; UNKNOWN where it has none (yet). */
	uint32_t *mappings;
	uint32_t *locations;
	uint32_t *stacks;
	uint32_t mapping_count; /* that are kept */
	struct text_map texts;
};

static void transfer_deinit(struct transfer *transfer)
{
	free(transfer->mappings);
	free(transfer->locations);
	free(transfer->stacks);
	text_map_deinit(&transfer->texts);
}

/* Numbers the files of code, in front of all others. Returns how many there are. */
static size_t number_files_of_code(const struct profile *profile, struct text_numbers *files)
{
	for (size_t i = 0; i < profile->mapping_count; i++)
		if (profile->mappings[i].executable && profile->mappings[i].path[0] != '\0')
			(void)text_numbers_add(files, profile->mappings[i].path);
	return files->count;
}

/*
 * Which mappings stacks can have to do with: heaps and files of data come and go while the process
 * stays the same one. All of a file of code are kept, as offsets count from the first.
 */
static void choose_mappings(struct transfer *transfer)
{
	const struct profile *const from = transfer->from;
	CLEANUP(text_numbers_deinit) struct text_numbers files = { 0 };
	const size_t code_count = number_files_of_code(from, &files);
	const char *last = "";
	bool last_is_kept = false;

	transfer->mappings = xcalloc(from->mapping_count, sizeof *transfer->mappings);
	for (size_t i = 0; i < from->location_count; i++) {
		if (from->locations[i].mapping != PROFILE_NONE)
			transfer->mappings[from->locations[i].mapping] = true;
	}
	for (size_t i = 0; i < from->mapping_count; i++) {
		const struct profile_mapping *const mapping = &from->mappings[i];
		if (mapping->path != last)
			last_is_kept = strstr(mapping->path, ".so") != NULL ||
				       text_numbers_add(&files, mapping->path) < code_count;
		last = mapping->path;
		const bool is_kept =
			transfer->mappings[i] != 0 || mapping->executable || last_is_kept;
		transfer->mappings[i] = is_kept ? transfer->mapping_count++ : UNKNOWN;
	}
	/* That a profile has mappings means something even if these mean nothing. */
	if (transfer->mapping_count == 0 && from->mapping_count != 0)
		transfer->mappings[0] = transfer->mapping_count++;
}

static bool is_same_mapping(const struct profile_mapping *x, const struct profile_mapping *y)
{
	return x->start == y->start && x->limit == y->limit && x->file_offset == y->file_offset &&
	       x->deleted == y->deleted && x->executable == y->executable &&
	       x->has_functions == y->has_functions && strcmp(x->path, y->path) == 0 &&
	       strcmp(x->build_id, y->build_id) == 0;
}

static bool is_same_process(const struct transfer *transfer, const struct profile *shared)
{
	const struct profile *const from = transfer->from;

	if (from->kind == PROFILE_CPU || from->kind != shared->kind ||
		strcmp(from->program, shared->program) != 0 ||
		transfer->mapping_count != shared->mapping_count)
		return false;
	for (size_t i = 0; i < from->mapping_count; i++) {
		const uint32_t to = transfer->mappings[i];
		if (to != UNKNOWN && !is_same_mapping(&from->mappings[i], &shared->mappings[to]))
			return false;
	}
	return true;
}

static struct profile *make_shared(const struct transfer *transfer)
{
	const struct profile *const from = transfer->from;
	struct profile *const shared = profile_new(from->name);

	shared->kind = from->kind;
	shared->weighting = from->weighting;
	shared->program = profile_intern(shared, from->program);
	shared->process_name = profile_intern(shared, from->process_name);
	shared->has_mappings = from->has_mappings;
	shared->leaves_out_threads = true;
	for (size_t i = 0; i < from->mapping_count; i++) {
		if (transfer->mappings[i] != UNKNOWN)
			profile_add_mapping(shared, &from->mappings[i]);
	}
	return shared;
}

/* The shared profile of that process: most likely the last one. */
static uint32_t find_or_make_shared(struct series *series, const struct transfer *transfer)
{
	for (size_t i = series->shared_count; i-- > 0;) {
		if (is_same_process(transfer, series->shared[i]))
			return (uint32_t)i;
	}
	series->shared = xgrow(
		series->shared, &series->shared_capacity, series->shared_count + 1, sizeof(void *));
	series->shared[series->shared_count] = make_shared(transfer);
	return (uint32_t)series->shared_count++;
}

/* A location whose frames come after those of all others. */
struct location_key {
	const struct profile *profile;
	const struct profile_location *location;
};

static bool is_location(const void *items, uint32_t position, const void *key)
{
	const struct location_key *const wanted = key;
	const struct profile_location *const x =
		&((const struct profile_location *)items)[position];
	const struct profile_location *const y = wanted->location;
	const struct profile_frame *const frames = wanted->profile->frames;

	return x->address == y->address && x->mapping == y->mapping &&
	       x->frame_count == y->frame_count && x->is_exact == y->is_exact &&
	       x->is_named == y->is_named &&
	       (x->frame_count == 0 || memcmp(&frames[x->first_frame], &frames[y->first_frame],
					       x->frame_count * sizeof *frames) == 0);
}

static uint64_t hash_location(
	const struct profile *profile, const struct profile_location *location)
{
	uint64_t hash = hash_combine(profile->hash_seed ^ location->address, location->mapping);

	for (uint32_t i = 0; i < location->frame_count; i++) {
		const struct profile_frame *const frame =
			&profile->frames[location->first_frame + i];
		hash = hash_combine(hash, (uintptr_t)frame->function);
		hash = hash_combine(hash, (uintptr_t)frame->file);
		hash = hash_combine(hash, (uint64_t)frame->start_line << 32 | frame->line);
	}
	return hash;
}

static uint32_t share_location(struct transfer *transfer, const struct profile_location *location)
{
	struct profile *const to = transfer->to;
	const uint32_t first_frame = (uint32_t)to->frame_count;
	struct profile_location shared = *location;

	if (location->mapping != PROFILE_NONE)
		shared.mapping = transfer->mappings[location->mapping];
	if (location->frame_count != 0)
		shared.first_frame = first_frame;
	for (uint32_t i = 0; i < location->frame_count; i++)
		profile_copy_frame(
			to, &transfer->texts, &transfer->from->frames[location->first_frame + i]);
	const struct location_key key = { to, &shared };
	const uint32_t found = hash_index_add(&to->location_index, hash_location(to, &shared),
		is_location, to->locations, &key, (uint32_t)to->location_count);
	if (found == HASH_INDEX_NONE)
		return profile_add_location(to, &shared);
	to->frame_count = first_frame;
	return found;
}

static uint32_t share_stack(struct transfer *transfer, uint32_t at)
{
	const struct profile_stack *const stack = &transfer->from->stacks[at];
	const uint32_t *const locations = transfer->from->stack_locations + stack->first;
	struct profile *const to = transfer->to;
	uint32_t *const known = &transfer->stacks[at];

	if (*known != UNKNOWN)
		return *known;
	uint32_t *const room = profile_stack_room(to, stack->depth);
	for (uint32_t i = 0; i < stack->depth; i++)
		room[i] = transfer->locations[locations[i]];
	*known = profile_add_stack_in_room(to,
		hash_bytes_seeded(to->hash_seed, room, stack->depth * sizeof *room), stack->depth);
	return *known;
}

static void share_lines(
	const struct series *series, struct transfer *transfer, struct series_profile *added)
{
	const struct profile *const from = transfer->from;

	added->line_count = from->sample_count;
	added->lines = xreallocarray(NULL, from->sample_count, sizeof *added->lines);
	if (from->has_allocated && from->kind == PROFILE_HEAP)
		added->allocated =
			xreallocarray(NULL, from->sample_count, sizeof *added->allocated);
	for (size_t i = 0; i < from->sample_count; i++) {
		const struct profile_sample *const sample = &from->samples[i];
		struct estimate estimates[PROFILE_COUNTERS];
		unsample(from, sample->counters, estimates);
		const struct estimate estimate = estimates[series->counter];
		added->lines[i] = (struct series_line){ estimate.value, estimate.variance,
			(float)estimate.samples, share_stack(transfer, sample->stack) };
		if (added->allocated != NULL)
			added->allocated[i] = sample->counters[PROFILE_ALLOC_OBJECTS];
	}
}

static void share_locations(struct transfer *transfer)
{
	const struct profile *const from = transfer->from;

	transfer->locations =
		xreallocarray(NULL, from->location_count, sizeof *transfer->locations);
	for (size_t i = 0; i < from->location_count; i++)
		transfer->locations[i] = share_location(transfer, &from->locations[i]);
	transfer->stacks = xreallocarray(NULL, from->stack_count, sizeof *transfer->stacks);
	for (size_t i = 0; i < from->stack_count; i++)
		transfer->stacks[i] = UNKNOWN;
}

/* Where the profile's files are mapped, which distinguishes runs. */
static void keep_files(
	struct series *series, const struct profile *profile, struct series_profile *added)
{
	const char *last = "";

	added->files = xreallocarray(NULL, profile->mapping_count, sizeof *added->files);
	for (size_t i = 0; i < profile->mapping_count; i++) {
		const struct profile_mapping *const mapping = &profile->mappings[i];
		if (mapping->path[0] != '/' || mapping->path == last)
			continue;
		last = mapping->path;
		struct profile_mapping *const file = &added->files[added->file_count++];
		*file = (struct profile_mapping){ .start = mapping->start,
			.path = string_pool_add(&series->strings, mapping->path) };
	}
	added->files = xreallocarray(added->files, added->file_count, sizeof *added->files);
}

void series_add(struct series *series, struct profile *profile)
{
	CLEANUP(transfer_deinit) struct transfer transfer = { .from = profile };

	choose_mappings(&transfer);
	struct series_profile *const added =
		XAPPEND(series->profiles, series->profile_count, series->profile_capacity);
	*added = (struct series_profile){
		.name = string_pool_add(&series->strings, profile->name),
		.time_ms = profile->time_ms,
		.interval_bytes = profile->interval_bytes,
		.attached_ms = profile->attached_ms,
		.sampler = string_pool_add(&series->strings, profile->sampler),
		.has_allocated = profile->has_allocated,
		.shared = find_or_make_shared(series, &transfer),
	};
	transfer.to = series->shared[added->shared];
	transfer.to->has_allocated |= profile->has_allocated;
	if (transfer.to->interval_bytes == 0)
		transfer.to->interval_bytes = profile->interval_bytes;
	share_locations(&transfer);
	share_lines(series, &transfer, added);
	keep_files(series, profile, added);
	profile_free(profile);
}

void series_remove(struct series *series, size_t at)
{
	struct series_profile *const profiles = series->profiles;

	series_profile_deinit(&profiles[at]);
	series->profile_count--;
	memmove(profiles + at, profiles + at + 1, (series->profile_count - at) * sizeof *profiles);
}

/* Shared profiles in the order in which the profiles need them, and no others. */
static void order_shared(struct series *series)
{
	CLEANUP(free_cleanup)
	uint32_t *places = xreallocarray(NULL, series->shared_count, sizeof *places);
	struct profile **const ordered = xcalloc(series->shared_count, sizeof *ordered);
	uint32_t count = 0;

	for (size_t i = 0; i < series->shared_count; i++)
		places[i] = UNKNOWN;
	for (size_t i = 0; i < series->profile_count; i++) {
		struct series_profile *const profile = &series->profiles[i];
		uint32_t *const place = &places[profile->shared];
		if (*place == UNKNOWN) {
			struct profile *const shared = series->shared[profile->shared];
			shared->name = profile_intern(shared, profile->name);
			ordered[count] = shared;
			*place = count++;
		}
		profile->shared = *place;
	}
	for (size_t i = 0; i < series->shared_count; i++) {
		if (places[i] == UNKNOWN)
			profile_free(series->shared[i]);
	}
	free(series->shared);
	series->shared = ordered;
	series->shared_capacity = series->shared_count;
	series->shared_count = count;
}

static void add_samples(struct profile *shared, const struct series_profile *profile, bool *has)
{
	for (size_t i = 0; i < profile->line_count; i++) {
		const uint32_t stack = profile->lines[i].stack;
		if (has[stack] && shared->kind != PROFILE_CPU)
			continue;
		has[stack] = true;
		profile_add_sample(
			shared, &(struct profile_sample){ .stack = stack, .thread = PROFILE_NONE });
	}
}

void series_finish(struct series *series)
{
	CLEANUP(free_cleanup) bool **has = xcalloc(series->shared_count, sizeof *has);

	order_shared(series);
	for (size_t i = 0; i < series->shared_count; i++) {
		hash_index_deinit(&series->shared[i]->location_index);
		hash_index_deinit(&series->shared[i]->stack_index);
		has[i] = xcalloc(series->shared[i]->stack_count, sizeof *has[i]);
	}
	for (size_t i = 0; i < series->profile_count; i++) {
		const struct series_profile *const profile = &series->profiles[i];
		add_samples(series->shared[profile->shared], profile, has[profile->shared]);
	}
	for (size_t i = 0; i < series->shared_count; i++)
		free(has[i]);
}

struct profile series_allocations(const struct series *series, size_t at)
{
	const struct series_profile *const from = &series->profiles[at];
	struct profile sketch = *series->shared[from->shared];

	sketch.name = from->name;
	sketch.time_ms = from->time_ms;
	sketch.interval_bytes = from->interval_bytes;
	sketch.attached_ms = from->attached_ms;
	sketch.sampler = from->sampler;
	sketch.has_allocated = from->has_allocated;
	/* A profile without mappings may have been given the program's. */
	if (from->file_count != 0) {
		sketch.mappings = from->files;
		sketch.mapping_count = from->file_count;
	}
	sketch.samples = NULL;
	sketch.sample_count = from->allocated == NULL ? 0 : from->line_count;
	if (sketch.sample_count == 0)
		return sketch;
	sketch.samples = xcalloc(from->line_count, sizeof *sketch.samples);
	for (size_t i = 0; i < from->line_count; i++) {
		sketch.samples[i].stack = from->lines[i].stack;
		sketch.samples[i].counters[PROFILE_ALLOC_OBJECTS] = from->allocated[i];
	}
	return sketch;
}
