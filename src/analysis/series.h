/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A series: many profiles of one program in little memory. Most stacks of a server are the same in
 * all of its profiles. So what profiles of one process share (mappings, locations, stacks) is kept
 * once, in a *shared* profile; each profile has a line of 24 bytes for each of its samples: the
 * stack and the estimate of one counter (and 8 bytes more where a prof.reset can be detected).
 * Memory grows with the distinct stacks, and by these bytes for each line.
 *
 * Profiles are of one process here when the files and the code that may be in stacks are mapped
 * alike. Others are not shared, nor are CPU profiles, because their handler's frame is found from
 * all samples together (see allocator_frame_trampoline).
 *
 * Use: add all profiles, sort series.profiles by time, settle. Then the shared profiles can be
 * symbolized, and trend_build does the rest.
 */
#pragma once

#include "profile/profile.h"

/* What a sample represents, see analysis/unsample.h. */
struct series_line {
	double value;
	double variance;
	float objects;	/* that were recorded */
	uint32_t stack; /* of the shared profile */
};

struct series_profile {
	const char *name;
	int64_t time_ms;
	int64_t pid; /* 0 when unknown; the caller sets it */
	uint64_t interval_bytes;
	int64_t attached_ms; /* as in a profile, like the sampler */
	const char *sampler;
	bool has_allocated;
	uint32_t shared; /* in series.shared */
	struct series_line *lines;
	double *allocated; /* for each line the objects ever allocated, raw; NULL when unknown */
	size_t line_count;
	struct profile_mapping *files; /* by start, without those of the same file as before */
	size_t file_count;
};

struct series {
	enum profile_counter counter; /* set before anything is added */
	struct series_profile *profiles;
	size_t profile_count, profile_capacity;
	struct profile **shared; /* once settled in order of time, each named as its first */
	size_t shared_count, shared_capacity;
	struct string_pool strings;
};

void series_init(struct series *series, enum profile_counter counter);
void series_deinit(struct series *series);

/* Takes the profile over; pointers into it become invalid. */
void series_add(struct series *series, struct profile *profile);

/* Only before series_finish. */
void series_remove(struct series *series, size_t at);

/*
 * To be called once, when the order of the profiles is final. The shared profiles have a sample
 * then, without counters, for each stack in the order in which the profiles have them first.
 */
void series_finish(struct series *series);

/*
 * A profile as far as comparison_of reads it. It borrows from the series, but for its samples:
 * release those with free().
 */
struct profile series_allocations(const struct series *series, size_t at);
