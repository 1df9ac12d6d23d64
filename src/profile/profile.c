/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/profile.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/units.h"
#include "base/search.h"
#include "base/xalloc.h"

const char *const profile_counter_names[] = {
	[PROFILE_INUSE_OBJECTS] = "inuse_objects",
	[PROFILE_INUSE_SPACE] = "inuse_space",
	[PROFILE_ALLOC_OBJECTS] = "alloc_objects",
	[PROFILE_ALLOC_SPACE] = "alloc_space",
	[PROFILE_COUNTERS] = NULL,
};

struct profile *profile_new(const char *name)
{
	struct profile *const profile = xcalloc(1, sizeof *profile);

	profile->hash_seed = hash_seed();
	string_pool_init(&profile->strings);
	hash_index_init(&profile->location_index);
	hash_index_init(&profile->stack_index);
	profile->name = profile_intern(profile, name);
	profile->program = profile_intern(profile, "");
	profile->process_name = profile->program;
	profile->sampler = profile->program;
	profile->sampling = profile->program;
	profile->drop_frames = profile->program;
	profile->keep_frames = profile->program;
	profile->default_counter = PROFILE_INUSE_SPACE;
	return profile;
}

void profile_free(struct profile *profile)
{
	if (profile == NULL)
		return;
	free(profile->mappings);
	free(profile->locations);
	free(profile->frames);
	free(profile->stack_locations);
	free(profile->stacks);
	free(profile->samples);
	free(profile->thread_samples);
	free(profile->threads);
	free(profile->comments);
	free(profile->temporary);
	hash_index_deinit(&profile->location_index);
	hash_index_deinit(&profile->stack_index);
	string_pool_deinit(&profile->strings);
	free(profile);
}

const char *profile_intern(struct profile *profile, const char *text)
{
	return string_pool_add(&profile->strings, text);
}

static const char *intern_or_empty(struct profile *profile, const char *text)
{
	return profile_intern(profile, text == NULL ? "" : text);
}

uint32_t profile_add_own_mapping(struct profile *profile, const struct profile_mapping *mapping)
{
	const uint32_t position = (uint32_t)profile->mapping_count;

	*XAPPEND(profile->mappings, profile->mapping_count, profile->mapping_capacity) = *mapping;
	return position;
}

uint32_t profile_add_mapping(struct profile *profile, const struct profile_mapping *mapping)
{
	struct profile_mapping own = *mapping;

	own.path = intern_or_empty(profile, mapping->path);
	own.build_id = intern_or_empty(profile, mapping->build_id);
	return profile_add_own_mapping(profile, &own);
}

uint32_t profile_add_own_thread(struct profile *profile, uint64_t id, const char *name)
{
	const uint32_t position = (uint32_t)profile->thread_count;

	*XAPPEND(profile->threads, profile->thread_count, profile->thread_capacity) =
		(struct profile_thread){ .id = id, .name = name };
	return position;
}

uint32_t profile_add_thread(struct profile *profile, uint64_t id, const char *name)
{
	return profile_add_own_thread(profile, id, intern_or_empty(profile, name));
}

uint32_t profile_add_own_frame(struct profile *profile, const struct profile_frame *frame)
{
	const uint32_t position = (uint32_t)profile->frame_count;

	*XAPPEND(profile->frames, profile->frame_count, profile->frame_capacity) = *frame;
	return position;
}

static struct profile_frame own_texts(struct profile *profile, const struct profile_frame *frame)
{
	return (struct profile_frame){
		.function = intern_or_empty(profile, frame->function),
		.linkage_name = intern_or_empty(profile, frame->linkage_name),
		.file = intern_or_empty(profile, frame->file),
		.line = frame->line,
		.start_line = frame->start_line,
	};
}

uint32_t profile_add_frame(struct profile *profile, const struct profile_frame *frame)
{
	const struct profile_frame own = own_texts(profile, frame);

	return profile_add_own_frame(profile, &own);
}

static struct profile_frame copy_texts(
	struct profile *profile, struct text_map *texts, const struct profile_frame *frame)
{
	struct string_pool *const strings = &profile->strings;

	return (struct profile_frame){
		.function = text_map_add(texts, strings, frame->function),
		.linkage_name = text_map_add(texts, strings, frame->linkage_name),
		.file = text_map_add(texts, strings, frame->file),
		.line = frame->line,
		.start_line = frame->start_line,
	};
}

