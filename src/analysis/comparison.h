/* SPDX-License-Identifier: Apache-2.0 */
/* Whether two profiles can be subtracted, and what to report about the difference. */
#pragma once

#include <stdbool.h>

#include "profile/profile.h"

struct comparison {
	/* All modules that both have lie at the same addresses: the same run of the program. */
	bool is_same_run;
	/* Some module that both have lies elsewhere: certainly another run. */
	bool is_other_run;
	/*
	 * Not another run, and the agent was attached again in between: what was allocated before,
	 * or between the two attaches, is not in the later one.
	 */
	bool was_attached_anew;
	/* Both are known. Each side is scaled up by its own, so the difference is valid. */
	bool intervals_differ;
	/*
	 * One run, but some stack's count of everything ever allocated went back, or the interval
	 * changed: prof.reset was called in between, and what had been allocated before looks as if
	 * it had been freed. (Or the profiles are in the wrong order.)
	 */
	bool was_reset;
	/*
	 * One run without such counts (prof_accum:false), and hardly any stack still has its
	 * objects: nearly everything was freed, or prof.reset was called in between. If the same
	 * stacks have allocated as much again since, a reset cannot be detected.
	 */
	bool may_be_reset;
};

struct comparison comparison_of(const struct profile *base, const struct profile *now);

/* is_same_run alone, from where the modules lie. */
bool comparison_is_same_run(const struct profile *base, const struct profile *now);
