/* SPDX-License-Identifier: Apache-2.0 */
#include "sampler/sampler.h"

#include <errno.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/sdt.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/wiped_memory.h"
#include "sampler/exponential.h"
#include "sampler/mapped_set.h"
#include "sampler/site_table.h"

#ifndef HEAPCTL_STATIC_IMAGE
SAMPLER_THREAD_LOCAL struct sampler_thread sampler_thread;
#endif
_Atomic uint32_t sampler_epoch = 1; /* a thread begins in 0 */
struct live_set sampler_live;

enum {
	/* Of the frames of this library in front of the program's. */
	OWN_FRAMES_MAX = 6,
	/* Of an allocator between two functions that count. */
	NESTED_FRAMES_MAX = 8,
	/* Samples without room before the next try to make some. */
	COMPACT_AGAIN = 10000,
};

static struct {
	/* 0: free, 1: taken, 2: taken, and others wait. In a page that is cleared in children. */
	_Atomic uint32_t *lock;
	_Atomic uint32_t lock_before_4_14;
	_Atomic uint32_t turns; /* how often the lock was taken */
	bool is_changing; /* under the lock: not true when it is taken, unless its holder is gone */
	_Atomic bool is_active;
	_Atomic uint64_t interval;
	_Atomic(sampler_backtrace *) backtrace;
	struct site_table sites;
	struct mapped_set mapped;
	_Atomic uint64_t mapped_serial;
	uint32_t layout; /* of the sites; it changes when their numbers do */
	uint16_t generation;
	uint64_t samples, dropped;
	_Atomic int64_t since_ms; /* when the samples begin; 0: not yet */
	uint64_t compact_at;	  /* dropped samples */
} sampler = { .lock = &sampler.lock_before_4_14, .interval = SAMPLER_INTERVAL_DEFAULT };

static void futex(int operation, uint32_t value)
{
	(void)syscall(SYS_futex, sampler.lock, operation, value, NULL, NULL, 0);
}

static void begin_samples(void)
{
	atomic_store(&sampler.since_ms, atomic_load(&sampler.is_active) ? clock_realtime_ms() : 0);
}

/*
 * What another thread of the parent was changing when this process was forked cannot be trusted,
 * not even to be released.
 */
static void abandon_samples(void)
{
	if (!live_set_init(&sampler_live))
		atomic_store(&sampler_live.table, NULL);
	site_table_init(&sampler.sites, SAMPLER_MEMORY_MAX);
	mapped_set_init(&sampler.mapped);
	sampler.layout++;
	sampler.generation++;
	sampler.samples = 0;
	sampler.dropped = 0;
	begin_samples();
}

static void lock(void)
{
	uint32_t expected = 0;

	if (!atomic_compare_exchange_strong_explicit(
		    sampler.lock, &expected, 1, memory_order_acquire, memory_order_relaxed)) {
		while (atomic_exchange_explicit(sampler.lock, 2, memory_order_acquire) != 0)
			futex(FUTEX_WAIT_PRIVATE, 2);
	}
	atomic_store_explicit(&sampler.turns,
		atomic_load_explicit(&sampler.turns, memory_order_relaxed) + 1,
		memory_order_relaxed);
	if (sampler.is_changing)
		abandon_samples();
	sampler.is_changing = true;
}

/* Returns whether another thread may have waited. */
static bool unlock(void)
{
	sampler.is_changing = false;
	const bool has_waiter =
		atomic_exchange_explicit(sampler.lock, 0, memory_order_release) == 2;

	if (has_waiter)
		futex(FUTEX_WAKE_PRIVATE, 1);
	return has_waiter;
}

static bool has_memory(void)
{
	return atomic_load_explicit(&sampler_live.table, memory_order_relaxed) != NULL;
}

static void use_wiped_lock(void)
{
	void *const wiped = wiped_memory_take(sizeof *sampler.lock);

	if (wiped != NULL)
		sampler.lock = wiped;
}

bool sampler_init(struct error *err)
{
	if (has_memory())
		return true;
	if (sampler.lock == &sampler.lock_before_4_14)
		use_wiped_lock();
	if (!live_set_init(&sampler_live))
		return error_set(err, ERROR_MEMORY, "no memory for the sampler");
	site_table_init(&sampler.sites, SAMPLER_MEMORY_MAX);
	return true;
}