uint32_t profile_copy_frame(
	struct profile *profile, struct text_map *texts, const struct profile_frame *frame)
{
	const struct profile_frame own = copy_texts(profile, texts, frame);

	return profile_add_own_frame(profile, &own);
}

void profile_add_own_comment(struct profile *profile, const char *text)
{
	*XAPPEND(profile->comments, profile->comment_count, profile->comment_capacity) = text;
}

void profile_add_comment(struct profile *profile, const char *text, size_t size)
{
	profile_add_own_comment(profile, string_pool_add_sized(&profile->strings, text, size));
}

uint32_t profile_add_location(struct profile *profile, const struct profile_location *location)
{
	const uint32_t position = (uint32_t)profile->location_count;

	*XAPPEND(profile->locations, profile->location_count, profile->location_capacity) =
		*location;
	return position;
}

struct address_key {
	uint64_t address;
	bool is_exact;
};

static bool is_address(const void *items, uint32_t position, const void *key)
{
	const struct profile_location *const location =
		&((const struct profile_location *)items)[position];
	const struct address_key *const wanted = key;

	return location->address == wanted->address && location->is_exact == wanted->is_exact &&
	       !location->is_named;
}

static uint32_t add_address(struct profile *profile, struct address_key key)
{
	const uint32_t next = (uint32_t)profile->location_count;
	const uint32_t found = hash_index_add(&profile->location_index,
		hash_u64(profile->hash_seed ^ (key.address + key.is_exact)), is_address,
		profile->locations, &key, next);

	if (found != HASH_INDEX_NONE)
		return found;
	return profile_add_location(profile, &(struct profile_location){ .address = key.address,
						     .mapping = PROFILE_NONE,
						     .first_frame = PROFILE_NONE,
						     .is_exact = key.is_exact });
}

uint32_t profile_add_address(struct profile *profile, uint64_t address)
{
	return add_address(profile, (struct address_key){ .address = address });
}

uint32_t profile_add_exact_address(struct profile *profile, uint64_t address)
{
	return add_address(profile, (struct address_key){ .address = address, .is_exact = true });
}

struct named_key {
	const struct profile *profile;
	const struct profile_frame *frames;
	size_t count;
};

static bool is_same_frame(const struct profile_frame *left, const struct profile_frame *right)
{
	return left->function == right->function && left->file == right->file &&
	       left->line == right->line;
}

static bool is_named(const void *items, uint32_t position, const void *key)
{
	const struct profile_location *const location =
		&((const struct profile_location *)items)[position];
	const struct named_key *const wanted = key;

	if (!location->is_named || location->frame_count != wanted->count)
		return false;
	const struct profile_frame *const frames = &wanted->profile->frames[location->first_frame];
	for (size_t i = 0; i < wanted->count; i++) {
		if (!is_same_frame(&frames[i], &wanted->frames[i]))
			return false;
	}
	return true;
}

/* Of the last `count` frames, which are taken back where there is such a location. */
static uint32_t add_named(struct profile *profile, size_t count)
{
	const size_t first_frame = profile->frame_count - count;
	const struct named_key key = {
		.profile = profile,
		.frames = &profile->frames[first_frame],
		.count = count,
	};
	const uint32_t next = (uint32_t)profile->location_count;
	uint64_t hash = 0;

	for (size_t i = 0; i < count; i++) {
		const struct profile_frame *const frame = &key.frames[i];
		hash = hash_combine(hash_combine(hash, (uintptr_t)frame->function),
			hash_combine((uintptr_t)frame->file, frame->line));
	}
	const uint32_t found = hash_index_add(
		&profile->location_index, hash, is_named, profile->locations, &key, next);
	if (found != HASH_INDEX_NONE) {
		profile->frame_count = first_frame;
		return found;
	}
	return profile_add_location(profile, &(struct profile_location){ .mapping = PROFILE_NONE,
						     .first_frame = (uint32_t)first_frame,
						     .frame_count = (uint32_t)count,
						     .is_exact = true,
						     .is_named = true });
}

uint32_t profile_add_named(
	struct profile *profile, const struct profile_frame *frames, size_t count)
{
	for (size_t i = 0; i < count; i++)
		profile_add_frame(profile, &frames[i]);
	return add_named(profile, count);
}

uint32_t profile_copy_named(struct profile *profile, struct text_map *texts,
	const struct profile_frame *frames, size_t count)
{
	for (size_t i = 0; i < count; i++)
		profile_copy_frame(profile, texts, &frames[i]);
	return add_named(profile, count);
}

