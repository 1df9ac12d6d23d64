/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/comparison.h"

#include <stdlib.h>
#include <string.h>

#include "base/hash_index.h"
#include "base/xalloc.h"

/* The first mapping of each file. */
struct file_starts {
	struct hash_index index;
	const struct profile *profile;
};

static bool is_path(const void *items, uint32_t position, const void *key)
{
	return strcmp(((const struct profile_mapping *)items)[position].path, key) == 0;
}

static void file_starts_init(struct file_starts *starts, const struct profile *profile)
{
	hash_index_init(&starts->index);
	starts->profile = profile;
	for (uint32_t i = 0; i < profile->mapping_count; i++) {
		const char *const path = profile->mappings[i].path;
		(void)hash_index_add(&starts->index, hash_bytes(path, strlen(path)), is_path,
			profile->mappings, path, i);
	}
}

static void file_starts_deinit(struct file_starts *starts)
{
	hash_index_deinit(&starts->index);
}

/* 0 when there is none. */
static uint64_t file_starts_find(const struct file_starts *starts, const char *path)
{
	const uint32_t found = hash_index_find(&starts->index, hash_bytes(path, strlen(path)),
		is_path, starts->profile->mappings, path);

	return found == HASH_INDEX_NONE ? 0 : starts->profile->mappings[found].start;
}

static struct comparison compare_modules(const struct profile *base, const struct profile *now)
{
	CLEANUP(file_starts_deinit) struct file_starts before = { 0 };
	CLEANUP(file_starts_deinit) struct file_starts after = { 0 };
	size_t shared = 0;
	const char *last = "";

	file_starts_init(&before, base);
	file_starts_init(&after, now);
	for (size_t i = 0; i < now->mapping_count; i++) {
		const struct profile_mapping *const mapping = &now->mappings[i];
		if (mapping->path[0] != '/' || mapping->path == last)
			continue;
		last = mapping->path;
		const uint64_t there = file_starts_find(&before, mapping->path);
		if (there == 0)
			continue;
		if (there != file_starts_find(&after, mapping->path))
			return (struct comparison){ .is_other_run = true };
		shared++;
	}
	/* A program at a fixed address says nothing; its libraries move. */
	return (struct comparison){ .is_same_run = shared > 1 };
}

/* What a profile recorded for a stack, identified by its addresses. */
struct stack_record {
	uint64_t key;
	double live, allocated; /* objects, as they were recorded */
};

static int by_key(const void *a, const void *b)
{
	const struct stack_record *const left = a;
	const struct stack_record *const right = b;

	return (left->key > right->key) - (left->key < right->key);
}

static uint64_t key_of(const struct profile *profile, const struct profile_stack *stack)
{
	uint64_t key = stack->depth;

	for (uint32_t i = 0; i < stack->depth; i++) {
		const struct profile_location *const location =
			&profile->locations[profile->stack_locations[stack->first + i]];
		key = hash_combine(key, location->address - !location->is_exact);
	}
	return key;
}

/* One record for each stack, by key; release with free(). */
static struct stack_record *list_records(const struct profile *profile, size_t *count)
{
	struct stack_record *const records =
		xreallocarray(NULL, profile->sample_count + 1, sizeof *records);
	size_t made = 0;

	for (size_t i = 0; i < profile->sample_count; i++) {
		const struct profile_sample *const sample = &profile->samples[i];
		records[i] =
			(struct stack_record){ key_of(profile, &profile->stacks[sample->stack]),
				sample->counters[PROFILE_INUSE_OBJECTS],
				sample->counters[PROFILE_ALLOC_OBJECTS] };
	}
	qsort(records, profile->sample_count, sizeof *records, by_key);
	for (size_t i = 0; i < profile->sample_count; i++) {
		if (made == 0 || records[made - 1].key != records[i].key) {
			records[made++] = records[i];
			continue;
		}
		records[made - 1].live += records[i].live;
		records[made - 1].allocated += records[i].allocated;
	}
	*count = made;
	return records;
}

/* What became of the stacks of the first profile. */
struct survival {
	double live, kept; /* objects in use then, and those of them that may still be */
	bool counts_went_back;
};

static struct survival compare_records(const struct profile *base, const struct profile *now)
{
	size_t base_count = 0;
	size_t now_count = 0;
	CLEANUP(free_cleanup) struct stack_record *before = list_records(base, &base_count);
	CLEANUP(free_cleanup) struct stack_record *after = list_records(now, &now_count);
	struct survival survival = { 0 };

	for (size_t i = 0, at = 0; i < base_count; i++) {
		while (at < now_count && after[at].key < before[i].key)
			at++;
		const bool is_there = at < now_count && after[at].key == before[i].key;
		const struct stack_record left = is_there ? after[at] : (struct stack_record){ 0 };
		survival.live += before[i].live;
		survival.kept += left.live < before[i].live ? left.live : before[i].live;
		survival.counts_went_back |= left.allocated < before[i].allocated;
	}
	return survival;
}

/* Other formats than the agent's have no place for it: 0 is not that there was none. */
static bool is_attach_known(const struct profile *profile)
{
	return profile->attached_ms != 0 || profile->sampler[0] != '\0';
}

struct comparison comparison_of(const struct profile *base, const struct profile *now)
{
	/* Fewer objects than that may be gone for any reason. */
	static const double enough_objects = 20, few = 0.1;
	struct comparison comparison = compare_modules(base, now);

	comparison.intervals_differ = base->interval_bytes != 0 && now->interval_bytes != 0 &&
				      base->interval_bytes != now->interval_bytes;
	comparison.was_attached_anew = !comparison.is_other_run && is_attach_known(base) &&
				       is_attach_known(now) &&
				       base->attached_ms != now->attached_ms;
	/* Other kinds are of what happened in a time, not of what is there. */
	if (!comparison.is_same_run || base->kind != PROFILE_HEAP || now->kind != PROFILE_HEAP)
		return comparison;
	const struct survival survival = compare_records(base, now);
	if (base->has_allocated && now->has_allocated)
		comparison.was_reset = survival.counts_went_back;
	else
		comparison.may_be_reset =
			survival.live >= enough_objects && survival.kept < few * survival.live;
	comparison.was_reset |= comparison.intervals_differ;
	return comparison;
}

bool comparison_is_same_run(const struct profile *base, const struct profile *now)
{
	return compare_modules(base, now).is_same_run;
}
