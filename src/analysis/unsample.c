/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/unsample.h"

#include <math.h>

/* The normal distribution's 97.5% point. */
static const double z95 = 1.959963984540054;

/* The probability that an object of this size is recorded; 1 when all are. */
static double probability(const struct profile *profile, double mean_bytes)
{
	const double interval = (double)profile->interval_bytes;
	double p = 1;

	if (interval <= 0 || mean_bytes <= 0 ||
		(profile->kind != PROFILE_HEAP && profile->kind != PROFILE_GROWTH))
		return 1;
	switch (profile->weighting) {
	case PROFILE_WEIGHTED:
	case PROFILE_EXPONENTIAL:
		p = -expm1(-mean_bytes / interval);
		break;
	case PROFILE_RATIO:
		p = mean_bytes / (interval / 2);
		break;
	}
	return p > 0 && p < 1 ? p : 1;
}

/* A pair of counters: objects and their bytes. */
static void unsample_pair(const struct profile *profile, double objects, double bytes,
	struct estimate *objects_ret, struct estimate *bytes_ret)
{
	/* Of allocations nearly all lines say nothing: prof_accum is off. */
	if (objects == 0 && bytes == 0) {
		*objects_ret = *bytes_ret = (struct estimate){ 0 };
		return;
	}
	const double mean = objects > 0 ? bytes / objects : 0;
	const double p = probability(profile, mean);
	const bool is_estimate = profile->weighting == PROFILE_WEIGHTED;
	const double recorded = is_estimate ? objects * p : objects;
	const double variance = recorded * (1 - p) / (p * p);
	const double factor = is_estimate ? 1 : 1 / p;

	*objects_ret = (struct estimate){ objects * factor, variance, recorded };
	*bytes_ret = (struct estimate){ bytes * factor, mean * mean * variance, recorded };
}

void unsample(const struct profile *profile, const double counters[PROFILE_COUNTERS],
	struct estimate estimates[PROFILE_COUNTERS])
{
	unsample_pair(profile, counters[PROFILE_INUSE_OBJECTS], counters[PROFILE_INUSE_SPACE],
		&estimates[PROFILE_INUSE_OBJECTS], &estimates[PROFILE_INUSE_SPACE]);
	unsample_pair(profile, counters[PROFILE_ALLOC_OBJECTS], counters[PROFILE_ALLOC_SPACE],
		&estimates[PROFILE_ALLOC_OBJECTS], &estimates[PROFILE_ALLOC_SPACE]);
}

struct interval estimate_interval(struct estimate estimate)
{
	if (estimate.value <= 0) {
		const double width = z95 * sqrt(estimate.variance);
		return (struct interval){ estimate.value - width, estimate.value + width };
	}
	const double step = z95 * z95 * estimate.variance / estimate.value / 2;
	const double width = sqrt(z95 * z95 * estimate.variance + step * step);

	return (struct interval){ estimate.value + step - width, estimate.value + step + width };
}

struct interval estimate_difference_interval(struct estimate now, struct estimate base)
{
	const struct interval n = estimate_interval(now);
	const struct interval b = estimate_interval(base);
	const double difference = now.value - base.value;

	return (struct interval){
		difference - hypot(now.value - n.low, b.high - base.value),
		difference + hypot(n.high - now.value, base.value - b.low),
	};
}