struct stack_key {
	const struct profile *profile;
	const uint32_t *locations;
	size_t depth;
};

static bool is_stack(const void *items, uint32_t position, const void *key)
{
	const struct profile_stack *const stack = &((const struct profile_stack *)items)[position];
	const struct stack_key *const wanted = key;
	const uint32_t *const locations = &wanted->profile->stack_locations[stack->first];

	return stack->depth == wanted->depth &&
	       (wanted->depth == 0 || memcmp(locations, wanted->locations,
					      wanted->depth * sizeof *locations) == 0);
}

uint32_t *profile_stack_room(struct profile *profile, size_t depth)
{
	const size_t first = profile->stack_location_count;

	profile->stack_locations = xgrow(profile->stack_locations,
		&profile->stack_location_capacity, first + depth, sizeof *profile->stack_locations);
	return &profile->stack_locations[first];
}

uint32_t profile_append_stack(struct profile *profile, size_t depth)
{
	const uint32_t position = (uint32_t)profile->stack_count;

	*XAPPEND(profile->stacks, profile->stack_count, profile->stack_capacity) =
		(struct profile_stack){ .first = profile->stack_location_count,
			.depth = (uint32_t)depth };
	profile->stack_location_count += depth;
	return position;
}

/* The stack at these locations: one with the same that is in the index, or itself at `position`. */
static uint32_t index_stack(
	struct profile *profile, uint64_t hash, uint64_t first, size_t depth, uint32_t position)
{
	const struct stack_key key = { profile, &profile->stack_locations[first], depth };
	const uint32_t found = hash_index_add(
		&profile->stack_index, hash, is_stack, profile->stacks, &key, position);

	return found == HASH_INDEX_NONE ? position : found;
}

uint32_t profile_add_stack_in_room(struct profile *profile, uint64_t hash, size_t depth)
{
	const uint32_t next = (uint32_t)profile->stack_count;
	const uint32_t position =
		index_stack(profile, hash, profile->stack_location_count, depth, next);

	return position == next ? profile_append_stack(profile, depth) : position;
}

/* Appends a stack again whose locations are where they end, or behind that. */
static void keep_stack(struct profile *profile, const struct profile_stack *stack)
{
	const uint64_t first = profile->stack_location_count;
	uint32_t *const locations = profile->stack_locations;

	if (stack->first != first)
		memmove(&locations[first], &locations[stack->first],
			stack->depth * sizeof *locations);
	profile_append_stack(profile, stack->depth);
}

void profile_index_stacks(
	struct profile *profile, const uint64_t *hashes, size_t count, uint32_t *positions)
{
	const size_t first = profile->stack_count - count;

	if (count == 0)
		return;
	profile->stack_count = first;
	profile->stack_location_count = profile->stacks[first].first;
	for (size_t i = 0; i < count; i++) {
		const struct profile_stack stack = profile->stacks[first + i];
		const uint32_t next = (uint32_t)profile->stack_count;
		positions[i] = index_stack(profile, hashes[i], stack.first, stack.depth, next);
		if (positions[i] == next)
			keep_stack(profile, &stack);
	}
}

uint32_t profile_add_stack(struct profile *profile, const uint32_t *locations, size_t depth)
{
	uint32_t *const room = profile_stack_room(profile, depth);

	if (depth != 0)
		memcpy(room, locations, depth * sizeof *locations);
	return profile_add_stack_in_room(
		profile, hash_bytes_seeded(profile->hash_seed, room, depth * sizeof *room), depth);
}

/* The place of the next sample, which is counted; NULL when such samples are not wanted. */
static struct profile_sample *next_sample(struct profile *profile, uint32_t thread)
{
	if (thread == PROFILE_NONE) {
		return XAPPEND(profile->samples, profile->sample_count, profile->sample_capacity);
	}
	if (profile->leaves_out_threads)
		return NULL;
	return XAPPEND(profile->thread_samples, profile->thread_sample_count,
		profile->thread_sample_capacity);
}

void profile_add_sample(struct profile *profile, const struct profile_sample *sample)
{
	struct profile_sample *const added = next_sample(profile, sample->thread);

	if (added != NULL)
		*added = *sample;
}

struct profile_sample *profile_new_sample(struct profile *profile, uint32_t stack, uint32_t thread)
{
	struct profile_sample *const added = next_sample(profile, thread);

