/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/net_samples.h"

#include <math.h>
#include <stdlib.h>

/* Of sums that should be zero, by all that was summed up. */
#define ROUNDING_SHARE 1e-12

static int order_of(uint64_t left, uint64_t right)
{
	return (left > right) - (left < right);
}

static int by_key(const void *a, const void *b)
{
	const struct profile_sample *const left = a;
	const struct profile_sample *const right = b;
	const int by_stack = order_of(left->stack, right->stack);
	const int by_thread = order_of(left->thread, right->thread);

	if (by_stack != 0 || by_thread != 0)
		return by_stack != 0 ? by_stack : by_thread;
	return order_of(left->object_bytes, right->object_bytes);
}

static bool is_equal(const struct profile_sample *left, const struct profile_sample *right,
	bool with_object_bytes)
{
	return left->stack == right->stack && left->thread == right->thread &&
	       (!with_object_bytes || left->object_bytes == right->object_bytes);
}

/* Puts `count` samples into the first of them; whether anything is left. */
static bool put_together(struct profile_sample *samples, size_t count, bool drop_negative)
{
	bool is_left = false;

	for (int c = 0; c < PROFILE_COUNTERS; c++) {
		double sum = 0;
		double all = 0;
		for (size_t i = 0; i < count; i++) {
			sum += samples[i].counters[c];
			all += fabs(samples[i].counters[c]);
		}
		if (fabs(sum) <= all * ROUNDING_SHARE || (drop_negative && sum < 0))
			sum = 0;
		samples[0].counters[c] = sum;
		is_left |= sum != 0;
	}
	return is_left;
}

void net_samples(struct profile *profile, bool drop_negative)
{
	struct profile_sample *const samples = profile->samples;
	const size_t count = profile->sample_count;
	size_t kept = 0;

	if (count == 0)
		return;
	qsort(samples, count, sizeof *samples, by_key);
	for (size_t first = 0, end = 0; first < count; first = end) {
		for (end = first + 1; end < count; end++) {
			if (!is_equal(&samples[first], &samples[end], !drop_negative))
				break;
		}
		if (put_together(&samples[first], end - first, drop_negative))
			samples[kept++] = samples[first];
	}
	profile->sample_count = kept;
}
