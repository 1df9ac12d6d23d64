/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/sampling_mixture.h"

#include <stdint.h>
#include <string.h>

#include "base/units.h"
#include "cli/verb.h"

/* Bytes for one sample, of the profiles that say it; 0 where none does. */
struct sampling_intervals {
	uint64_t min, max;
};

static struct sampling_intervals intervals_of(struct profile *const *profiles, size_t count)
{
	struct sampling_intervals range = { 0 };

	for (size_t i = 0; i < count; i++) {
		const uint64_t interval = profiles[i]->interval_bytes;
		if (interval <= 1)
			continue;
		if (range.min == 0 || interval < range.min)
			range.min = interval;
		if (interval > range.max)
			range.max = interval;
	}
	return range;
}

void sampling_intervals_append(struct profile *const *profiles, size_t count, struct buffer *text)
{
	const struct sampling_intervals range = intervals_of(profiles, count);
	char interval[BYTE_SIZE_TEXT_BYTES];

	if (range.min == 0)
		return;
	byte_size_format(range.min, interval);
	buffer_printf(text, "; a sample every %s", interval);
	if (range.max == range.min)
		return;
	byte_size_format(range.max, interval);
	buffer_printf(text, " to %s", interval);
}

static void warn_of_samplers(struct profile *const *profiles, size_t count)
{
	const char *const first = profiles[0]->sampler;

	for (size_t i = 1; i < count; i++) {
		const char *const other = profiles[i]->sampler;
		if (first[0] == '\0' || other[0] == '\0' || strcmp(first, other) == 0)
			continue;
		verb_warn("%s was sampled by %s, %s by %s: each counts the calls that it sees",
			profiles[0]->name, first, profiles[i]->name, other);
		return;
	}
}

void sampling_mixture_warn(struct profile *const *profiles, size_t count)
{
	const struct sampling_intervals range = intervals_of(profiles, count);
	char min[BYTE_SIZE_TEXT_BYTES], max[BYTE_SIZE_TEXT_BYTES];

	if (count < 2)
		return;
	warn_of_samplers(profiles, count);
	if (range.min == range.max)
		return;
	byte_size_format(range.min, min);
	byte_size_format(range.max, max);
	verb_warn("the profiles have one sample per %s to one per %s: each is scaled up by its own "
		  "interval",
		min, max);
}