/* Writes only what has to change: a page that a child writes to is copied. */
__attribute__((hot)) void sampler_after_fork(void)
{
	if (sampler.lock == &sampler.lock_before_4_14 && !sampler_own_thread()->is_sampling &&
		atomic_load(sampler.lock) != 0)
		atomic_store(sampler.lock, 0);
}

void sampler_set_backtrace(sampler_backtrace *backtrace)
{
	atomic_store(&sampler.backtrace, backtrace);
}

sampler_backtrace *sampler_get_backtrace(void)
{
	return atomic_load(&sampler.backtrace);
}

bool sampler_set_active(bool is_active)
{
	const bool was_active = atomic_exchange(&sampler.is_active, is_active);

	if (was_active != is_active)
		atomic_fetch_add(&sampler_epoch, 1);
	if (is_active && atomic_load(&sampler.since_ms) == 0)
		begin_samples();
	return was_active;
}

bool sampler_is_active(void)
{
	return atomic_load(&sampler.is_active);
}

void sampler_set_interval(uint64_t interval)
{
	atomic_store(&sampler.interval, interval);
}

static void set_countdown(struct sampler_thread *thread, int64_t distance)
{
	thread->allocated += (uint64_t)(thread->drawn - thread->countdown);
	thread->drawn = thread->countdown = distance;
}

void sampler_leave_thread_out(void)
{
	sampler_own_thread()->is_left_out = true;
	set_countdown(sampler_own_thread(), INT64_MAX);
}

/* Not its address, which the next thread gets. From 1 on, and again after 65535 threads. */
static uint16_t number_of(struct sampler_thread *thread)
{
	static _Atomic uint16_t last;

	while (thread->number == 0)
		thread->number = (uint16_t)(atomic_fetch_add(&last, 1) + 1);
	return thread->number;
}

/* Where the calling thread is, for the blocks that it allocates and frees. */
static struct live_block read_moment(void)
{
	struct sampler_thread *const thread = sampler_own_thread();
	const uint64_t allocated =
		thread->allocated + (uint64_t)(thread->drawn - thread->countdown);

	return (struct live_block){ .birth_ms = (uint32_t)clock_monotonic_ms(),
		.birth_kib = (uint32_t)(allocated >> 10),
		.thread = number_of(thread) };
}

/* Whether a block that is freed now was temporary. */
static bool is_temporary(const struct live_block *was)
{
	const struct live_block now = read_moment();

	return now.birth_ms - was->birth_ms < SAMPLER_TEMPORARY_MS ||
	       (now.thread == was->thread &&
		       now.birth_kib - was->birth_kib < SAMPLER_TEMPORARY_BYTES / 1024);
}

/* What the sample stands for: the contract of OpenTelemetry's profilers for allocators. */
static void trace_sample(const void *block, size_t size)
{
	const double interval =
		(double)atomic_load_explicit(&sampler.interval, memory_order_relaxed);
	const double share = exponential_share((double)size / interval);
	const uint64_t weighted = share > 0 ? (uint64_t)((double)size / share) : 0;

	DTRACE_PROBE3(otel_memory, alloc, block, size, weighted);
}

/* Any number will do that differs between threads. */
static uint64_t new_seed(const struct sampler_thread *thread)
{
	struct timespec now = { 0 };

	clock_gettime(CLOCK_MONOTONIC, &now);
	return exponential_seed(
		(uint64_t)now.tv_nsec << 32 ^ (uint64_t)now.tv_sec ^ (uintptr_t)thread);
}

static int64_t draw_distance(struct sampler_thread *thread)
{
	if (thread->random == 0)
		thread->random = new_seed(thread);
	return (int64_t)(exponential_draw(&thread->random) *
			 (double)atomic_load_explicit(&sampler.interval, memory_order_relaxed));
}

static void renumber(void *context, struct live_block *what)
{
	const uint32_t *const numbers = context;

	if (what->generation == sampler.generation)
		what->site = numbers[what->site];
}

