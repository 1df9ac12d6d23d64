/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile: weighted stacks of one process, as some format recorded them.
 *
 * Words. A *location* is one program counter, or, in formats without addresses, one named frame. A
 * *frame* is a function at a location: inlining gives a location several, innermost first. A
 * *stack* is a list of locations, leaf first. A *sample* is one line of the input: a stack with
 * its four counters as recorded, not yet scaled up to what the process really allocated: that is
 * analysis' work, line by line, because merging first would bias it. A *mapping* is a range of
 * addresses backed by a file.
 *
 * Equal locations, stacks and strings are stored once, so memory grows with distinct stacks. A
 * profile owns all its memory; every pointer into it lives until profile_free. Not for two
 * threads at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/xalloc.h"
#include "base/buffer.h"
#include "base/error.h"
#include "base/hash_index.h"
#include "base/string_pool.h"

enum profile_counter {
	PROFILE_INUSE_OBJECTS,
	PROFILE_INUSE_SPACE, /* bytes */
	PROFILE_ALLOC_OBJECTS,
	PROFILE_ALLOC_SPACE, /* bytes */
	PROFILE_COUNTERS,
};

/* By counter, as options, requests and documents say it: "inuse_space". Ends with NULL. */
extern const char *const profile_counter_names[PROFILE_COUNTERS + 1];

/* How recorded counters are scaled up; facts and formulas in analysis/unsample.h. */
enum profile_weighting {
	PROFILE_WEIGHTED,    /* the counters are estimates already: pprof, collapsed, heapprofile */
	PROFILE_EXPONENTIAL, /* heap_v2: by 1 / (1 - exp(-mean size / interval)) */
	PROFILE_RATIO,	     /* gperftools' heap/: by mean size / (interval / 2), where below 1 */
};

/*
 * What was sampled. The counters keep their places: INUSE_OBJECTS is the number of events and
 * INUSE_SPACE their amount, which is bytes of a heap and nanoseconds otherwise (on the processor,
 * waited for a lock).
 */
enum profile_kind {
	PROFILE_HEAP,
	PROFILE_GROWTH, /* of the address space, as gperftools records it */
	PROFILE_CPU,
	PROFILE_CONTENTION,
};

#define PROFILE_NONE UINT32_MAX

/*
 * No process counts as much: a counter that fell below 0, in a profile that was changed or damaged,
 * has 64 bits.
 */
#define PROFILE_COUNT_LIMIT 0x1p63
#define PROFILE_COUNT_PROBLEM "a count that no process reaches: damaged"

/*
 * jemalloc's own limit is 128 frames by default and can be raised. The same for all readers, so
 * that what one of them reads can be written in any format and read again.
 */
enum { PROFILE_STACK_LIMIT = 65536 };
#define PROFILE_STACK_PROBLEM "a stack of more than 65536 frames"

/* Of what a sample counts as allocated, what was freed soon: heapctl's sampler says how soon. */
struct profile_temporary {
	size_t sample; /* in profile.samples */
	double objects, bytes;
};

struct profile_mapping {
	uint64_t start;
	uint64_t limit; /* one past the last address */
	uint64_t file_offset;
	const char *path;     /* "" for anonymous memory; without " (deleted)" */
	const char *build_id; /* lower-case hex, "" when the input does not say */
	bool deleted;	      /* the file had been removed or replaced */
	bool executable;      /* code may run there; true where the input does not say */
	bool has_functions;   /* the input came with names for all locations in it */
};

struct profile_frame {
	const char *function;	  /* demangled; "" when unknown */
	const char *linkage_name; /* as the linker has it; "" when the same or unknown */
	const char *file;	  /* "" when unknown */
	uint32_t line;		  /* 0 when unknown */
	uint32_t start_line;	  /* of the function; 0 when unknown */
};

struct profile_location {
	uint64_t address;     /* as recorded: a return address. 0 in formats without addresses */
	uint32_t mapping;     /* PROFILE_NONE when no mapping covers it */
	uint32_t first_frame; /* in profile.frames, innermost first */
	uint32_t frame_count; /* 0 until symbols are found */
	bool is_exact;	      /* where execution was, not where it returns to: do not step back */
	bool is_named;	      /* of a format without addresses: identified by its frames */
	/* Where its function begins, for one without a name: an address, 0 when unknown. */
	uint64_t function_start;
};

struct profile_stack {
	uint64_t first; /* in profile.stack_locations, leaf first */
	uint32_t depth;
};

struct profile_sample {
	uint32_t stack;
	uint32_t thread; /* in profile.threads; PROFILE_NONE for all threads together */
	/*
	 * Bytes of one object, for formats that keep a size label; 0 when unknown. Samples that
	 * differ in it are different samples.
	 */
	uint64_t object_bytes;
	double counters[PROFILE_COUNTERS]; /* raw */
};

struct profile_thread {
	uint64_t id;	  /* jemalloc's own number, not the kernel's */
	const char *name; /* "" when unnamed */
	double counters[PROFILE_COUNTERS];
};

