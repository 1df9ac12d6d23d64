/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a report makes of the sampler's profiles: the memory in use of many seeded programs, and
 * the intervals that are given with it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/unsample.h"
#include "sampler/sampler.h"
#include "unit.h"

enum {
	PROGRAMS = 2000,
	SAMPLES_MIN = 10,
	SITES_MAX = 12,
	BLOCKS_MAX = 30000,
	INTERVAL = 512 * 1024
};

static void *stack[2];
static size_t sizes[BLOCKS_MAX]; /* by block; 0: freed */

static void take_stack(void **addresses, unsigned *count, unsigned max)
{
	*count = max < 2 ? max : 2;
	memcpy(addresses, stack, *count * sizeof *addresses);
}

static uint64_t next_random(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random;
}

static double draw_unit(uint64_t *random)
{
	return (double)(next_random(random) >> 11) * 0x1p-53;
}

static void *block_at(size_t number)
{
	return (void *)(UINT64_C(0x7f0000000000) + number * 16);
}

/* A way in which a site draws its sizes: one size, any size of a range, or few large ones. */
struct habit {
	unsigned kind;
	double log_low, log_high;
};

static size_t draw_size(const struct habit *habit, uint64_t *random)
{
	const double share = habit->kind == 0 ? 0.5 : draw_unit(random);
	const double skewed = habit->kind == 2 ? share * share * share : share;

	return (size_t)exp(habit->log_low + (habit->log_high - habit->log_low) * skewed);
}

/* What is in use at the end of a program. */
struct heap {
	double bytes, samples; /* that are expected */
};

static struct heap measure_heap(size_t begin, size_t end)
{
	struct heap heap = { 0 };

	for (size_t i = begin; i < end; i++) {
		heap.bytes += (double)sizes[i];
		heap.samples += 1 - exp(-(double)sizes[i] / INTERVAL);
	}
	return heap;
}

static struct heap run_program(uint64_t seed)
{
	uint64_t random = seed * UINT64_C(0x9e3779b97f4a7c15);
	struct habit habits[SITES_MAX];

	const size_t sites = 1 + next_random(&random) % SITES_MAX;
	const size_t blocks = BLOCKS_MAX / 3 + next_random(&random) % (BLOCKS_MAX * 2 / 3);
	const double share_freed = draw_unit(&random) * 0.8;
	for (size_t i = 0; i < sites; i++) {
		const double low = log(16) + draw_unit(&random) * log(1000);
		habits[i] = (struct habit){ .kind = (unsigned)(next_random(&random) % 3),
			.log_low = low,
			.log_high = low + draw_unit(&random) * log(100) };
	}
	for (size_t i = 0; i < blocks; i++) {
		const size_t site = next_random(&random) % sites;
		stack[0] = (void *)(0x1000 + site * 16);
		sizes[i] = draw_size(&habits[site], &random);
		sampler_count(block_at(i), sizes[i]);
		const size_t other = next_random(&random) % (i + 1);
		if (draw_unit(&random) < share_freed && sizes[other] != 0) {
			sampler_forget(block_at(other));
			sizes[other] = 0;
		}
	}
	return measure_heap(0, blocks);
}

/* As a report adds up a profile's lines. */
static struct estimate estimate_in_use(void)
{
	const struct profile profile = { .weighting = PROFILE_EXPONENTIAL,
		.interval_bytes = INTERVAL };
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	struct estimate sum = { 0 };

	buffer_init(&text, &memory_heap);
	assert_true(sampler_write(&text));
	const char *at = buffer_string(&text);
	while ((at = strstr(at, "\n@")) != NULL) {
		struct estimate estimates[PROFILE_COUNTERS];
		double counters[PROFILE_COUNTERS] = { 0 };
		char *end = NULL;
		at = strstr(at, "t*: ") + 4;
		counters[PROFILE_INUSE_OBJECTS] = strtod(at, &end);
		counters[PROFILE_INUSE_SPACE] = strtod(end + 2, NULL);
		if (counters[PROFILE_INUSE_OBJECTS] == 0)
			continue;
		unsample(&profile, counters, estimates);
		sum.value += estimates[PROFILE_INUSE_SPACE].value;
		sum.variance += estimates[PROFILE_INUSE_SPACE].variance;
	}
	return sum;
}