/* Not again for each sample where nearly all sites are in use. */
static bool compact_sites(void)
{
	if (sampler.dropped < sampler.compact_at)
		return false;
	sampler.compact_at = sampler.dropped + COMPACT_AGAIN;
	const size_t count = sampler.sites.count;
	const size_t bytes = count * sizeof(uint32_t);
	uint32_t *const numbers = memory_resize(&memory_pages, NULL, 0, bytes);
	if (numbers == NULL)
		return false;
	site_table_compact(&sampler.sites, numbers);
	sampler.layout++;
	live_set_visit(&sampler_live, renumber, numbers);
	for (size_t i = 0; i < sampler.mapped.count; i++)
		renumber(numbers, &sampler.mapped.ranges[i].what);
	memory_resize(&memory_pages, numbers, bytes, 0);
	if (sampler.sites.count < count - count / 4)
		sampler.compact_at = sampler.dropped;
	return true;
}

/* False without room for the site. */
static bool find_site(struct live_block *what, void *const *frames, size_t frame_count)
{
	what->site = site_table_get(&sampler.sites, frames, frame_count, what->size);
	if (what->site == SITE_NONE && compact_sites())
		what->site = site_table_get(&sampler.sites, frames, frame_count, what->size);
	what->generation = sampler.generation;
	return what->site != SITE_NONE;
}

static void add_live(const struct live_block *what)
{
	struct site *const site = &sampler.sites.sites[what->site];

	site->live_blocks++;
	site->live_bytes += what->size;
}

/* `range` is where the block is mapped; NULL for one of the allocator's. */
static void record(const void *block, size_t size, struct mapped_range *range, void *const *frames,
	size_t frame_count)
{
	struct live_block what = read_moment();

	sampler.samples++;
	what.size = size;
	const bool has_site = find_site(&what, frames, frame_count);
	if (range != NULL)
		range->what = what;
	if (!has_site || !(range == NULL ? live_set_add(&sampler_live, block, what)
					 : mapped_set_add(&sampler.mapped, range))) {
		sampler.dropped++;
		return;
	}
	add_live(&what);
	struct site *const site = &sampler.sites.sites[what.site];
	site->all_blocks++;
	site->all_bytes += size;
}

static void forget(const struct live_block *what, bool was_temporary)
{
	if (what->generation != sampler.generation)
		return;
	struct site *const site = &sampler.sites.sites[what->site];
	site->live_blocks--;
	site->live_bytes -= what->size;
	if (was_temporary) {
		site->temporary_blocks++;
		site->temporary_bytes += what->size;
	}
}

/* A signal handler that interrupted a sample must not wait for the lock of its own thread. */
static bool enter(void)
{
	if (sampler_own_thread()->is_sampling)
		return false;
	sampler_own_thread()->is_sampling = true;
	lock();
	if (has_memory())
		return true;
	(void)unlock();
	sampler_own_thread()->is_sampling = false;
	return false;
}

static bool leave(void)
{
	const bool has_waiter = unlock();

	sampler_own_thread()->is_sampling = false;
	return has_waiter;
}

/* Draws anew after a switch; false when the block is not to be sampled. */
static bool begin_epoch(struct sampler_thread *thread, uint32_t epoch, size_t size)
{
	/* The distance has no memory: a new one is as good as the rest of the old one. */
	thread->epoch = epoch;
	set_countdown(thread, atomic_load(&sampler.is_active) && !thread->is_left_out
				      ? draw_distance(thread)
				      : INT64_MAX);
	/* The block was counted by the old one. */
	thread->countdown -= (int64_t)size;
	thread->drawn -= (int64_t)size;
	return thread->countdown < 0;
}

/* The functions that count, where one may be called by another one; else empty. */
static struct {
	_Atomic uintptr_t begin, end;
} entry_code;

void sampler_set_entry_code(uintptr_t begin, uintptr_t end)
{
	atomic_store(&entry_code.begin, begin);
	atomic_store(&entry_code.end, end);
}

static bool is_entry_code(const void *address)
{
	const uintptr_t at = (uintptr_t)address;

	return at >= atomic_load_explicit(&entry_code.begin, memory_order_relaxed) &&
	       at < atomic_load_explicit(&entry_code.end, memory_order_relaxed);
}

/* Where the program's frames begin: behind the outermost function that counts. */
static unsigned skip_own_frames(void *const *frames, unsigned count, const void *caller)
{
	unsigned first = 0;

	for (unsigned i = 0; i < count && i < OWN_FRAMES_MAX; i++) {
		if (frames[i] == caller) {
			first = i;
			break;
		}
	}
	for (unsigned i = first; i < count && i < first + NESTED_FRAMES_MAX; i++) {
		if (is_entry_code(frames[i]))
			first = i + 1;
	}
	return first;
}