struct profile {
	const char *name; /* where it came from, for messages */
	enum profile_kind kind;
	enum profile_weighting weighting;
	uint64_t interval_bytes;  /* mean distance of two samples; 0 when unknown or not sampled */
	bool is_complete;	  /* the input says that nothing was left to samples */
	int64_t time_ms;	  /* when it was taken, since 1970; 0 when unknown */
	int64_t duration_ms;	  /* of the interval it covers; 0 for a snapshot */
	const char *program;	  /* path of the executable where the input says it; "" otherwise */
	const char *process_name; /* what the process was called; "" where the input does not say */
	const char *sampler;  /* what took the samples: "jemalloc", "heapctl"; "" where unknown */
	const char *sampling; /* in words, where pprof has no more of it; "" otherwise */
	bool is_sampled_from_start; /* of the process */
	bool has_mapped;	    /* the program's own mappings are samples, too */
	bool has_entries;	    /* functions were patched: calls within a module are seen */
	int64_t sampled_since_ms;   /* since 1970; 0 when unknown */
	int64_t attached_ms;	    /* the agent into the running process; 0: it was not */
	bool has_allocated;	    /* the ALLOC_ counters mean something (prof_accum) */
	const char *drop_frames;    /* pprof's patterns of functions to leave out; "" without */
	const char *keep_frames;
	enum profile_counter default_counter; /* the input's preferred one */
	bool has_mappings; /* the input has a list of them, even an empty one, or needs none */
	bool has_go_names; /* in place of mappings: its runtime's functions may be without one */
	double header_counters[PROFILE_COUNTERS]; /* of the "t*:" line in the header; raw */
	bool lacks_stacks;  /* in gperftools' formats: they have less than the header says */
	bool has_temporary; /* temporary allocations are counted */
	struct profile_temporary header_temporary;
	struct profile_temporary *temporary; /* of the samples that have some, in their order */
	size_t temporary_count, temporary_capacity;

	struct profile_mapping *mappings; /* sorted by start, once read */
	struct profile_location *locations;
	struct profile_frame *frames;
	uint32_t *stack_locations;
	struct profile_stack *stacks;
	struct profile_sample *samples;	       /* all threads together */
	struct profile_sample *thread_samples; /* the same by thread; may be empty */
	struct profile_thread *threads;
	const char **comments; /* "%warn" lines, lines of unknown meaning, pprof's comments */
	size_t mapping_count, mapping_capacity;
	size_t location_count, location_capacity;
	size_t frame_count, frame_capacity;
	size_t stack_location_count, stack_location_capacity;
	size_t stack_count, stack_capacity;
	size_t sample_count, sample_capacity;
	size_t thread_sample_count, thread_sample_capacity;
	size_t thread_count, thread_capacity;
	size_t comment_count, comment_capacity;

	bool leaves_out_threads; /* see profile_read_options */
	uint64_t memory_limit;	 /* bytes, see profile_is_full; 0 for none */
	uint64_t hash_seed;	 /* of all indexes of the input's items */
	struct string_pool strings;
	struct hash_index location_index;
	struct hash_index stack_index;
};

struct profile *profile_new(const char *name);
void profile_free(struct profile *profile);

DEFINE_CLEANUP(profile_cleanup, struct profile *const, profile_free)

/* The text as the profile keeps it: equal texts are the same pointer. */
const char *profile_intern(struct profile *profile, const char *text);

/* Whether the figures may be estimates whose errors the input does not say: collapsed stacks. */
static inline bool profile_lacks_errors(const struct profile *profile)
{
	return profile->kind == PROFILE_HEAP && profile->interval_bytes == 0 &&
	       !profile->is_complete;
}

/* Whether its samples begin with an attach of the agent to the running process. */
bool profile_is_since_attach(const struct profile *profile);

/* Of the words below: a comment of pprof that begins with it and a sampler's name has them. */
#define PROFILE_SAMPLING_WORDS "sampled by "

/*
 * Appends "sampled by heapctl since 2026-11-23 01:35:12 UTC, without what was allocated before", or
 * "since the attach 12 min earlier (at 2026-11-23 01:35:12 UTC)" where sampling began with it;
 * nothing where it is not known.
 */
void profile_describe_sampling(const struct profile *profile, struct buffer *out);

/* The counts of the last sample, or of the header before the first one. */
void profile_add_temporary(struct profile *profile, double objects, double bytes);

/*
 * Leaves the temporary allocations alone: they are what was allocated, nothing is in use, and there
 * are no threads. ERROR_INPUT where they are not counted.
 */
MUST_CHECK bool profile_select_temporary(struct profile *profile, struct error *err);

/* Each returns the position of the new item. Paths and names are copied. */
uint32_t profile_add_mapping(struct profile *profile, const struct profile_mapping *mapping);
uint32_t profile_add_thread(struct profile *profile, uint64_t id, const char *name);
uint32_t profile_add_frame(struct profile *profile, const struct profile_frame *frame);
void profile_add_comment(struct profile *profile, const char *text, size_t size);

