/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/comparison.h"

#include <string.h>

/* The start of the first mapping of that file; 0 when there is none. */
static uint64_t start_of(const struct profile *profile, const char *path)
{
	for (size_t i = 0; i < profile->mapping_count; i++) {
		if (strcmp(profile->mappings[i].path, path) == 0)
			return profile->mappings[i].start;
	}
	return 0;
}

static struct comparison compare_modules(const struct profile *base, const struct profile *now)
{
	size_t shared = 0;
	const char *last = "";

	for (size_t i = 0; i < now->mapping_count; i++) {
		const struct profile_mapping *const mapping = &now->mappings[i];
		if (mapping->path[0] != '/' || mapping->path == last)
			continue;
		last = mapping->path;
		const uint64_t there = start_of(base, mapping->path);
		if (there == 0)
			continue;
		if (there != start_of(now, mapping->path))
			return (struct comparison){ .is_other_run = true };
		shared++;
	}
	/* A program at a fixed address says nothing; its libraries move. */
	return (struct comparison){ .is_same_run = shared > 1 };
}

static double ever_allocated(const struct profile *profile)
{
	double objects = 0;

	for (size_t i = 0; i < profile->sample_count; i++)
		objects += profile->samples[i].counters[PROFILE_ALLOC_OBJECTS];
	return objects;
}

struct comparison comparison_of(const struct profile *base, const struct profile *now)
{
	struct comparison comparison = compare_modules(base, now);

	comparison.intervals_differ = base->interval_bytes != now->interval_bytes;
	if (comparison.is_same_run)
		comparison.was_reset = comparison.intervals_differ ||
				       (base->has_allocated && now->has_allocated &&
					       ever_allocated(now) < ever_allocated(base));
	return comparison;
}