/* The program's part of the stack; returns how many frames, from `*first` on. */
static unsigned take_frames(void **frames, unsigned max, const void *caller, unsigned *first)
{
	sampler_backtrace *const backtrace = sampler_get_backtrace();
	unsigned count = 0;

	if (backtrace != NULL)
		backtrace(frames, &count, max);
	*first = skip_own_frames(frames, count, caller);
	count -= *first;
	return count < SITE_FRAMES_MAX ? count : SITE_FRAMES_MAX;
}

static void take(const void *block, size_t size, const void *caller)
{
	void *frames[SITE_FRAMES_MAX + OWN_FRAMES_MAX];
	unsigned first = 0;
	struct live_block stale;

	const unsigned count =
		take_frames(frames, SITE_FRAMES_MAX + OWN_FRAMES_MAX, caller, &first);
	if (!enter())
		return;
	/* A free() that bypassed the entries left it behind. */
	if (live_set_remove(&sampler_live, block, &stale))
		forget(&stale, false);
	record(block, size, NULL, frames + first, count);
	leave();
	trace_sample(block, size);
}

/* After `size` bytes were counted down: whether a sampling point is among them. */
static bool has_point(struct sampler_thread *thread, size_t size)
{
	const uint32_t epoch = atomic_load(&sampler_epoch);

	return thread->epoch == epoch ? thread->countdown < 0 : begin_epoch(thread, epoch, size);
}

__attribute__((noinline)) void sampler_take(const void *block, size_t size, const void *caller)
{
	struct sampler_thread *const thread = sampler_own_thread();
	const int error_number = errno;

	if (has_point(thread, size)) {
		set_countdown(thread, draw_distance(thread));
		take(block, size, caller);
	}
	errno = error_number;
}

/*
 * What is left of a mapping when a part is unmapped: as if it had been mapped by itself. Its
 * sampling points are those that were in it. Only the first point of a mapping is known; the
 * distances behind it have no memory and can be drawn now.
 */
static void keep_part(
	struct mapped_range part, uintptr_t begin, uintptr_t end, void *const *frames, size_t count)
{
	part.begin = begin;
	part.end = end;
	part.what.size = end - begin;
	if (part.point < begin)
		part.point = begin + (uintptr_t)draw_distance(sampler_own_thread());
	if (part.point >= end)
		return;
	if (find_site(&part.what, frames, count) && mapped_set_add(&sampler.mapped, &part))
		add_live(&part.what);
	else
		sampler.dropped++;
}

/* [begin, end) is taken out of the range. Its site may move when the parts get theirs. */
static void cut(const struct mapped_range *range, uintptr_t begin, uintptr_t end)
{
	void *frames[SITE_FRAMES_MAX];

	if (range->what.generation != sampler.generation)
		return;
	const struct site *const site = &sampler.sites.sites[range->what.site];
	const size_t count = site->frame_count;
	memcpy(frames, sampler.sites.frames + site->frames, count * sizeof *frames);
	const bool is_whole = range->begin >= begin && range->end <= end;
	forget(&range->what, is_whole && is_temporary(&range->what));
	if (range->begin < begin)
		keep_part(*range, range->begin, begin, frames, count);
	if (range->end > end)
		keep_part(*range, end, range->end, frames, count);
}

/* Of the mappings up to `serial`. */
static void cut_all(uintptr_t begin, uintptr_t end, uint64_t serial)
{
	struct mapped_range range;

	while (mapped_set_take(&sampler.mapped, begin, end, serial, &range))
		cut(&range, begin, end);
}

static void take_mapped(struct mapped_range *range, const void *caller, const void *function)
{
	void *frames[SITE_FRAMES_MAX + OWN_FRAMES_MAX + 1];
	unsigned first = 0;

	/* The function itself is the innermost frame: it tells mappings from blocks. */
	unsigned count = take_frames(frames + 1, SITE_FRAMES_MAX + OWN_FRAMES_MAX, caller, &first);
	count = count < SITE_FRAMES_MAX ? count + 1 : count;
	frames[first] = (char *)(uintptr_t)function + 1;
	if (!enter())
		return;
	range->serial = atomic_fetch_add(&sampler.mapped_serial, 1) + 1;
	/* An end that bypassed the entries left it behind. */
	cut_all(range->begin, range->end, range->serial);
	record(NULL, range->end - range->begin, range, frames + first, count);
	leave();
	trace_sample((const void *)range->begin, range->end - range->begin);
}

