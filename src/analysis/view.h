/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A view: profiles made ready to be drawn. Profiles were scaled up, symbolized, filtered, cut to
 * the requested granularity, and merged; every renderer starts from this.
 *
 * Words. A *node* is what the reader sees as one box: a function, a line, a file or an address,
 * depending on the granularity. A *path* is a distinct stack of nodes, root first, with its
 * estimates. *Flat* is what a node allocates itself (it is the last of the path), *cumulative*
 * what it and everything it calls allocate; a node counts once per path however often it recurs.
 *
 * A view owns its memory and is not changed after it was made: any thread may read it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/xalloc.h"
#include "base/string_pool.h"
#include "profile/profile.h"

enum view_granularity {
	VIEW_FUNCTIONS,
	VIEW_FILE_FUNCTIONS,
	VIEW_LINES,
	VIEW_FILES,
	VIEW_ADDRESSES,
	VIEW_GRANULARITIES,
};

/* By granularity, as options, requests and documents say it: "functions". Ends with NULL. */
extern const char *const view_granularity_names[VIEW_GRANULARITIES + 1];

struct view_node {
	const char *name;     /* what is shown, by the granularity; never "" */
	const char *function; /* "" when unknown */
	const char *file;     /* "" when unknown */
	const char *module;   /* last part of the mapping's path, "" when unknown */
	uint32_t line;	      /* 0 when the granularity has none or it is unknown */
	uint32_t start_line;  /* of the function's declaration; 0 when unknown */
	uint64_t address;     /* 0 unless the granularity is addresses or the function is unknown */
	bool is_inlined;
};

/*
 * An estimate and its variance (square of the standard error, in squared units of the value);
 * sources in analysis/unsample.h. Both may be summed; a difference subtracts values and adds
 * variances.
 */
struct estimate {
	double value;
	double variance;
	double samples; /* recorded objects that it rests on; 0 when unknown */
};

struct view_path {
	uint64_t first; /* in view.path_nodes, root first */
	uint32_t depth; /* may be 0: the unwinder failed */
	struct estimate now[PROFILE_COUNTERS];
	const struct estimate
		*base; /* of the profile compared with, PROFILE_COUNTERS; never NULL */
};

/* What a node allocates itself, and it with all that it calls. */
struct view_totals {
	struct estimate flat;
	struct estimate cumulative;
};

struct view {
	struct view_node *nodes;
	uint32_t *path_nodes;
	struct view_path *paths;
	size_t node_count, node_capacity;
	size_t path_node_count, path_node_capacity;
	size_t path_count, path_capacity;

	/* Of a view that was made without paths, and of its counter only; NULL otherwise. */
	struct view_totals *totals;
	double whole;

	enum profile_kind kind;
	enum view_granularity granularity;
	enum profile_counter counter; /* what the user asked to see */
	const char *label;	      /* of the counter, for people; NULL: its usual name */
	bool is_difference;	      /* base means something: show now - base */
	bool drops_negative;	      /* what shrank has the base's values on both sides */
	bool shares_are_of_all;	      /* also of what the filters left out */
	const char *title;	      /* program or target, "" when unknown */
	const char *subtitle;	      /* which profiles, their time, interval */
	const char *sampling;	 /* what sampled the first profile, since when; "" when unknown */
	int64_t attached_ms;	 /* as in a profile, of the first */
	uint64_t interval_bytes; /* 0 when not sampled */
	bool lacks_errors; /* variances mean nothing: a profile does not say how it was sampled */
	double base_total[PROFILE_COUNTERS]; /* of everything read, before filters */
	double total[PROFILE_COUNTERS];

	struct string_pool strings;
	struct arena bases; /* of paths that have one: few views are differences */
	struct hash_index path_index;
};

struct view *view_new(enum profile_kind kind, enum view_granularity granularity);
void view_free(struct view *view);

DEFINE_CLEANUP(view_cleanup, struct view *, view_free)

/* Appends a node, whose texts are copied, and returns its position; every call makes a new one. */
uint32_t view_add_node(struct view *view, const struct view_node *node);

/* The same for texts that are the view's own already. */
uint32_t view_add_own_node(struct view *view, const struct view_node *node);

/*
 * The path of these nodes, root first; equal ones are the same path. Valid until the next call;
 * add to its estimates, and to those of view_path_base.
 */
struct view_path *view_add_path(struct view *view, const uint32_t *nodes, size_t depth);

/*
 * The same in two steps, for many paths: the first begins to fetch the memory that the second
 * looks at, and what the caller does in between hides the wait.
 */
uint64_t view_prepare_path(const struct view *view, const uint32_t *nodes, size_t depth);
struct view_path *view_add_prepared_path(
	struct view *view, uint64_t hash, const uint32_t *nodes, size_t depth);

/* The path's own figures of the base, to add to. */
struct estimate *view_path_base(struct view *view, struct view_path *path);

/* The estimate to show for a path: now, or now - base in a difference. */
struct estimate view_path_estimate(
	const struct view *view, const struct view_path *path, enum profile_counter counter);

static inline void estimate_add(struct estimate *sum, struct estimate more)
{
	sum->value += more.value;
	sum->variance += more.variance;
	sum->samples += more.samples;
}

/* Values are subtracted, variances and samples add up. */
static inline struct estimate estimate_difference(struct estimate now, struct estimate base)
{
	return (struct estimate){ now.value - base.value, now.variance + base.variance,
		now.samples + base.samples };
}

/* One for each node of the view; release with free(). */
struct view_totals *view_sum_nodes(const struct view *view, enum profile_counter counter);

/* The same of one side of a difference. */
struct view_totals *view_sum_side(
	const struct view *view, enum profile_counter counter, bool is_base);

/* All paths together, after filters. */
struct estimate view_sum(const struct view *view, enum profile_counter counter);

/*
 * What percentages are of: the sum of what has a node, or with shares_are_of_all everything read;
 * in a difference the sum of all absolute changes, so that no share exceeds 100%.
 */
double view_whole(const struct view *view, enum profile_counter counter);

/* All values by `divisor`, > 0, with their errors; how many samples they rest on stays. */
void view_divide(struct view *view, double divisor);
