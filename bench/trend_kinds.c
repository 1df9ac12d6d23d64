/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second check of `heapctl trend`, independent of bench_trend.py and its programs: heaps are
 * simulated object by object (birth, size, death), each byte is a sample with the same small
 * probability, and the profiles that a dump would give are read by the real trend_build. No real
 * allocator is needed, so thousands of series take seconds, and times, sizes and lifetimes are
 * free.
 *
 *	trend_kinds REPLICATES SEED SET [KIND [PROFILES]]
 *
 * SET is "fixed" (kinds with fixed figures), "held-out" (other kinds, and figures that are drawn
 * anew for each replicate), "long" (the same, for 100 to 1000 profiles) or "onset" (two leaks that
 * begin in the middle, for more lengths).
 * Prints a line for each kind and number of profiles, with tabs: the kind, what it is, profiles,
 * trends, intervals that hold the truth, trends that suspect a site without growth, trends that
 * suspect the growing site, trends whose words are right, then how often each word was said: none,
 * steady, since, jump, cycle, falling, and of growth that it ended, that it still goes on, and that
 * there is one step beside it.
 *
 * Every trend is of three sites. Without growth all three are of the kind; else the first is, and
 * two are of traffic as ever. The truth of an interval is what the same shape (a line, or one from
 * the onset that was found, beside the steps that were found) gives, by least squares, for the
 * bytes that were really in use at the times of the profiles; the swing that a kind is made with
 * does not count where trend found swings.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/trend.h"
#include "base/xalloc.h"

enum { MAX_PROFILES = 1000, SITES = 3, START_MS = 1000000000 };

static const double interval_bytes = 512 * 1024;

/* SplitMix64 (Steele, Lea and Flood 2014). */
static uint64_t random_state;

static double uniform(void)
{
	uint64_t z = random_state += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
	z ^= z >> 31;
	return ((double)(z >> 11) + 0.5) / 9007199254740992.0;
}

static double exponential(double mean)
{
	return -mean * log(uniform());
}

static double normal(void)
{
	return sqrt(-2 * log(uniform())) * cos(2 * M_PI * uniform());
}

static double between(double low, double high)
{
	return low * pow(high / low, uniform());
}

/* When profiles are taken. */
struct schedule {
	double hours[MAX_PROFILES];
	size_t count;
	double span;
};

/* The true memory of one site, and a profiler's figures of it, at the times of a schedule. */
struct site {
	const struct schedule *schedule;
	double bytes[MAX_PROFILES];
	double recorded[MAX_PROFILES];					 /* objects */
	double object_weights[MAX_PROFILES], byte_weights[MAX_PROFILES]; /* sums of 1/p and z/p */
	double allocated[MAX_PROFILES]; /* recorded objects, ever */
	double swing[MAX_PROFILES];	/* expected bytes of what is made to swing */
};

