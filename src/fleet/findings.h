/* SPDX-License-Identifier: Apache-2.0 */
/* What a fleet's database is asked for, and what it answers of sites. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/string_pool.h"
#include "store/identity.h"

/* Which snapshots. */
struct fleet_scope {
	struct snapshot_identity of; /* "": of any */
	int64_t since_ms, until_ms;
};

/* What an answer says of a site. The fields that a question does not set are 0 or "". */
struct fleet_finding {
	const char *service, *version, *host;
	uint64_t site;
	const char **frames; /* root first */
	size_t depth;
	double value, variance; /* bytes; of growth, bytes per hour and host */
	double objects, samples;
	double base;	  /* versions: of the other one; outliers: the median of the hosts */
	double low, high; /* 95% interval of the value, or of value - base for versions */
	double hosts;	  /* that have the site; of growth, all hosts that were tested */
	double t;	  /* of outliers: robust standard deviations from the median */
	/* Of outliers: bytes per hour, what is usual for so many bytes, and its deviation. */
	double rate, base_rate, rate_t;
	double p, adjusted_p; /* NAN: not tested */
};

/* Starts as { 0 }. */
struct fleet_findings {
	struct fleet_finding *items;
	size_t count, capacity;
	bool has_more;		      /* than were asked for */
	double total, total_variance; /* of fleet_ask_sites: of all sites, also of those left out */
	const char *versions[2];      /* of fleet_ask_versions: the base, and the other */
	/* Of fleet_ask_growth: the answer is from the sums of days, and so many are missing. */
	bool is_daily;
	uint64_t missing_days;
	struct string_pool strings;
	struct arena frames;
};

void fleet_findings_init(struct fleet_findings *findings);
void fleet_findings_deinit(struct fleet_findings *findings);