static double draw_normal(uint64_t *random)
{
	return sqrt(-2 * log(1 - draw_unit(random))) *
	       cos(2 * 3.14159265358979 * draw_unit(random));
}

/*
 * Another kind of program, for what one generator may hide: sizes are lognormal, and blocks end in
 * the order of their births (a queue), the other way round (a stack), or all at once.
 */
static struct heap run_phases(uint64_t seed)
{
	uint64_t random = seed * UINT64_C(0xd1342543de82ef95) + 1;
	size_t count = 0, oldest = 0;

	const size_t phases = 1 + next_random(&random) % 8;
	for (size_t phase = 0; phase < phases; phase++) {
		const double middle = log(64) + draw_unit(&random) * log(2000);
		const double spread = draw_unit(&random) * 1.5;
		const size_t births = 500 + next_random(&random) % 3000;
		for (size_t i = 0; i < births; i++) {
			const size_t size = (size_t)exp(middle + spread * draw_normal(&random)) + 1;
			stack[0] = (void *)(0x1000 + (phase * 4 + i % 4) * 16);
			sizes[count] = size;
			sampler_count(block_at(count++), size);
		}
		size_t deaths = (size_t)(draw_unit(&random) * (double)(count - oldest));
		const bool is_queue = next_random(&random) % 2 == 0;
		for (; deaths > 0 && count > oldest; deaths--) {
			const size_t block = is_queue ? oldest++ : --count;
			sampler_forget(block_at(block));
		}
	}
	return measure_heap(oldest, count);
}

/*
 * Of 2000 intervals 95 % contain the truth: 0.5 % is the deviation of that share by chance. With
 * fewer than ten samples they need not: without any, the interval is [0, 0].
 */
static void check_intervals(struct heap (*run)(uint64_t seed))
{
	struct error err;
	size_t programs = 0, contained = 0;

	assert_true(sampler_init(&err));
	sampler_set_backtrace(take_stack);
	sampler_set_active(true);
	for (uint64_t seed = 1; seed <= PROGRAMS; seed++) {
		sampler_reset(INTERVAL);
		sampler_thread.random = seed * UINT64_C(0xff51afd7ed558ccd) | 1;
		const struct heap heap = run(seed);
		const double truth = heap.bytes;
		const struct estimate estimate = estimate_in_use();
		const struct interval interval = estimate_interval(estimate);
		programs += heap.samples >= SAMPLES_MIN;
		contained += heap.samples >= SAMPLES_MIN && interval.low <= truth &&
			     truth <= interval.high;
		/* The stated error on the side of the truth. */
		const double error = (truth > estimate.value ? interval.high - estimate.value
							     : estimate.value - interval.low) /
				     1.96;
		if (estimate.value > 0 && fabs(truth - estimate.value) > 5 * error)
			fail_msg("program %d: %g in use, %g estimated, error %g", (int)seed, truth,
				estimate.value, error);
	}
	print_message("# %.1f %% of %zu intervals contain the truth\n",
		100.0 * (double)contained / (double)programs, programs);
	assert_in_range(programs, PROGRAMS / 2, PROGRAMS);
	assert_in_range(contained, programs * 93 / 100, programs * 97 / 100);
}

static void intervals_contain_the_truth_in_95_of_100_programs(void **state)
{
	(void)state;
	need_plain_build();
	check_intervals(run_program);
}

static void they_do_in_programs_of_another_kind(void **state)
{
	(void)state;
	need_plain_build();
	check_intervals(run_phases);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test(intervals_contain_the_truth_in_95_of_100_programs),
	cmocka_unit_test(they_do_in_programs_of_another_kind),
};

UNIT_MAIN(tests)
