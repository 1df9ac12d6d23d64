/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What grew over a series of profiles of one process, or of one service across restarts: for each
 * site (a function, or a stack of functions) one series of estimates, its growth (see
 * analysis/growth.h), and which sites are suspected to leak.
 *
 * Suspects. Each site that grows steadily has the probability p that one without growth looks like
 * it. Among hundreds of sites some always look bad, so p is adjusted by Holm's rule for the number
 * of tested sites: when nothing leaks, at most TREND_LEVEL of all trends name a suspect, however
 * the sites depend on each other. Steps and swings are not suspects; they are reported as such.
 */
#pragma once

#include "analysis/growth.h"
#include "analysis/series.h"
#include "analysis/view_builder.h"

#define TREND_LEVEL 0.05

enum trend_unit {
	TREND_FLAT,	  /* functions by what they allocate themselves */
	TREND_CUMULATIVE, /* and with what they call */
	TREND_STACKS,
};

struct trend_request {
	struct view_request view; /* `observe` and the counter, the series', are set here */
	enum trend_unit unit;
};

struct trend_site {
	const char *name;
	const char *stack;	 /* where most of the change is: "main > serve > parse" */
	struct estimate *series; /* one for each profile; without `samples` */
	struct growth_objects objects;
	struct growth growth;
	bool has_growth;   /* false: too few profiles to say */
	double adjusted_p; /* for the number of sites; 1 unless it grows steadily */
	bool is_suspect;
};

struct trend {
	struct view *view; /* of all profiles together; its paths are without estimates */
	size_t profile_count;
	double *hours;	/* of each profile, since the first */
	uint32_t *runs; /* of each profile, from 0 */
	size_t process_count;
	/*
	 * Of each profile: the agent had been attached for less than a third of the time that the
	 * attach had lasted at its last profile. Memory is replaced by and by with what the sampler
	 * has seen, which looks like growth, so these are shown and not fitted.
	 */
	bool *is_warm_up;
	size_t warm_up_count;
	size_t reset_count;  /* times that one process discarded its samples */
	size_t attach_count; /* times that an agent was attached again to one process */
	bool lacks_counts;   /* of all allocations: the profiles count only what is in use */
	bool has_times;	     /* false: hours are positions, since no times were known */
	int64_t first_ms, last_ms;
	int64_t attached_ms;	  /* as in the last profile */
	struct trend_site *sites; /* suspects first, then by how surely they changed */
	size_t site_count;
	size_t left_out; /* smaller sites that were not tested */
	struct trend_site total;
};

/*
 * Of a settled series whose shared profiles were symbolized. Where times are missing or do not
 * ascend the order alone counts, one hour each. A run ends where a module lies elsewhere, the pid
 * differs, samples were discarded or the agent was attached again. ERROR_USAGE for profiles of two
 * processes that ran at the same time.
 */
MUST_CHECK bool trend_build(const struct series *series, const struct trend_request *request,
	struct trend **ret, struct error *err);
void trend_free(struct trend *trend);

DEFINE_CLEANUP(trend_cleanup, struct trend *, trend_free)

/* One word: "steady", "jump", "undecided", "cycle", "falling", "none", "unknown". */
const char *trend_site_kind(const struct trend_site *site);