void sampler_count_mapped(const void *begin, size_t size, const void *caller, const void *function)
{
	struct sampler_thread *const thread = sampler_own_thread();
	const int error_number = errno;

	thread->countdown -= (int64_t)size;
	if (has_point(thread, size)) {
		const uintptr_t end = (uintptr_t)begin + size;
		struct mapped_range range = { .begin = (uintptr_t)begin,
			.end = end,
			.point = end - (uintptr_t)-thread->countdown };
		set_countdown(thread, draw_distance(thread));
		take_mapped(&range, caller, function);
	}
	errno = error_number;
}

uint64_t sampler_mapped_serial(void)
{
	return atomic_load(&sampler.mapped_serial);
}

void sampler_forget_mapped(const void *begin, size_t size, uint64_t serial)
{
	const int error_number = errno;

	if (has_memory() && enter()) {
		cut_all((uintptr_t)begin, (uintptr_t)begin + size, serial);
		leave();
	}
	errno = error_number;
}

bool sampler_suspend(const void *block, struct live_block *was)
{
	const int error_number = errno;

	if (!enter())
		return false;
	const bool found = live_set_remove(&sampler_live, block, was);
	leave();
	errno = error_number;
	return found;
}

void sampler_finish(const void *block, const struct live_block *was)
{
	const int error_number = errno;

	DTRACE_PROBE1(otel_memory, free, block);
	const bool was_temporary = is_temporary(was);
	if (enter()) {
		forget(was, was_temporary);
		leave();
	}
	errno = error_number;
}

void sampler_resume(const void *block, const struct live_block *was)
{
	const int error_number = errno;

	if (enter()) {
		if (was->generation == sampler.generation &&
			!live_set_add(&sampler_live, block, *was))
			forget(was, false);
		leave();
	}
	errno = error_number;
}

__attribute__((noinline)) void sampler_release(const void *block)
{
	struct live_block was;

	if (sampler_suspend(block, &was))
		sampler_finish(block, &was);
}

void sampler_reset(uint64_t interval)
{
	if (!enter())
		return;
	if (interval != 0) {
		atomic_store(&sampler.interval, interval);
		atomic_fetch_add(&sampler_epoch, 1);
	}
	live_set_clear(&sampler_live);
	mapped_set_clear(&sampler.mapped);
	site_table_clear(&sampler.sites);
	sampler.layout++;
	sampler.generation++;
	sampler.samples = 0;
	sampler.dropped = 0;
	sampler.compact_at = 0;
	begin_samples();
	leave();
}

void sampler_trim(void)
{
	if (!enter())
		return;
	live_set_trim(&sampler_live);
	leave();
}

void sampler_shrink(void)
{
	if (!enter())
		return;
	if (sampler_live.count + sampler.mapped.count == 0) {
		live_set_shrink(&sampler_live);
		mapped_set_deinit(&sampler.mapped);
		site_table_deinit(&sampler.sites);
		sampler.layout++;
	}
	leave();
}

void sampler_get_figures(struct sampler_figures *figures)
{
	*figures = (struct sampler_figures){ .interval = atomic_load(&sampler.interval),
		.since_ms = atomic_load(&sampler.since_ms) };
	if (!enter())
		return;
	figures->samples = sampler.samples;
	figures->dropped = sampler.dropped;
	figures->live_blocks = sampler_live.count + sampler.mapped.count;
	figures->sites = sampler.sites.count;
	figures->mapped_bytes = live_set_bytes(&sampler_live) + mapped_set_bytes(&sampler.mapped) +
				site_table_bytes(&sampler.sites);
	leave();
}

static void write_counters(struct buffer *out, const struct site *site)
{
	buffer_printf(out, "  t*: %llu: %llu [%llu: %llu]\n", (unsigned long long)site->live_blocks,
		(unsigned long long)site->live_bytes, (unsigned long long)site->all_blocks,
		(unsigned long long)site->all_bytes);
}

static void write_temporary(struct buffer *out, const struct site *site)
{
	buffer_printf(out, "#temporary %llu: %llu\n", (unsigned long long)site->temporary_blocks,
		(unsigned long long)site->temporary_bytes);
}

struct site_copy {
	struct site *sites;
	uintptr_t *frames;
	size_t count, frame_count;
	size_t bytes;
	uint32_t layout;
};

