/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A profile made of others: what a filter leaves of them, unsampled and added up, for outputs that
 * are profiles again. A difference has the net values of its stacks, negative where they shrank,
 * and no sample where nothing changed. Modules of the second and later profiles are moved to the
 * addresses that they have in the first profile that contains them, so that equal places get equal
 * addresses; where those are taken, they are moved to free ones. A difference of which one side has
 * names alone, as collapsed stacks, is one of names.
 */
#pragma once

#include "analysis/filter.h"
#include "analysis/view_builder.h"

struct filtered_profile_request {
	struct filter *filter;
	/*
	 * The counter to show first; that of memory in use where the profiles did not count what
	 * was ever allocated.
	 */
	enum profile_counter counter;
	enum stack_pruning pruning;
	bool by_thread;	    /* samples of single threads where the profiles have them */
	bool strip_labels;  /* equal stacks are one sample, whatever the size of their objects */
	bool drop_negative; /* of a difference: stacks that shrank are left out */
};

/* Same failures as view_build. The result is weighted: PROFILE_WEIGHTED. */
MUST_CHECK bool filtered_profile_make(const struct view_input *inputs, size_t input_count,
	const struct filtered_profile_request *request, struct profile **ret, struct error *err);