	if (added != NULL) {
		added->stack = stack;
		added->thread = thread;
		added->object_bytes = 0;
	}
	return added;
}

bool profile_is_since_attach(const struct profile *profile)
{
	/* The first activation is a step of the attach. */
	enum { ATTACH_MS = 10 * 1000 };

	return profile->attached_ms != 0 && !profile->is_sampled_from_start &&
	       profile->sampled_since_ms != 0 &&
	       profile->sampled_since_ms < profile->attached_ms + ATTACH_MS;
}

static void describe_since(const struct profile *profile, struct buffer *out)
{
	const time_t seconds = profile->sampled_since_ms / 1000;
	const int64_t age_ms = profile->time_ms - profile->attached_ms;
	const bool is_since_attach = profile_is_since_attach(profile);
	char since[40], age[DURATION_TEXT_BYTES];
	struct tm parts;

	if (gmtime_r(&seconds, &parts) == NULL)
		return;
	strftime(since, sizeof since, "%F %T UTC", &parts);
	if (is_since_attach && profile->time_ms != 0 && age_ms >= 0)
		buffer_printf(out, " since the attach %s earlier (%s)",
			duration_format(age_ms, age), since);
	else
		buffer_printf(out, " since %s%s", is_since_attach ? "the attach at " : "", since);
	buffer_append_string(out, ", without what was allocated before");
}

void profile_describe_sampling(const struct profile *profile, struct buffer *out)
{
	if (profile->sampler[0] == '\0') {
		buffer_append_string(out, profile->sampling);
		return;
	}
	buffer_printf(out, PROFILE_SAMPLING_WORDS "%s", profile->sampler);
	if (profile->is_sampled_from_start)
		buffer_append_string(out, " from the start");
	else if (profile->sampled_since_ms > 0)
		describe_since(profile, out);
	if (profile->has_mapped)
		buffer_append_string(out, ", with memory that the program mapped itself");
	if (strcmp(profile->sampler, "heapctl") == 0 && !profile->has_entries)
		buffer_append_string(
			out, ", and without calls of malloc that stay within a module");
}

void profile_add_temporary(struct profile *profile, double objects, double bytes)
{
	const struct profile_temporary added = { profile->sample_count - 1, objects, bytes };

	profile->has_temporary = true;
	if (profile->sample_count == 0) {
		profile->header_temporary = added;
		return;
	}
	*XAPPEND(profile->temporary, profile->temporary_count, profile->temporary_capacity) = added;
}

static void set_allocated(
	double counters[PROFILE_COUNTERS], const struct profile_temporary *temporary)
{
	memset(counters, 0, PROFILE_COUNTERS * sizeof *counters);
	counters[PROFILE_ALLOC_OBJECTS] = temporary->objects;
	counters[PROFILE_ALLOC_SPACE] = temporary->bytes;
}

bool profile_select_temporary(struct profile *profile, struct error *err)
{
	static const struct profile_temporary none;

	if (!profile->has_temporary) {
		error_set(
			err, ERROR_INPUT, "%s does not count temporary allocations", profile->name);
		return error_hint(err, "heapctl's own sampler counts them, jemalloc does not; "
				       "heapctl status says what takes the samples");
	}
	for (size_t i = 0; i < profile->sample_count; i++)
		set_allocated(profile->samples[i].counters, &none);
	for (size_t i = 0; i < profile->temporary_count; i++)
		set_allocated(profile->samples[profile->temporary[i].sample].counters,
			&profile->temporary[i]);
	set_allocated(profile->header_counters, &profile->header_temporary);
	profile->thread_sample_count = profile->thread_count = 0;
	profile->has_allocated = true;
	profile->default_counter = PROFILE_ALLOC_SPACE;
	return true;
}

/* Near enough: an index has two to four slots for each item. */
static uint64_t memory_of(const struct profile *profile)
{
	const size_t slot = 3 * sizeof(struct hash_index_slot);
	const size_t samples = profile->sample_count + profile->thread_sample_count;

	return samples * sizeof *profile->samples +
	       profile->mapping_count * sizeof *profile->mappings +
	       profile->thread_count * sizeof *profile->threads +
	       profile->temporary_count * sizeof *profile->temporary +
	       profile->comment_count * sizeof *profile->comments +
	       profile->stack_location_count * sizeof *profile->stack_locations +
	       profile->stack_count * (sizeof *profile->stacks + slot) +
	       profile->location_count * (sizeof *profile->locations + slot) +
	       profile->frame_count * sizeof *profile->frames +
	       profile->strings.count * (sizeof *profile->strings.strings + slot) +
	       profile->strings.arena.used_bytes;
}