static void site_copy_cleanup(struct site_copy *copy)
{
	memory_resize(&memory_pages, copy->sites, copy->bytes, 0);
}

/* Room for the sites that there are now; those that follow are left out. */
static bool begin_copy(struct site_copy *copy)
{
	if (!enter())
		return false;
	copy->count = sampler.sites.count;
	copy->frame_count = sampler.sites.frame_count;
	copy->layout = sampler.layout;
	leave();
	/* A word more: no size is 0. */
	copy->bytes =
		copy->count * sizeof *copy->sites + (copy->frame_count + 1) * sizeof *copy->frames;
	copy->sites = memory_resize(&memory_pages, NULL, 0, copy->bytes);
	copy->frames = __extension__(uintptr_t *)(copy->sites + copy->count);
	return copy->sites != NULL;
}

/* Lets a thread that waits for the lock have it first: to wake up takes it longer than a piece. */
static void let_others_in(void)
{
	const struct timespec nap = { .tv_nsec = 20 * 1000 };
	const uint32_t turn = atomic_load_explicit(&sampler.turns, memory_order_relaxed);

	for (unsigned i = 0; i < 50; i++) {
		nanosleep(&nap, NULL);
		if (atomic_load_explicit(&sampler.turns, memory_order_relaxed) != turn)
			return;
	}
}

/*
 * Copies `bytes` of one of the arrays of sampler.sites in pieces, each under the lock, so that an
 * allocation waits for a microsecond. False when the sites have other numbers by now.
 */
static bool copy_pieces(
	const struct site_copy *copy, size_t piece, void *to, void *const *array, size_t bytes)
{
	for (size_t at = 0; at < bytes; at += piece) {
		const size_t length = bytes - at < piece ? bytes - at : piece;

		/* The kernel provides the pages now, not under the lock. */
		memset((char *)to + at, 0, length);
		if (!enter())
			return false;
		const bool is_valid = sampler.layout == copy->layout;
		if (is_valid)
			memcpy((char *)to + at, (const char *)*array + at, length);
		if (leave())
			let_others_in();
		if (!is_valid)
			return false;
	}
	return true;
}

/*
 * All sites, with their frames. A stack's frames do not change, and the counters of a site fit each
 * other. Where the numbers change again and again, the pieces become larger. False without memory.
 */
static bool copy_sites(struct site_copy *copy)
{
	enum { PIECE_FIRST = 4 * 1024 };

	for (size_t piece = PIECE_FIRST;; piece *= 2) {
		if (!begin_copy(copy))
			return false;
		if (copy_pieces(copy, piece, copy->frames,
			    __extension__(void *const *) & sampler.sites.frames,
			    copy->frame_count * sizeof *copy->frames) &&
			copy_pieces(copy, piece, copy->sites,
				__extension__(void *const *) & sampler.sites.sites,
				copy->count * sizeof *copy->sites))
			return true;
		site_copy_cleanup(copy);
		*copy = (struct site_copy){ 0 };
	}
}

bool sampler_write(struct buffer *out)
{
	CLEANUP(site_copy_cleanup) struct site_copy copy = { 0 };
	struct site total = { 0 };

	if (!has_memory() || !copy_sites(&copy))
		return false;
	for (size_t i = 0; i < copy.count; i++) {
		total.live_blocks += copy.sites[i].live_blocks;
		total.live_bytes += copy.sites[i].live_bytes;
		total.all_blocks += copy.sites[i].all_blocks;
		total.all_bytes += copy.sites[i].all_bytes;
		total.temporary_blocks += copy.sites[i].temporary_blocks;
		total.temporary_bytes += copy.sites[i].temporary_bytes;
	}
	buffer_printf(out, "heap_v2/%llu\n", (unsigned long long)atomic_load(&sampler.interval));
	write_counters(out, &total);
	write_temporary(out, &total);
	for (size_t i = 0; i < copy.count; i++) {
		const struct site *const site = &copy.sites[i];
		buffer_append_char(out, '@');
		for (size_t k = 0; k < site->frame_count; k++)
			buffer_printf(
				out, " 0x%llx", (unsigned long long)copy.frames[site->frames + k]);
		buffer_append_char(out, '\n');
		write_counters(out, site);
		if (site->temporary_blocks > 0)
			write_temporary(out, site);
	}
	return !out->failed;
}