/* The first profile at `hours` or later. */
static size_t first_profile(const struct schedule *schedule, double hours)
{
	size_t low = 0, high = schedule->count;

	while (low < high) {
		const size_t middle = (low + high) / 2;
		if (schedule->hours[middle] < hours)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* Changes from one profile to the next, which finish_site sums. */
static void add_change(struct site *site, size_t at, double sign, double size, double p)
{
	site->bytes[at] += sign * size;
	if (p == 0)
		return;
	site->recorded[at] += sign;
	site->object_weights[at] += sign / p;
	site->byte_weights[at] += sign * size / p;
}

static void add_object(struct site *site, double birth, double death, double size)
{
	const struct schedule *const schedule = site->schedule;
	const double p = -expm1(-size / interval_bytes);
	const double recorded_p = uniform() < p ? p : 0;
	const size_t begin = first_profile(schedule, birth), end = first_profile(schedule, death);

	if (recorded_p > 0 && begin < schedule->count)
		site->allocated[begin]++;
	if (begin >= end)
		return;
	add_change(site, begin, 1, size, recorded_p);
	if (end < schedule->count)
		add_change(site, end, -1, size, recorded_p);
}

static void finish_site(struct site *site)
{
	for (size_t i = 1; i < site->schedule->count; i++) {
		site->bytes[i] += site->bytes[i - 1];
		site->allocated[i] += site->allocated[i - 1];
		site->recorded[i] += site->recorded[i - 1];
		site->object_weights[i] += site->object_weights[i - 1];
		site->byte_weights[i] += site->byte_weights[i - 1];
	}
}

enum lifetimes { FOREVER, MEMORYLESS, PARETO };

/* How objects of a site come and go. */
struct flow {
	double objects;	    /* that are in use, on average */
	double size;	    /* bytes; the median where sizes differ */
	double size_spread; /* of the logarithm of sizes; 0: all alike */
	enum lifetimes lifetimes;
	double lifetime; /* hours, the mean */
	double swing;	 /* share by which arrivals swing */
	double period;	 /* hours */
};

static double draw_size(const struct flow *flow)
{
	return flow->size * exp(flow->size_spread * normal());
}

static const double pareto_shape = 1.5;

static double draw_lifetime(const struct flow *flow)
{
	const double shortest = flow->lifetime * (pareto_shape - 1) / pareto_shape;

	return flow->lifetimes == FOREVER      ? INFINITY
	       : flow->lifetimes == MEMORYLESS ? exponential(flow->lifetime)
					       : shortest * pow(uniform(), -1 / pareto_shape);
}

/* Of an object that is met at any moment: the density is the survival over the mean. */
static double draw_rest(const struct flow *flow)
{
	const double shortest = flow->lifetime * (pareto_shape - 1) / pareto_shape;
	const double later = shortest / flow->lifetime / (pareto_shape - 1);
	const double u = uniform();

	if (flow->lifetimes != PARETO)
		return draw_lifetime(flow);
	return u < later ? shortest * pow(later / u, 1 / (pareto_shape - 1))
			 : (1 - u) * flow->lifetime;
}

/* A pool: a fixed number of objects, each replaced at once when it is freed. */
static void add_pool(struct site *site, const struct flow *flow)
{
	for (double i = 0; i < flow->objects; i++) {
		double birth = -1, death = draw_rest(flow);
		add_object(site, birth, death, draw_size(flow));
		while (death < site->schedule->span) {
			birth = death;
			death = birth + draw_lifetime(flow);
			add_object(site, birth, death, draw_size(flow));
		}
	}
}

/* Objects that arrive from `start` on, and are freed independently. */
static void add_arrivals(struct site *site, const struct flow *flow, double start)
{
	const double mean = flow->objects / flow->lifetime, highest = mean * (1 + flow->swing);

	if (!(highest > 0))
		return;
	for (double t = start + exponential(1 / highest); t < site->schedule->span;
		t += exponential(1 / highest)) {
		const double rate =
			flow->period > 0
				? mean * (1 + flow->swing * sin(2 * M_PI * t / flow->period))
				: mean;
		if (uniform() * highest < rate)
			add_object(site, t, t + draw_lifetime(flow), draw_size(flow));
	}
}

/* Arrivals in a steady state; the number in use is Poisson's, except for swings. */
static void add_traffic(struct site *site, const struct flow *flow)
{
	if (flow->period > 0) {
		add_arrivals(site, flow, -12 * flow->lifetime);
		/* A line in front of this filter: the swing of what is in use lags behind. */
		const double w = 2 * M_PI / flow->period, lag = atan(w * flow->lifetime);
		for (size_t i = 0; i < site->schedule->count; i++)
			site->swing[i] += flow->objects * flow->size * flow->swing * cos(lag) *
					  sin(w * site->schedule->hours[i] - lag);
		return;
	}
	double live = 0;
	for (double t = exponential(1); t < flow->objects; t += exponential(1))
		live++;
	while (live-- > 0)
		add_object(site, -1, draw_rest(flow), draw_size(flow));
	add_arrivals(site, flow, 0);
}

static void add_static(struct site *site, double bytes, double size, double from)
{
	for (double i = 0; i < bytes / size; i++)
		add_object(site, from, INFINITY, size);
}

/* `bytes` an hour that stay, from `start` to `end`. */
static void add_leak(struct site *site, double bytes, double size, double start, double end)
{
	for (double t = start + exponential(size / bytes); t < end; t += exponential(size / bytes))
		add_object(site, t, INFINITY, size);
}

/* Filled evenly, and emptied at once after each period. */
static void add_sawtooth(struct site *site, double top_bytes, double size, double period)
{
	const double phase = uniform() * period, each = period * size / top_bytes;

	for (double t = -phase; t < site->schedule->span; t += each * 2 * uniform())
		add_object(site, t, phase - period * 9 + period * ceil((t - phase) / period + 9),
			size);
	for (size_t i = 0; i < site->schedule->count; i++) {
		const double at = (site->schedule->hours[i] - phase) / period;
		site->swing[i] += top_bytes * (at - floor(at));
	}
}

enum word { NONE = 1, STEADY = 2, SINCE = 4, JUMP = 8, CYCLE = 16, FALLING = 32, WORDS = 6 };

/*
 * Figures are in samples' worth: multiples of the mean distance of two samples. A held-out kind
 * multiplies them by factors of its own for each replicate.
 */
struct figures {
	double level;	 /* samples */
	double leak;	 /* samples an hour */
	double size;	 /* bytes of an object */
	double lifetime; /* hours */
	double share;	 /* of the series, when it begins */
};

struct kind {
	const char *name, *text;
	void (*make)(struct site *site, const struct figures *figures);
	struct figures figures;
	void (*plan)(struct schedule *schedule, size_t count);
	unsigned right;	       /* words */
	bool is_growing;       /* the first site should be suspected */
	bool may_be_suspected; /* neither is wrong: nothing is counted */
	bool has_allocated;    /* prof_accum */
	size_t min_profiles;
	const char *set; /* "fixed" when NULL */
};

static double sampled_bytes(double samples)
{
	return samples * interval_bytes;
}

static struct flow flow_of(const struct figures *figures)
{
	return (struct flow){ .objects = sampled_bytes(figures->level) / figures->size,
		.size = figures->size,
		.lifetimes = MEMORYLESS,
		.lifetime = figures->lifetime };
}

static double begin_of(const struct site *site, const struct figures *figures)
{
	return figures->share * site->schedule->span;
}

static void make_static(struct site *site, const struct figures *figures)
{
	add_static(site, sampled_bytes(figures->level), figures->size, -1);
}

static void make_pool(struct site *site, const struct figures *figures)
{
	const struct flow flow = flow_of(figures);
	add_pool(site, &flow);
}

static void make_traffic(struct site *site, const struct figures *figures)
{
	const struct flow flow = flow_of(figures);
	add_traffic(site, &flow);
}

static void make_log_normal(struct site *site, const struct figures *figures)
{
	struct flow flow = flow_of(figures);

	flow.size_spread = 1.5;
	flow.objects /= exp(flow.size_spread * flow.size_spread / 2);
	add_traffic(site, &flow);
}

static void make_pareto(struct site *site, const struct figures *figures)
{
	struct flow flow = flow_of(figures);

	flow.lifetimes = PARETO;
	add_traffic(site, &flow);
}

static void make_leak(struct site *site, const struct figures *figures)
{
	make_traffic(site, figures);
	add_leak(site, sampled_bytes(figures->leak), figures->size, begin_of(site, figures),
		site->schedule->span);
}

static void make_static_leak(struct site *site, const struct figures *figures)
{
	make_static(site, figures);
	add_leak(site, sampled_bytes(figures->leak), figures->size, begin_of(site, figures),
		site->schedule->span);
}

/* The leak of `leak` samples an hour ends after a fifth of the series; what it left stays. */
static void make_burst(struct site *site, const struct figures *figures)
{
	const double begin = begin_of(site, figures), lasts = site->schedule->span / 5;

	make_traffic(site, figures);
	add_leak(site, sampled_bytes(figures->level) / lasts, figures->size, begin, begin + lasts);
}

/* Steps of `leak` samples each, on what stays. */
static void add_steps(struct site *site, const struct figures *figures, int count)
{
	make_static(site, figures);
	for (int i = 1; i <= count; i++)
		add_static(site, sampled_bytes(figures->leak), figures->size,
			site->schedule->span * (i - 0.3 + 0.6 * uniform()) / (count + 1));
}

static void make_step(struct site *site, const struct figures *figures)
{
	add_steps(site, figures, 1);
}

static void make_two_steps(struct site *site, const struct figures *figures)
{
	add_steps(site, figures, 2);
}

static void make_four_steps(struct site *site, const struct figures *figures)
{
	add_steps(site, figures, 4);
}

/* Two such steps in adjacent intervals, with two profiles or more before and after them. */
static void make_adjacent_steps(struct site *site, const struct figures *figures)
{
	const struct schedule *const schedule = site->schedule;
	const size_t at = 1 + (size_t)(uniform() * (double)(schedule->count - 4));

	make_static(site, figures);
	for (size_t i = at; i < at + 2; i++)
		add_static(site, sampled_bytes(figures->leak), figures->size,
			(schedule->hours[i] + schedule->hours[i + 1]) / 2);
}

/* The same, and the last two profiles are those after them. */
static void make_late_steps(struct site *site, const struct figures *figures)
{
	const struct schedule *const schedule = site->schedule;

	make_static(site, figures);
	for (size_t i = schedule->count - 4; i < schedule->count - 2; i++)
		add_static(site, sampled_bytes(figures->leak), figures->size,
			(schedule->hours[i] + schedule->hours[i + 1]) / 2);
}

/* A step as high as the level, to more of the same traffic. */
static void make_busy_step(struct site *site, const struct figures *figures)
{
	const struct flow flow = flow_of(figures);
	const double begin = begin_of(site, figures);
	struct flow more = flow;

	add_traffic(site, &flow);
	more.objects *= 0.5;
	/* The new objects arrive at once, and are then replaced like the rest. */
	for (double i = 0; i < more.objects; i++)
		add_object(site, begin, begin + exponential(flow.lifetime), flow.size);
	add_arrivals(site, &more, begin);
}

static void make_step_then_leak(struct site *site, const struct figures *figures)
{
	make_traffic(site, figures);
	add_static(site, sampled_bytes(figures->level) / 2, figures->size, begin_of(site, figures));
	add_leak(site, sampled_bytes(figures->leak), figures->size, begin_of(site, figures),
		site->schedule->span);
}

static void make_cycle(struct site *site, const struct figures *figures)
{
	struct flow flow = flow_of(figures);

	flow.swing = 0.7;
	flow.period = 6;
	add_traffic(site, &flow);
}

static void make_cycle_leak(struct site *site, const struct figures *figures)
{
	make_cycle(site, figures);
	add_leak(site, sampled_bytes(figures->leak), figures->size, 0, site->schedule->span);
}

static void make_sawtooth(struct site *site, const struct figures *figures)
{
	add_sawtooth(site, sampled_bytes(figures->level), figures->size, figures->lifetime);
}

/* Arrivals that begin with the series, as a server's that was just started. */
static void make_start(struct site *site, const struct figures *figures)
{
	struct flow flow = flow_of(figures);

	flow.lifetime = figures->share * site->schedule->span;
	add_arrivals(site, &flow, 0);
}

/* All objects exist at the start and are freed over time. */
static void make_shrinking(struct site *site, const struct figures *figures)
{
	for (double i = 0; i < sampled_bytes(figures->level) / figures->size; i++)
		add_object(site, -1, uniform() * site->schedule->span * 1.3, figures->size);
}

/* Held out: a small part of the objects is 64 times as large. */
static void make_two_sizes(struct site *site, const struct figures *figures)
{
	struct flow flow = flow_of(figures);

	flow.objects /= 2;
	add_traffic(site, &flow);
	flow.objects /= 64;
	flow.size *= 64;
	add_traffic(site, &flow);
}

/* Held out: batches of objects that come and go together. */
static void make_batches(struct site *site, const struct figures *figures)
{
	const double batch = 8 * figures->size, rate = sampled_bytes(figures->level) / batch;

	for (double t = -20 * figures->lifetime; t < site->schedule->span;
		t += exponential(figures->lifetime / rate)) {
		const double end = t + exponential(figures->lifetime);
		for (int i = 0; i < 8; i++)
			add_object(site, t, end, figures->size);
	}
}

/* Held out: half stays, half is replaced. */
static void make_half(struct site *site, const struct figures *figures)
{
	struct figures half = *figures;

	half.level /= 2;
	make_static(site, &half);
	make_traffic(site, &half);
}

/* Held out: half of what arrives is never freed, the rest is. */
static void make_mixed_leak(struct site *site, const struct figures *figures)
{
	make_half(site, figures);
	add_leak(site, sampled_bytes(figures->leak), figures->size, begin_of(site, figures),
		site->schedule->span);
}

/* Held out: the load of the program itself wanders by about a third, within hours. */
static void make_wandering(struct site *site, const struct figures *figures)
{
	const double spread = 0.3, memory_hours = 1.5, step = 0.05;
	const double kept = exp(-step / memory_hours);
	const struct flow flow = flow_of(figures);
	double load = spread * normal();

	for (double t = -10 * flow.lifetime; t < site->schedule->span; t += step) {
		const double apart = flow.lifetime / flow.objects / exp(load - spread * spread / 2);
		for (double at = exponential(apart); at < step; at += exponential(apart))
			add_object(site, t + at, t + at + draw_lifetime(&flow), flow.size);
		load = kept * load + spread * sqrt(1 - kept * kept) * normal();
	}
}

/* Held out: all is replaced at once, by more or by less. */
static void make_redrawn(struct site *site, const struct figures *figures)
{
	double begin = -figures->lifetime;

	while (begin < site->schedule->span) {
		const double end = begin + figures->lifetime * between(0.5, 2);
		const double bytes = sampled_bytes(figures->level) * between(0.7, 1.4);
		for (double i = 0; i < bytes / figures->size; i++)
			add_object(site, begin, end, figures->size);
		begin = end;
	}
}

/* Held out: half of what arrives is never freed, up to 0.7 to 0.9 of the time that is left. */
static void make_mixed_burst(struct site *site, const struct figures *figures)
{
	const double begin = begin_of(site, figures), end = site->schedule->span;

	make_half(site, figures);
	add_leak(site, sampled_bytes(figures->leak), figures->size, begin,
		begin + (end - begin) * (0.7 + 0.2 * uniform()));
}

static void make_steps_held_out(struct site *site, const struct figures *figures)
{
	add_steps(site, figures, 1 + (int)(uniform() * 3));
}

/* `leak` samples in all, from `share` of the series on, and one step on what stays. */
static void make_long_leak(struct site *site, const struct figures *figures)
{
	const double begin = begin_of(site, figures), end = site->schedule->span;

	make_half(site, figures);
	add_leak(site, sampled_bytes(figures->leak) / (end - begin), figures->size, begin, end);
}

static void make_long_step(struct site *site, const struct figures *figures)
{
	make_half(site, figures);
	add_static(site, sampled_bytes(figures->level) / 2, figures->size,
		site->schedule->span * (0.1 + 0.8 * uniform()));
}

static void make_long_step_leak(struct site *site, const struct figures *figures)
{
	make_long_step(site, figures);
	add_leak(site, sampled_bytes(figures->leak) / site->schedule->span, figures->size, 0,
		site->schedule->span);
}

static void plan_hourly(struct schedule *schedule, size_t count)
{
	for (size_t i = 0; i < count; i++)
		schedule->hours[i] = (double)i;
}

static void plan_irregular(struct schedule *schedule, size_t count)
{
	double hours = 0;

	for (size_t i = 0; i < count; i++) {
		schedule->hours[i] = hours;
		hours += fmax(exponential(1), 0.02);
	}
}

/* No profiles for a third of the time. */
static void plan_hole(struct schedule *schedule, size_t count)
{
	for (size_t i = 0; i < count; i++)
		schedule->hours[i] = (double)(i < count / 2 ? i : i + (count + 1) / 2);
}

static const struct kind kinds[] = {
	{ .name = "static",
		.text = "never changes",
		.make = make_static,
		.figures = { 128, 0, 32768, 0, 0 },
		.plan = plan_hourly,
		.right = NONE },
	{ .name = "pool",
		.text = "a pool, replaced within 3 h",
		.make = make_pool,
		.figures = { 128, 0, 32768, 3, 0 },
		.plan = plan_hourly,
		.right = NONE },
	{ .name = "traffic",
		.text = "comes and goes, 3 h",
		.make = make_traffic,
		.figures = { 128, 0, 32768, 3, 0 },
		.plan = plan_hourly,
		.right = NONE },
	{ .name = "fast",
		.text = "comes and goes, 10 min",
		.make = make_traffic,
		.figures = { 128, 0, 32768, 0.17, 0 },
		.plan = plan_hourly,
		.right = NONE },
	{ .name = "few",
		.text = "comes and goes, 8 samples",
		.make = make_traffic,
		.figures = { 8, 0, 32768, 3, 0 },
		.plan = plan_hourly,
		.right = NONE },
	{ .name = "large-16",
		.text = "16 objects of 1 MiB, 3 h",
		.make = make_traffic,
		.figures = { 32, 0, 1048576, 3, 0 },
		.plan = plan_hourly,
		.right = NONE },
	{ .name = "large-32",
		.text = "32 objects of 1 MiB, 3 h",
		.make = make_traffic,
		.figures = { 64, 0, 1048576, 3, 0 },
		.plan = plan_hourly,
		.right = NONE },
	{ .name = "large-half",
		.text = "32 objects of 512 KiB, 3 h",
		.make = make_traffic,
		.figures = { 32, 0, 524288, 3, 0 },
		.plan = plan_hourly,
		.right = NONE },
	{ .name = "large-pool",
		.text = "a pool of 16 of 1 MiB, 3 h",
		.make = make_pool,
		.figures = { 32, 0, 1048576, 3, 0 },
		.plan = plan_hourly,
		.right = NONE },
	{ .name = "large-accum",
		.text = "32 of 1 MiB, 3 h, with prof_accum",
		.make = make_traffic,
		.figures = { 64, 0, 1048576, 3, 0 },
		.plan = plan_hourly,
		.right = NONE,
		.has_allocated = true },
	{ .name = "log-normal",
		.text = "sizes log-normal (sigma 1.5), 3 h",
		.make = make_log_normal,
		.figures = { 128, 0, 16384, 3, 0 },
		.plan = plan_hourly,
		.right = NONE },
	{ .name = "pareto",
		.text = "lifetimes of Pareto (1.5), 3 h",
		.make = make_pareto,
		.figures = { 128, 0, 32768, 3, 0 },
		.plan = plan_hourly,
		.right = NONE },
	{ .name = "irregular",
		.text = "comes and goes, irregular times",
		.make = make_traffic,
		.figures = { 128, 0, 32768, 3, 0 },
		.plan = plan_irregular,
		.right = NONE },
	{ .name = "hole",
		.text = "comes and goes, a hole of a third",
		.make = make_traffic,
		.figures = { 128, 0, 32768, 3, 0 },
		.plan = plan_hole,
		.right = NONE },
	{ .name = "leak",
		.text = "a leak from the start on",
		.make = make_static_leak,
		.figures = { 64, 10, 32768, 3, 0 },
		.plan = plan_hourly,
		.right = STEADY,
		.is_growing = true },
	{ .name = "leak-traffic",
		.text = "a leak below traffic",
		.make = make_leak,
		.figures = { 128, 10, 32768, 3, 0 },
		.plan = plan_hourly,
		.right = STEADY,
		.is_growing = true },
	{ .name = "leak-irregular",
		.text = "the same, irregular times",
		.make = make_leak,
		.figures = { 128, 10, 32768, 3, 0 },
		.plan = plan_irregular,
		.right = STEADY,
		.is_growing = true },
	{ .name = "leak-hole",
		.text = "the same, a hole of a third",
		.make = make_leak,
		.figures = { 128, 10, 32768, 3, 0 },
		.plan = plan_hole,
		.right = STEADY,
		.is_growing = true },
	{ .name = "onset-quarter",
		.text = "a leak from 1/4 on",
		.make = make_leak,
		.figures = { 64, 15, 32768, 3, 0.25 },
		.plan = plan_hourly,
		.right = SINCE,
		.is_growing = true },
	{ .name = "onset-half",
		.text = "a leak from 1/2 on",
		.make = make_leak,
		.figures = { 64, 15, 32768, 3, 0.5 },
		.plan = plan_hourly,
		.right = SINCE,
		.is_growing = true },
	{ .name = "onset-late",
		.text = "a leak from 2/3 on",
		.make = make_leak,
		.figures = { 64, 15, 32768, 3, 0.667 },
		.plan = plan_hourly,
		.right = SINCE,
		.is_growing = true },
	{ .name = "deploy",
		.text = "static, +50 MiB/h from 1/2 on",
		.make = make_static_leak,
		.figures = { 128, 100, 65536, 3, 0.5 },
		.plan = plan_hourly,
		.right = SINCE,
		.is_growing = true },
	{ .name = "deploy-late",
		.text = "static, +50 MiB/h from 2/3 on",
		.make = make_static_leak,
		.figures = { 128, 100, 65536, 3, 0.667 },
		.plan = plan_hourly,
		.right = SINCE,
		.is_growing = true },
	{ .name = "step-leak",
		.text = "a step and a leak, at 1/2",
		.make = make_step_then_leak,
		.figures = { 64, 15, 32768, 3, 0.5 },
		.plan = plan_hourly,
		.right = SINCE | STEADY,
		.is_growing = true },
	{ .name = "leak-large",
		.text = "16 of 1 MiB, 3 h, and 1 MiB/h stays",
		.make = make_leak,
		.figures = { 32, 2, 1048576, 3, 0 },
		.plan = plan_hourly,
		.right = STEADY | SINCE,
		.is_growing = true },
	{ .name = "step",
		.text = "static, one step by a half",
		.make = make_step,
		.figures = { 128, 64, 32768, 0, 0 },
		.plan = plan_hourly,
		.right = JUMP },
	{ .name = "two-steps",
		.text = "static, two steps by a half",
		.make = make_two_steps,
		.figures = { 128, 64, 32768, 0, 0 },
		.plan = plan_hourly,
		.right = JUMP,
		.min_profiles = 8 },
	{ .name = "four-steps",
		.text = "static, four steps by a quarter",
		.make = make_four_steps,
		.figures = { 128, 32, 32768, 0, 0 },
		.plan = plan_hourly,
		.right = JUMP,
		.min_profiles = 16 },
	{ .name = "busy-step",
		.text = "traffic, a step by a half",
		.make = make_busy_step,
		.figures = { 128, 0, 32768, 3, 0.5 },
		.plan = plan_hourly,
		.right = JUMP },
	{ .name = "burst",
		.text = "traffic, doubles in a fifth",
		.make = make_burst,
		.figures = { 64, 0, 32768, 3, 0.4 },
		.plan = plan_hourly,
		.right = JUMP,
		.min_profiles = 8 },
	{ .name = "start-fast",
		.text = "begins empty, full after 1/8",
		.make = make_start,
		.figures = { 128, 0, 32768, 0, 0.06 },
		.plan = plan_hourly,
		.right = NONE | JUMP,
		.min_profiles = 8 },
	{ .name = "start-slow",
		.text = "begins empty, full after 1/2",
		.make = make_start,
		.figures = { 128, 0, 32768, 0, 0.2 },
		.plan = plan_hourly,
		.right = NONE | JUMP | STEADY,
		.may_be_suspected = true },
	{ .name = "cycle",
		.text = "swings every 6 h",
		.make = make_cycle,
		.figures = { 128, 0, 32768, 1, 0 },
		.plan = plan_hourly,
		.right = CYCLE,
		.min_profiles = 16 },
	{ .name = "cycle-leak",
		.text = "swings every 6 h, and a leak",
		.make = make_cycle_leak,
		.figures = { 128, 10, 32768, 1, 0 },
		.plan = plan_hourly,
		.right = STEADY,
		.is_growing = true,
		.min_profiles = 16 },
	{ .name = "sawtooth",
		.text = "a sawtooth of 6.5 h",
		.make = make_sawtooth,
		.figures = { 128, 0, 32768, 6.5, 0 },
		.plan = plan_hourly,
		.right = CYCLE,
		.min_profiles = 16 },
	{ .name = "shrinking",
		.text = "goes by and by",
		.make = make_shrinking,
		.figures = { 128, 0, 32768, 0, 0 },
		.plan = plan_hourly,
		.right = FALLING },
	/* Held out: their figures are drawn. */
	{ .name = "h-traffic",
		.text = "comes and goes",
		.make = make_traffic,
		.figures = { 100, 0, 24576, 4, 0 },
		.plan = plan_hourly,
		.right = NONE,
		.set = "held-out" },
	{ .name = "h-pool",
		.text = "a pool",
		.make = make_pool,
		.figures = { 100, 0, 24576, 4, 0 },
		.plan = plan_hourly,
		.right = NONE,
		.set = "held-out" },
	{ .name = "h-large",
		.text = "large objects",
		.make = make_traffic,
		.figures = { 50, 0, 1500000, 4, 0 },
		.plan = plan_hourly,
		.right = NONE,
		.set = "held-out" },
	{ .name = "h-large-pool",
		.text = "a pool of large objects",
		.make = make_pool,
		.figures = { 50, 0, 1500000, 4, 0 },
		.plan = plan_hourly,
		.right = NONE,
		.set = "held-out" },
	{ .name = "h-two-sizes",
		.text = "half in objects 64 times as large",
		.make = make_two_sizes,
		.figures = { 100, 0, 12288, 4, 0 },
		.plan = plan_hourly,
		.right = NONE,
		.set = "held-out" },
	{ .name = "h-batches",
		.text = "batches of 8 that go together",
		.make = make_batches,
		.figures = { 100, 0, 49152, 4, 0 },
		.plan = plan_hourly,
		.right = NONE,
		.set = "held-out" },
	{ .name = "h-log-normal",
		.text = "log-normal sizes",
		.make = make_log_normal,
		.figures = { 100, 0, 12288, 4, 0 },
		.plan = plan_hourly,
		.right = NONE,
		.set = "held-out" },
	{ .name = "h-pareto",
		.text = "lifetimes of Pareto",
		.make = make_pareto,
		.figures = { 100, 0, 24576, 4, 0 },
		.plan = plan_hourly,
		.right = NONE,
		.set = "held-out" },
	{ .name = "h-half",
		.text = "half stays, half comes and goes",
		.make = make_half,
		.figures = { 100, 0, 24576, 2, 0 },
		.plan = plan_hourly,
		.right = NONE,
		.set = "held-out" },
	{ .name = "h-irregular",
		.text = "comes and goes, irregular times",
		.make = make_traffic,
		.figures = { 100, 0, 24576, 4, 0 },
		.plan = plan_irregular,
		.right = NONE,
		.set = "held-out" },
	{ .name = "h-leak",
		.text = "half stays, and a leak",
		.make = make_mixed_leak,
		.figures = { 80, 12, 24576, 2, 0 },
		.plan = plan_hourly,
		.right = STEADY,
		.is_growing = true,
		.set = "held-out" },
	{ .name = "h-onset",
		.text = "half stays, a leak from 0.2 to 0.7 on",
		.make = make_mixed_leak,
		.figures = { 80, 16, 24576, 2, 0.45 },
		.plan = plan_hourly,
		.right = SINCE,
		.is_growing = true,
		.set = "held-out" },
	{ .name = "h-onset-irregular",
		.text = "the same, irregular times",
		.make = make_mixed_leak,
		.figures = { 80, 16, 24576, 2, 0.45 },
		.plan = plan_irregular,
		.right = SINCE,
		.is_growing = true,
		.set = "held-out" },
	{ .name = "h-step-leak",
		.text = "a step and a leak",
		.make = make_step_then_leak,
		.figures = { 80, 16, 24576, 2, 0.45 },
		.plan = plan_hourly,
		.right = SINCE | STEADY,
		.is_growing = true,
		.set = "held-out" },
	{ .name = "h-steps",
		.text = "static, one to three steps",
		.make = make_steps_held_out,
		.figures = { 100, 60, 24576, 0, 0 },
		.plan = plan_hourly,
		.right = JUMP,
		.min_profiles = 16,
		.set = "held-out" },
	{ .name = "h-busy-step",
		.text = "traffic, a step by a half",
		.make = make_busy_step,
		.figures = { 150, 0, 24576, 2, 0.45 },
		.plan = plan_hourly,
		.right = JUMP,
		.min_profiles = 8,
		.set = "held-out" },
	{ .name = "h-sawtooth",
		.text = "a sawtooth of any period",
		.make = make_sawtooth,
		.figures = { 150, 0, 24576, 5, 0 },
		.plan = plan_hourly,
		.right = CYCLE,
		.min_profiles = 16,
		.set = "held-out" },
	{ .name = "h-start",
		.text = "begins empty, full after 1/10",
		.make = make_start,
		.figures = { 100, 0, 24576, 0, 0.05 },
		.plan = plan_hourly,
		.right = NONE | JUMP,
		.min_profiles = 8,
		.set = "held-out" },
	/* For the plot of detection. */
	{ .name = "onset-4",
		.text = "traffic, a leak from 1/2 on",
		.make = make_leak,
		.figures = { 64, 4, 32768, 3, 0.5 },
		.plan = plan_hourly,
		.right = SINCE,
		.is_growing = true,
		.set = "onset" },
	{ .name = "onset-8",
		.text = "traffic, a leak from 1/2 on",
		.make = make_leak,
		.figures = { 64, 8, 32768, 3, 0.5 },
		.plan = plan_hourly,
		.right = SINCE,
		.is_growing = true,
		.set = "onset" },
	{ .name = "h-wandering",
		.text = "comes and goes, the load wanders",
		.make = make_wandering,
		.figures = { 100, 0, 24576, 2, 0 },
		.plan = plan_hourly,
		.right = NONE,
		.set = "held-out" },
	{ .name = "h-redrawn",
		.text = "all is replaced at once",
		.make = make_redrawn,
		.figures = { 100, 0, 24576, 4, 0 },
		.plan = plan_hourly,
		.right = NONE | JUMP | CYCLE,
		.set = "held-out" },
	{ .name = "h-ended",
		.text = "half stays, a leak that ends",
		.make = make_mixed_burst,
		.figures = { 80, 20, 24576, 2, 0.2 },
		.plan = plan_hourly,
		.right = STEADY | SINCE,
		.is_growing = true,
		.min_profiles = 16,
		.set = "held-out" },
	{ .name = "h-few-onset",
		.text = "under a sample an hour from 0.2 to 0.7 on",
		.make = make_static_leak,
		.figures = { 4, 0.5, 24576, 2, 0.45 },
		.plan = plan_hourly,
		.right = STEADY | SINCE,
		.is_growing = true,
		.min_profiles = 16,
		.set = "held-out" },
	{ .name = "h-few",
		.text = "comes and goes, about four samples",
		.make = make_traffic,
		.figures = { 4, 0, 24576, 4, 0 },
		.plan = plan_hourly,
		.right = NONE,
		.set = "held-out" },
	{ .name = "l-traffic",
		.text = "half stays, half comes and goes",
		.make = make_half,
		.figures = { 100, 0, 98304, 2, 0 },
		.plan = plan_hourly,
		.right = NONE,
		.set = "long" },
	{ .name = "l-leak",
		.text = "the same, and a leak",
		.make = make_long_leak,
		.figures = { 100, 60, 98304, 2, 0 },
		.plan = plan_hourly,
		.right = STEADY,
		.is_growing = true,
		.set = "long" },
	{ .name = "l-onset",
		.text = "the same, a leak from 0.2 to 0.7 on",
		.make = make_long_leak,
		.figures = { 100, 60, 98304, 2, 0.45 },
		.plan = plan_hourly,
		.right = SINCE,
		.is_growing = true,
		.set = "long" },
	{ .name = "l-step",
		.text = "the same, one step by a half",
		.make = make_long_step,
		.figures = { 100, 0, 98304, 2, 0 },
		.plan = plan_hourly,
		.right = JUMP,
		.set = "long" },
	{ .name = "l-step-leak",
		.text = "one step and a leak",
		.make = make_long_step_leak,
		.figures = { 100, 60, 98304, 2, 0 },
		.plan = plan_hourly,
		.right = STEADY,
		.is_growing = true,
		.set = "long" },
	{ .name = "adjacent-steps",
		.text = "static, two steps in adjacent intervals",
		.make = make_adjacent_steps,
		.figures = { 128, 64, 32768, 0, 0 },
		.plan = plan_hourly,
		.right = JUMP },
	{ .name = "late-steps",
		.text = "the same, before the last two profiles",
		.make = make_late_steps,
		.figures = { 128, 64, 32768, 0, 0 },
		.plan = plan_hourly,
		.right = JUMP },
	{ .name = "h-adjacent-steps",
		.text = "static, two steps in adjacent intervals",
		.make = make_adjacent_steps,
		.figures = { 100, 60, 24576, 0, 0 },
		.plan = plan_irregular,
		.right = JUMP,
		.set = "held-out" },
	{ .name = "h-late-steps",
		.text = "the same, before the last two profiles",
		.make = make_late_steps,
		.figures = { 100, 60, 24576, 0, 0 },
		.plan = plan_irregular,
		.right = JUMP,
		.set = "held-out" },
};

/* A level without growth for the sites beside one that grows. */
static const struct kind bystander = { .name = "bystander",
	.text = "",
	.make = make_traffic,
	.figures = { 128, 0, 32768, 3, 0 },
	.plan = plan_hourly,
	.right = NONE };

static struct figures draw_figures(const struct kind *kind)
{
	struct figures figures = kind->figures;

	if (kind->set == NULL || strcmp(kind->set, "onset") == 0)
		return figures;
	figures.level *= between(0.4, 2.5);
	figures.leak *= between(0.6, 1.7);
	figures.size *= between(0.5, 2);
	figures.lifetime *= between(0.5, 2);
	figures.share *= between(0.45, 1.55);
	return figures;
}

/* As jemalloc 5.3 writes it: counts from which z = bytes / objects gives back its exact sums. */
static void add_line(struct profile *profile, const struct site *site, size_t at, const char *name,
	bool has_allocated)
{
	const double size = site->recorded[at] > 0
				    ? site->byte_weights[at] / site->object_weights[at]
				    : interval_bytes;
	const double p = -expm1(-size / interval_bytes);
	const struct profile_frame frames[] = { { name, "", "", 0, 0 }, { "main", "", "", 0, 0 } };
	const uint32_t locations[] = { profile_add_named(profile, &frames[0], 1),
		profile_add_named(profile, &frames[1], 1) };
	struct profile_sample sample = { .stack = profile_add_stack(profile, locations, 2),
		.thread = PROFILE_NONE };

	sample.counters[PROFILE_INUSE_OBJECTS] = round(site->object_weights[at] * p);
	sample.counters[PROFILE_INUSE_SPACE] = round(site->byte_weights[at] * p);
	if (has_allocated)
		sample.counters[PROFILE_ALLOC_OBJECTS] = site->allocated[at];
	if (has_allocated)
		sample.counters[PROFILE_ALLOC_SPACE] = round(site->allocated[at] * size);
	if (site->recorded[at] > 0 || (has_allocated && site->allocated[at] > 0))
		profile_add_sample(profile, &sample);
}

static const char *const site_names[SITES] = { "first", "second", "third" };

static struct trend *trend_of(const struct site *sites, bool has_allocated)
{
	CLEANUP(series_deinit) struct series series = { 0 };
	const struct schedule *const schedule = sites[0].schedule;
	const struct filter_text everything = { 0 };
	struct filter *filter = NULL;
	struct trend *trend = NULL;
	struct error err = { 0 };

	series_init(&series, PROFILE_INUSE_SPACE);
	for (size_t i = 0; i < schedule->count; i++) {
		struct profile *const profile = profile_new("simulated");
		profile->weighting = PROFILE_EXPONENTIAL;
		profile->interval_bytes = (uint64_t)interval_bytes;
		profile->time_ms = START_MS + (int64_t)(schedule->hours[i] * 3600000);
		profile->has_allocated = has_allocated;
		for (size_t s = 0; s < SITES; s++)
			add_line(profile, &sites[s], i, site_names[s], has_allocated);
		series_add(&series, profile);
	}
	series_finish(&series);
	if (!filter_new(&everything, &filter, &err)) {
		fprintf(stderr, "trend_kinds: %s\n", err.message);
		exit(1);
	}
	const struct trend_request request = { .view = { .filter = filter }, .unit = TREND_FLAT };
	if (!trend_build(&series, &request, &trend, &err)) {
		fprintf(stderr, "trend_kinds: %s\n", err.message);
		exit(1);
	}
	filter_free(filter);
	return trend;
}

static const struct trend_site *find(const struct trend *trend, const char *name)
{
	for (size_t i = 0; i < trend->site_count; i++) {
		if (strcmp(trend->sites[i].name, name) == 0)
			return &trend->sites[i];
	}
	return NULL;
}

enum { MAX_COLUMNS = 2 + GROWTH_MAX_STEPS };

/* Least squares by Gauss: the coefficient of the first column. */
static double first_coefficient(double columns[MAX_COLUMNS][MAX_PROFILES], size_t column_count,
	const double *values, size_t count)
{
	double sums[MAX_COLUMNS][MAX_COLUMNS + 1] = { { 0 } };

	for (size_t i = 0; i < column_count; i++) {
		for (size_t k = 0; k < count; k++) {
			for (size_t j = 0; j < column_count; j++)
				sums[i][j] += columns[i][k] * columns[j][k];
			sums[i][column_count] += columns[i][k] * values[k];
		}
	}
	for (size_t i = column_count; i-- > 1;) {
		for (size_t j = 0; j < i; j++) {
			const double share = sums[j][i] / sums[i][i];
			for (size_t k = 0; k < i; k++)
				sums[j][k] -= share * sums[i][k];
			sums[j][column_count] -= share * sums[i][column_count];
		}
	}
	return sums[0][column_count] / sums[0][0];
}

static double true_rate(const struct site *site, const struct growth *growth)
{
	const struct schedule *const schedule = site->schedule;
	double columns[MAX_COLUMNS][MAX_PROFILES], values[MAX_PROFILES];
	const bool has_steps = growth->kind == GROWTH_STEADY || growth->kind == GROWTH_FALL;
	size_t count = 2;

	for (size_t i = 0; i < schedule->count; i++) {
		values[i] = site->bytes[i] - (growth->period_hours > 0 ? site->swing[i] : 0);
		columns[0][i] = growth->has_end ? fmin(schedule->hours[i], growth->end_hours)
						: schedule->hours[i];
		if (growth->has_onset)
			columns[0][i] = fmax(columns[0][i] - growth->onset_hours, 0);
		columns[1][i] = 1;
	}
	for (size_t s = 0; s < growth->step_count && has_steps; s++, count++) {
		for (size_t i = 0; i < schedule->count; i++)
			columns[count][i] = schedule->hours[i] > growth->steps[s].hours;
	}
	return first_coefficient(columns, count, values, schedule->count);
}

static enum word word_of(const struct growth *growth)
{
	switch (growth->kind) {
	case GROWTH_STEADY:
		return growth->has_onset ? SINCE : STEADY;
	case GROWTH_JUMP:
		return JUMP;
	case GROWTH_CYCLE:
		return CYCLE;
	case GROWTH_FALL:
		return FALLING;
	case GROWTH_NONE:
		break;
	}
	return NONE;
}

struct tally {
	unsigned trends, held, named_innocent, found, right, words[WORDS], ended, goes_on, stepped;
};

static void run_one(const struct kind *kind, size_t profiles, struct tally *tally)
{
	struct schedule schedule = { .count = profiles };
	struct site sites[SITES];

	kind->plan(&schedule, profiles);
	schedule.span = schedule.hours[profiles - 1];
	for (size_t s = 0; s < SITES; s++) {
		const struct kind *const made = s > 0 && kind->is_growing ? &bystander : kind;
		const struct figures figures = draw_figures(made);
		sites[s] = (struct site){ .schedule = &schedule };
		made->make(&sites[s], &figures);
		finish_site(&sites[s]);
	}
	CLEANUP(trend_cleanup) struct trend *trend = trend_of(sites, kind->has_allocated);
	const struct trend_site *const first = find(trend, site_names[0]);
	bool is_named = false;
	if (first == NULL || !first->has_growth)
		return;
	for (size_t i = 0; i < trend->site_count; i++)
		is_named |= trend->sites[i].is_suspect &&
			    !(kind->is_growing && &trend->sites[i] == first);
	const double truth = true_rate(&sites[0], &first->growth);
	const unsigned word = word_of(&first->growth);
	tally->trends++;
	tally->held += first->growth.low <= truth && truth <= first->growth.high;
	tally->named_innocent += is_named && !kind->may_be_suspected;
	tally->found += first->is_suspect;
	tally->right += (word & kind->right) != 0;
	for (int i = 0; i < WORDS; i++)
		tally->words[i] += word == 1U << i;
	tally->ended += (word & (STEADY | SINCE)) != 0 && first->growth.has_end;
	tally->goes_on += word == SINCE && first->growth.goes_on;
	struct growth_step steps[GROWTH_MAX_STEPS];
	tally->stepped +=
		(word & (STEADY | SINCE)) != 0 && growth_own_steps(&first->growth, steps) == 1;
}

struct lengths {
	const char *set;
	size_t counts[10]; /* of profiles; 0 ends them */
};

static void run_kind(size_t at, const size_t *counts, size_t only, int replicates, uint64_t seed)
{
	const struct kind *const kind = &kinds[at];

	for (size_t i = 0; counts[i] != 0; i++) {
		struct tally tally = { 0 };
		random_state = seed * 1000003 + at * 64 + i;
		if (counts[i] < kind->min_profiles || (only != 0 && counts[i] != only))
			continue;
		for (int r = 0; r < replicates; r++)
			run_one(kind, counts[i], &tally);
		printf("%s\t%s\t%zu\t%u\t%u\t%u\t%d\t%u", kind->name, kind->text, counts[i],
			tally.trends, tally.held, tally.named_innocent,
			kind->is_growing ? (int)tally.found : -1, tally.right);
		for (int w = 0; w < WORDS; w++)
			printf("\t%u", tally.words[w]);
		printf("\t%u\t%u\t%u\n", tally.ended, tally.goes_on, tally.stepped);
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	static const struct lengths lengths[] = {
		{ "fixed", { 5, 8, 16, 32 } },
		{ "held-out", { 5, 8, 16, 32 } },
		{ "long", { 100, 300, 1000 } },
		{ "onset", { 5, 8, 16, 32, 6, 10, 12, 20, 24 } },
	};
	const size_t only = argc > 5 ? strtoul(argv[5], NULL, 10) : 0;
	const size_t *counts = NULL;

	for (size_t i = 0; argc > 3 && i < sizeof lengths / sizeof lengths[0]; i++) {
		if (strcmp(lengths[i].set, argv[3]) == 0)
			counts = lengths[i].counts;
	}
	if (counts == NULL)
		return 2;
	for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
		const char *const set = kinds[k].set == NULL ? "fixed" : kinds[k].set;
		if (strcmp(set, argv[3]) == 0 && (argc < 5 || strcmp(argv[4], kinds[k].name) == 0))
			run_kind(k, counts, only, atoi(argv[1]), strtoull(argv[2], NULL, 10));
	}
	return 0;
}