/*
 * The same for texts that are the profile's own (profile_intern): a long one that many items share
 * is not searched for each time.
 */
uint32_t profile_add_own_mapping(struct profile *profile, const struct profile_mapping *mapping);
uint32_t profile_add_own_thread(struct profile *profile, uint64_t id, const char *name);
uint32_t profile_add_own_frame(struct profile *profile, const struct profile_frame *frame);
void profile_add_own_comment(struct profile *profile, const char *text);

/* Adds a frame whose texts stay where they are as long as `texts`, and are shared by many. */
uint32_t profile_copy_frame(
	struct profile *profile, struct text_map *texts, const struct profile_frame *frame);

/* The location of a return address; the mapping is left for profile_assign_mappings. */
uint32_t profile_add_address(struct profile *profile, uint64_t address);

/* The location of an address where execution was (is_exact): another one than the above. */
uint32_t profile_add_exact_address(struct profile *profile, uint64_t address);

/*
 * The location of frames in a format without addresses, innermost first, all but the last of them
 * inlined: equal (function, file, line) give the same location, with exactly these frames.
 */
uint32_t profile_add_named(
	struct profile *profile, const struct profile_frame *frames, size_t count);
uint32_t profile_copy_named(struct profile *profile, struct text_map *texts,
	const struct profile_frame *frames, size_t count);

/*
 * Appends a location as it is, for formats that number theirs: equal ones are not made one. A
 * mapping that is set is kept.
 */
uint32_t profile_add_location(struct profile *profile, const struct profile_location *location);

/* The stack of these locations, leaf first; depth may be 0 (the unwinder failed). */
uint32_t profile_add_stack(struct profile *profile, const uint32_t *locations, size_t depth);

/*
 * The same for a reader of many stacks, without copying: it writes the locations to
 * profile_stack_room, which stays valid until stacks are added, and then adds them. The reader may
 * use a hash function of its own, the same for all stacks of a profile: spread over 64 bits, and
 * seeded with hash_seed.
 */
uint32_t *profile_stack_room(struct profile *profile, size_t depth);
uint32_t profile_add_stack_in_room(struct profile *profile, uint64_t hash, size_t depth);

/*
 * The same in two steps. hash_index_prefetch(&profile->stack_index, hash) well before the second
 * one avoids a cache miss. First stacks are appended as if they were new; then those of the last
 * `count` stacks that there are already are removed, and the positions of all of these are written.
 */
uint32_t profile_append_stack(struct profile *profile, size_t depth);
void profile_index_stacks(
	struct profile *profile, const uint64_t *hashes, size_t count, uint32_t *positions);

/*
 * Appends to samples, or to thread_samples when it has a thread and these are wanted. Nothing is
 * summed up: samples stay the lines that they were.
 */
void profile_add_sample(struct profile *profile, const struct profile_sample *sample);

/* The same for a reader that fills in the counters, which are not set yet. NULL when not wanted. */
struct profile_sample *profile_new_sample(struct profile *profile, uint32_t stack, uint32_t thread);

/*
 * Whether the profile must not grow any more: positions are 32 bits, and hostile input of a few
 * bytes for each item must not fill the memory. Readers check this regularly.
 */
bool profile_is_full(const struct profile *profile);
#define PROFILE_FULL_PROBLEM "it is larger than can be kept in memory"

/* Sorts the mappings and gives addresses without one the one that covers it, once all are known. */
void profile_assign_mappings(struct profile *profile);

/* Whether a location has an address and no name, in a file whose names are not all known. */
static inline bool profile_location_is_unnamed(
	const struct profile *profile, const struct profile_location *location)
{
	return location->frame_count == 0 && location->address != 0 &&
	       (location->mapping == PROFILE_NONE ||
		       !profile->mappings[location->mapping].has_functions);
}

/* The mapping that covers the address, or PROFILE_NONE. Mappings must be sorted. */
uint32_t profile_find_mapping(const struct profile *profile, uint64_t address);

/* Whether a mapping has any address from `start` up to `limit`. */
bool profile_is_mapped(const struct profile *profile, uint64_t start, uint64_t limit);

/*
 * The path of the main program: the one in the profile, or the first mapped file that is not a
 * library; "" without one.
 */
const char *profile_main_path(const struct profile *profile);

/* What the process was called, or else the main program's file: a link's target may be that. */
const char *profile_program_name(const struct profile *profile);

/* "" where the input does not say. */
const char *profile_main_build_id(const struct profile *profile);

/* Whether nothing says that two profiles are of different programs. */
bool profile_is_of_same_program(const struct profile *left, const struct profile *right);

/*
 * Where the version of a library's name begins: ".so" at its end or before a dot. NULL: no library.
 */
const char *library_name_suffix(const char *name);
