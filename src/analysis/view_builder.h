/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a view of symbolized profiles: unsamples each line, cuts off the allocator's frames,
 * filters, reduces to the granularity, and merges what is the same, within a profile and between
 * profiles. Stacks of different processes meet by module and function (see analysis/modules.h), so
 * a difference across restarts or rebuilds is one of places in the program, not of addresses.
 * Where a side has no addresses, and only one has lines or addresses, the difference is one of
 * functions.
 */
#pragma once

#include "analysis/filter.h"
#include "analysis/view.h"

struct view_input {
	const struct profile *profile;
	bool is_base; /* subtracted */
};

struct view_request {
	enum view_granularity granularity;
	enum profile_counter counter;
	struct filter *filter;
	enum stack_pruning pruning;
	bool no_inlines;
	bool mean_delay;    /* of contention: for each line the time of one delay */
	bool drop_negative; /* stacks that shrank count as unchanged, as in jeprof */
	/*
	 * The view gets no paths but the totals of its nodes, for `counter` alone, which is all
	 * that a list of functions shows. Not with a base, and nothing is observed.
	 */
	bool totals_only;
	const char *title;
	const char *subtitle;
	/*
	 * Called for each line that is added to a path of the view, for callers that need
	 * what each input, or each of its stacks, has added; NULL for none. `estimates` are
	 * PROFILE_COUNTERS.
	 */
	void (*observe)(void *observer, size_t input, uint32_t stack, uint32_t path,
		const struct estimate *estimates);
	void *observer;
};

/* ERROR_USAGE when they are of different kinds: heap and CPU, say. */
MUST_CHECK bool view_check_inputs(const struct view_input *inputs, size_t count, struct error *err);

/* Whether names are what all inputs have: one has nothing else, or no modules, which others have.
 */
bool view_inputs_share_names_alone(const struct view_input *inputs, size_t count);

/*
 * Fails with ERROR_USAGE when the inputs have nothing in common (a heap and a CPU profile), when
 * figures per thread are requested and missing, or when a pattern exceeded its limits.
 */
MUST_CHECK bool view_build(const struct view_input *inputs, size_t input_count,
	const struct view_request *request, struct view **ret, struct error *err);