bool profile_is_full(const struct profile *profile)
{
	const size_t limit = PROFILE_NONE - 1;

	if (profile->memory_limit != 0 && memory_of(profile) > profile->memory_limit)
		return true;
	return profile->mapping_count >= limit || profile->location_count >= limit ||
	       profile->frame_count >= limit || profile->stack_count >= limit ||
	       profile->thread_count >= limit || profile->strings.count >= limit;
}

static int compare_mappings(const void *a, const void *b)
{
	const struct profile_mapping *const left = a;
	const struct profile_mapping *const right = b;

	if (left->start != right->start)
		return left->start < right->start ? -1 : 1;
	return left->limit < right->limit ? -1 : left->limit > right->limit;
}

static bool are_sorted(const struct profile *profile)
{
	for (size_t i = 1; i < profile->mapping_count; i++)
		if (compare_mappings(&profile->mappings[i - 1], &profile->mappings[i]) > 0)
			return false;
	return true;
}

void profile_assign_mappings(struct profile *profile)
{
	if (!are_sorted(profile))
		qsort(profile->mappings, profile->mapping_count, sizeof *profile->mappings,
			compare_mappings);
	for (size_t i = 0; i < profile->location_count; i++) {
		struct profile_location *const location = &profile->locations[i];
		if (!location->is_named && location->mapping == PROFILE_NONE)
			location->mapping = profile_find_mapping(
				profile, location->address - !location->is_exact);
	}
}

bool profile_is_mapped(const struct profile *profile, uint64_t start, uint64_t limit)
{
	for (size_t i = 0; i < profile->mapping_count; i++) {
		if (start < profile->mappings[i].limit && profile->mappings[i].start < limit)
			return true;
	}
	return false;
}

uint32_t profile_find_mapping(const struct profile *profile, uint64_t address)
{
	const size_t count = search_count_up_to(profile->mappings, profile->mapping_count,
		sizeof *profile->mappings, offsetof(struct profile_mapping, start), address);

	if (count == 0 || address >= profile->mappings[count - 1].limit)
		return PROFILE_NONE;
	return (uint32_t)(count - 1);
}

const char *library_name_suffix(const char *name)
{
	for (const char *at = strstr(name, ".so"); at != NULL; at = strstr(at + 1, ".so")) {
		if (at[3] == '\0' || at[3] == '.')
			return at;
	}
	return NULL;
}

static bool is_dynamic_linker(const char *name)
{
	return strncmp(name, "ld-", 3) == 0 || strncmp(name, "ld.", 3) == 0;
}

const char *profile_main_path(const struct profile *profile)
{
	if (profile->program[0] != '\0')
		return profile->program;
	for (size_t i = 0; i < profile->mapping_count; i++) {
		const char *const path = profile->mappings[i].path;
		const char *const name = path_base_name(path);
		if (path[0] == '/' && library_name_suffix(name) == NULL && !is_dynamic_linker(name))
			return path;
	}
	return "";
}

const char *profile_program_name(const struct profile *profile)
{
	return profile->process_name[0] != '\0' ? profile->process_name
						: path_base_name(profile_main_path(profile));
}

const char *profile_main_build_id(const struct profile *profile)
{
	const char *const path = profile_main_path(profile);

	for (size_t i = 0; i < profile->mapping_count; i++) {
		const struct profile_mapping *const mapping = &profile->mappings[i];
		if (mapping->build_id[0] != '\0' && strcmp(mapping->path, path) == 0)
			return mapping->build_id;
	}
	return "";
}

bool profile_is_of_same_program(const struct profile *left, const struct profile *right)
{
	const char *const left_file = path_base_name(profile_main_path(left));
	const char *const right_file = path_base_name(profile_main_path(right));
	const char *const build_id = profile_main_build_id(left);

	/* A profile of another form may have the name of the program, and no path. */
	return *left_file == '\0' || *right_file == '\0' || strcmp(left_file, right_file) == 0 ||
	       strcmp(profile_program_name(left), profile_program_name(right)) == 0 ||
	       (build_id[0] != '\0' && strcmp(build_id, profile_main_build_id(right)) == 0);
}
