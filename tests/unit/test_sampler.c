/* SPDX-License-Identifier: Apache-2.0 */
/* The sampler's law and its figures, on blocks that are numbers. */
#include "sampler/sampler.h"

#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "sampler/site_table.h"
#include "unit.h"
#include "unwind/backtrace.h"

enum { INTERVAL = 4096 };

static void *stack[SITE_FRAMES_MAX];
static unsigned stack_size;

static void take_stack(void **addresses, unsigned *count, unsigned max)
{
	errno = EDOM;
	*count = stack_size < max ? stack_size : max;
	memcpy(addresses, stack, *count * sizeof *addresses);
}

static void *block_at(size_t number)
{
	return (void *)(UINT64_C(0x7f0000000000) + number * 16);
}

static int set_up(void **state)
{
	struct error err;

	(void)state;
	stack_size = 2;
	stack[0] = (void *)0x1000;
	stack[1] = (void *)0x2000;
	assert_true(sampler_init(&err));
	sampler_set_backtrace(take_stack);
	sampler_reset(INTERVAL);
	sampler_set_active(true);
	return 0;
}

static struct sampler_figures figures(void)
{
	struct sampler_figures now;

	sampler_get_figures(&now);
	return now;
}

/*
 * Of n blocks of z bytes, those sampled are binomial with p = 1 - exp(-z / interval). Six standard
 * deviations are exceeded once in five hundred million runs.
 */
static void check_share(size_t size, size_t count)
{
	const double share = -expm1(-(double)size / INTERVAL);

	sampler_reset(INTERVAL);
	for (size_t i = 0; i < count; i++)
		sampler_count(block_at(i), size);
	const double expected = share * (double)count;
	const double deviation = sqrt(expected * (1 - share));
	assert_true(fabs((double)figures().samples - expected) <= 6 * deviation + 1);
}

static void a_block_is_sampled_with_the_probability_of_its_size(void **state)
{
	(void)state;
	check_share(1, 2000000);
	check_share(16, 1000000);
	check_share(1000, 200000);
	check_share(INTERVAL, 100000);
	check_share(10 * INTERVAL, 100000);
}

static void small_intervals_sample_everything(void **state)
{
	(void)state;
	sampler_reset(1);
	/* A distance of 64 intervals comes once in 10^28. */
	for (size_t i = 0; i < 1000; i++)
		sampler_count(block_at(i), 64);
	assert_int_equal(figures().samples, 1000);
}

static void *count_some(void *context)
{
	(void)context;
	for (size_t i = 0; i < 10; i++)
		sampler_count(block_at(i), 100);
	return NULL;
}

/* Threads that allocate little must be sampled as often as others, or servers with many would be.
 */
static void the_first_distance_of_a_thread_is_drawn(void **state)
{
	(void)state;
	const int threads = 4000;
	for (int i = 0; i < threads; i++) {
		pthread_t thread;
		assert_int_equal(pthread_create(&thread, NULL, count_some, NULL), 0);
		pthread_join(thread, NULL);
	}
	const double share = -expm1(-100.0 / INTERVAL);
	const double expected = share * threads * 10;
	assert_true(fabs((double)figures().samples - expected) <= 6 * sqrt(expected * (1 - share)));
}

static void what_is_freed_is_forgotten(void **state)
{
	(void)state;
	sampler_reset(1);
	for (size_t i = 0; i < 1000; i++)
		sampler_count(block_at(i), 64);
	for (size_t i = 0; i < 1000; i += 2)
		sampler_forget(block_at(i));
	assert_int_equal(figures().live_blocks, 500);
	/* Off: nothing is added, and what was sampled is still forgotten. */
	sampler_set_active(false);
	for (size_t i = 1; i < 1000; i += 2) {
		sampler_forget(block_at(i));
		sampler_count(block_at(i), 64);
	}
	assert_int_equal(figures().live_blocks, 0);
	assert_int_equal(figures().samples, 1000);
}

/* "#temporary 3: 192" behind the first line of counters: of all sites. */
static void check_temporary(unsigned long long blocks, unsigned long long bytes)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	unsigned long long found_blocks = 0, found_bytes = 0;

	buffer_init(&text, &memory_pages);
	assert_true(sampler_write(&text));
	const char *const line = strstr(buffer_string(&text), "\n#temporary ");
	assert_non_null(line);
	assert_int_equal(sscanf(line, "\n#temporary %llu: %llu\n", &found_blocks, &found_bytes), 2);
	assert_int_equal(found_blocks, blocks);
	assert_int_equal(found_bytes, bytes);
}

static void pass_time(void)
{
	const struct timespec delay = { .tv_nsec = (SAMPLER_TEMPORARY_MS + 2) * 1000000 };

	nanosleep(&delay, NULL);
}

static void *forget_some(void *context)
{
	const size_t *const range = context;

	for (size_t i = range[0]; i < range[1]; i++)
		sampler_forget(block_at(i));
	return NULL;
}

static void what_is_freed_soon_is_temporary(void **state)
{
	size_t range[2] = { 10, 20 };
	pthread_t thread;

	(void)state;
	sampler_reset(1);
	for (size_t i = 0; i < 40; i++)
		sampler_count(block_at(i), 1000);
	pass_time();
	/* The thread has allocated little since. */
	for (size_t i = 0; i < 10; i++)
		sampler_forget(block_at(i));
	check_temporary(10, 10000);
	/* Allocations of another thread do not count. */
	assert_int_equal(pthread_create(&thread, NULL, forget_some, range), 0);
	pthread_join(thread, NULL);
	check_temporary(10, 10000);
	/* Not after 1 MiB, and some time. */
	sampler_count(block_at(100), SAMPLER_TEMPORARY_BYTES);
	for (size_t i = 20; i < 30; i++)
		sampler_forget(block_at(i));
	check_temporary(10, 10000);
	/* Within 10 ms, whatever was allocated since; the clock may have gone on by 10 ms. */
	sampler_count(block_at(200), 1000);
	sampler_count(block_at(201), 10 * SAMPLER_TEMPORARY_BYTES);
	const int64_t begin_ms = clock_monotonic_ms();
	sampler_forget(block_at(200));
	if (clock_monotonic_ms() - begin_ms < SAMPLER_TEMPORARY_MS / 2)
		check_temporary(11, 11000);
}

/* Off and on again, the thread draws a new distance and must not lose what it has allocated. */
static void switching_keeps_what_a_thread_has_allocated(void **state)
{
	(void)state;
	sampler_reset(1);
	sampler_count(block_at(0), 1000);
	sampler_count(block_at(1), SAMPLER_TEMPORARY_BYTES / 2);
	sampler_set_active(false);
	sampler_count(block_at(2), SAMPLER_TEMPORARY_BYTES / 2);
	sampler_set_active(true);
	sampler_count(block_at(3), 2048);
	pass_time();
	sampler_forget(block_at(0));
	sampler_forget(block_at(3));
	check_temporary(1, 2048);
	sampler_reset(0);
	check_temporary(0, 0);
}

static void an_address_that_was_freed_unseen_counts_once(void **state)
{
	(void)state;
	sampler_reset(1);
	for (int i = 0; i < 10; i++)
		sampler_count(block_at(1), 64);
	assert_int_equal(figures().live_blocks, 1);
	assert_int_equal(figures().samples, 10);
}

static void a_reset_between_suspending_and_resuming_is_harmless(void **state)
{
	struct live_block was;

	(void)state;
	sampler_reset(1);
	sampler_count(block_at(1), 64);
	assert_true(sampler_suspend(block_at(1), &was));
	assert_int_equal(figures().live_blocks, 0);
	sampler_resume(block_at(1), &was);
	assert_int_equal(figures().live_blocks, 1);
	assert_true(sampler_suspend(block_at(1), &was));
	sampler_reset(0);
	sampler_resume(block_at(1), &was);
	sampler_finish(block_at(1), &was);
	assert_int_equal(figures().live_blocks, 0);
	assert_int_equal(figures().sites, 0);
}

static void errno_is_kept(void **state)
{
	(void)state;
	sampler_reset(1);
	errno = ENOENT;
	sampler_count(block_at(1), 64);
	sampler_forget(block_at(1));
	assert_int_equal(errno, ENOENT);
}

static void the_profile_has_a_line_for_each_stack_and_size(void **state)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };

	(void)state;
	buffer_init(&text, &memory_heap);
	sampler_reset(1);
	sampler_count(block_at(1), 1000);
	sampler_count(block_at(2), 1000);
	sampler_count(block_at(3), 5000);
	stack_size = 0;
	sampler_count(block_at(4), 64);
	sampler_forget(block_at(2));
	assert_true(sampler_write(&text));
	assert_string_equal(buffer_string(&text), "heap_v2/1\n"
						  "  t*: 3: 6064 [4: 7064]\n"
						  "#temporary 1: 1000\n"
						  "@ 0x1000 0x2000\n"
						  "  t*: 1: 1000 [2: 2000]\n"
						  "#temporary 1: 1000\n"
						  "@ 0x1000 0x2000\n"
						  "  t*: 1: 5000 [1: 5000]\n"
						  "@\n"
						  "  t*: 1: 64 [1: 64]\n");
}

static __attribute__((noinline)) void entry(void *block)
{
	stack[0] = (void *)0x1000;
	stack[1] = (void *)0x2000;
	stack[2] = __builtin_return_address(0);
	stack[3] = (void *)0x3000;
	stack_size = 4;
	sampler_count(block, 64);
	__asm__ volatile("");
}

static void the_stack_begins_at_the_caller_of_the_entry(void **state)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	char wanted[64];

	(void)state;
	buffer_init(&text, &memory_heap);
	sampler_reset(1);
	entry(block_at(1));
	snprintf(wanted, sizeof wanted, "\n@ %p 0x3000\n", stack[2]);
	assert_true(sampler_write(&text));
	assert_contains(buffer_string(&text), wanted);
}

/* What was allocated and freed at sites beyond the limit stays in the totals. */
static void sites_without_blocks_make_room_at_the_limit(void **state)
{
	const size_t count = 200000;

	(void)state;
	sampler_reset(1);
	stack_size = SITE_FRAMES_MAX;
	for (size_t i = 0; i < count; i++) {
		stack[0] = (void *)(i + 1);
		sampler_count(block_at(i), 64);
		if (i % 1000 != 0)
			sampler_forget(block_at(i));
	}
	const struct sampler_figures now = figures();
	assert_int_equal(now.dropped, 0);
	assert_int_equal(now.live_blocks, count / 1000);
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	buffer_init(&text, &memory_heap);
	assert_true(sampler_write(&text));
	assert_contains(buffer_string(&text), "  t*: 200: 12800 [200000: 12800000]\n");
	for (size_t i = 0; i < count; i += 1000)
		sampler_forget(block_at(i));
	assert_int_equal(figures().live_blocks, 0);
}

static void beyond_the_limit_samples_are_dropped_and_counted(void **state)
{
	(void)state;
	sampler_reset(1);
	stack_size = SITE_FRAMES_MAX;
	for (size_t i = 0; i < 100000; i++) {
		stack[0] = (void *)(i + 1);
		sampler_count(block_at(i), 64);
	}
	const struct sampler_figures now = figures();
	assert_true(now.dropped > 0);
	assert_int_equal(now.samples, 100000);
	assert_int_equal(now.live_blocks, now.samples - now.dropped);
	assert_true(now.mapped_bytes < 2 * (size_t)SAMPLER_MEMORY_MAX);
}

enum { NUMBERED_STACKS = 5000 };

static _Thread_local size_t stack_number;

static unsigned count_frames(size_t number)
{
	return 10 + (unsigned)number % 11;
}

/* All of its frames have its number. */
static void take_numbered_stack(void **addresses, unsigned *count, unsigned max)
{
	*count = count_frames(stack_number);
	assert_true(*count <= max);
	for (unsigned i = 0; i < *count; i++)
		addresses[i] = (void *)(((uintptr_t)i + 1) << 32 | stack_number);
}

static _Atomic bool is_done;

static void *allocate_everywhere(void *argument)
{
	for (size_t i = 1; !atomic_load(&is_done); i++) {
		if (i % (3777) == 0)
			sampler_reset(1);
		stack_number = i % NUMBERED_STACKS;
		sampler_forget(block_at(i % (2 * NUMBERED_STACKS)));
		sampler_count(block_at(i % (2 * NUMBERED_STACKS)), 64);
	}
	return argument;
}

/* Adds the counters of the sites, whose stacks are whole. */
static void read_sites(const char *text, unsigned long long sum[4])
{
	unsigned long long counters[4];

	for (const char *at = strstr(text, "\n@ "); at != NULL; at = strstr(at + 1, "\n@ ")) {
		char *frame = (char *)(uintptr_t)at + 2;
		unsigned long long number = 0;
		for (unsigned i = 0; i == 0 || i < count_frames(number); i++) {
			const unsigned long long address = strtoull(frame, &frame, 16);
			assert_int_equal(address >> 32, i + 1);
			number = i == 0 ? address & UINT32_MAX : number;
			assert_int_equal(address & UINT32_MAX, number);
		}
		/* sscanf() measures the text to its end first. */
		char line[128];
		snprintf(line, sizeof line, "%.*s", (int)sizeof line - 1, frame);
		assert_int_equal(sscanf(line, "\n t*: %llu: %llu [%llu: %llu]", &counters[0],
					 &counters[1], &counters[2], &counters[3]),
			4);
		for (unsigned i = 0; i < 4; i++)
			sum[i] += counters[i];
	}
}

static void a_profile_is_whole_while_samples_and_resets_continue(void **state)
{
	pthread_t thread;

	(void)state;
	sampler_reset(1);
	sampler_set_backtrace(take_numbered_stack);
	assert_int_equal(pthread_create(&thread, NULL, allocate_everywhere, NULL), 0);
	for (int turn = 0; turn < 100; turn++) {
		CLEANUP(buffer_deinit) struct buffer text = { 0 };
		unsigned long long total[4], sum[4] = { 0 };
		buffer_init(&text, &memory_heap);
		assert_true(sampler_write(&text));
		assert_int_equal(
			sscanf(buffer_string(&text), "heap_v2/1 t*: %llu: %llu [%llu: %llu]",
				&total[0], &total[1], &total[2], &total[3]),
			4);
		read_sites(buffer_string(&text), sum);
		assert_memory_equal(sum, total, sizeof sum);
	}
	atomic_store(&is_done, true);
	pthread_join(thread, NULL);
}

static void size_classes_are_an_eighth_apart(void **state)
{
	(void)state;
	assert_int_not_equal(site_size_class(15), site_size_class(16));
	uint64_t first = 16;
	for (uint64_t size = 17; size < 1000000; size++) {
		if (site_size_class(size) == site_size_class(first))
			continue;
		assert_int_equal(site_size_class(size), site_size_class(first) + 1);
		assert_true(size - first <= first / 8);
		first = size;
	}
	assert_true(site_size_class(UINT64_MAX) > site_size_class(UINT64_MAX / 2));
}

enum { PAGE = 4096, PAGES = 64 };

static const char *const mapped_at = (const char *)UINT64_C(0x7e0000000000);

/* As the functions that are replaced: what was there before ends. */
static void map_pages(size_t first, size_t count)
{
	sampler_forget_mapped(mapped_at + first * PAGE, count * PAGE, sampler_mapped_serial());
	sampler_count_mapped(mapped_at + first * PAGE, count * PAGE, stack[0],
		__extension__(const void *) take_stack);
}

static void unmap_pages(size_t first, size_t count)
{
	sampler_forget_mapped(mapped_at + first * PAGE, count * PAGE, sampler_mapped_serial());
}

static unsigned long long read_live_bytes(void)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };
	unsigned long long blocks = 0, bytes = 0;

	buffer_init(&text, &memory_heap);
	assert_true(sampler_write(&text));
	assert_int_equal(
		sscanf(buffer_string(&text), "heap_v2/%*u t*: %llu: %llu", &blocks, &bytes), 2);
	return bytes;
}

/* With an interval of one byte every page has a sampling point. */
static void mappings_end_page_by_page(void **state)
{
	bool is_mapped[PAGES] = { false };

	(void)state;
	sampler_reset(1);
	srandom(15);
	for (int turn = 0; turn < 3000; turn++) {
		const size_t first = (size_t)random() % PAGES;
		const size_t count = 1 + (size_t)random() % (PAGES - first);
		const bool maps = random() % 4 == 0;
		unsigned long long wanted = 0;
		if (maps)
			map_pages(first, count);
		else
			unmap_pages(first, count);
		for (size_t page = first; page < first + count; page++)
			is_mapped[page] = maps;
		for (size_t page = 0; page < PAGES; page++)
			wanted += is_mapped[page] ? PAGE : 0;
		assert_int_equal(read_live_bytes(), wanted);
	}
	unmap_pages(0, PAGES);
	assert_int_equal(figures().live_blocks, 0);
	assert_int_equal(figures().dropped, 0);
}

/* How often [first, first + count) is still a sample after all around it was unmapped. */
static void check_part(size_t first, size_t count)
{
	const int turns = 5000;
	unsigned long long bytes = 0;

	for (int turn = 0; turn < turns; turn++) {
		map_pages(0, PAGES);
		/* In two steps, from the inside out. */
		if (first + count < PAGES) {
			unmap_pages(first + count, 1);
			unmap_pages(first + count, PAGES - first - count);
		}
		unmap_pages(0, first);
		bytes += read_live_bytes();
	}
	const double share = -expm1(-(double)(count * PAGE) / (16 * PAGE));
	const double expected = share * turns;
	assert_true(fabs((double)bytes / (double)(count * PAGE) - expected) <=
		    6 * sqrt(expected * (1 - share)));
}

static void a_part_is_sampled_with_the_probability_of_its_size(void **state)
{
	(void)state;
	sampler_reset(16 * PAGE);
	check_part(0, 4);
	check_part(30, 4);
	check_part(60, 4);
	check_part(16, 32);
}

/* Another thread may have mapped the address before the first one comes back from munmap. */
static void a_mapping_that_follows_at_the_address_stays(void **state)
{
	(void)state;
	sampler_reset(1);
	map_pages(0, 4);
	const uint64_t before_call = sampler_mapped_serial();
	map_pages(0, 4);
	sampler_forget_mapped(mapped_at, 4 * PAGE, before_call);
	assert_int_equal(read_live_bytes(), 4 * PAGE);
}

static void mappings_and_blocks_share_a_profile(void **state)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };

	(void)state;
	sampler_reset(1);
	sampler_count(block_at(0), PAGE);
	map_pages(0, 1);
	buffer_init(&text, &memory_heap);
	assert_true(sampler_write(&text));
	assert_int_equal(read_live_bytes(), 2 * PAGE);
	/* The function that was called is the innermost frame. */
	char function[40];
	snprintf(function, sizeof function, "@ 0x%zx 0x1000 0x2000\n", (size_t)take_stack + 1);
	assert_non_null(strstr(buffer_string(&text), function));
	assert_non_null(strstr(buffer_string(&text), "@ 0x1000 0x2000\n"));
	sampler_reset(0);
	assert_int_equal(read_live_bytes(), 0);
	unmap_pages(0, 1);
	assert_int_equal(read_live_bytes(), 0);
}

static struct unwind_modules modules;
static struct unwind_cache cache;
static _Atomic bool is_storm_over;

/* As the agent's. */
static void take_real_stack(void **addresses, unsigned *count, unsigned max)
{
	struct unwind_frame here = { 0 };

	UNWIND_HERE(&here);
	*count = (unsigned)unwind_backtrace(&modules, &cache, &here, addresses, max);
}

static void allocate_and_free(size_t first)
{
	for (size_t i = 0; i < 200; i++)
		sampler_count(block_at(first + i), 100);
	for (size_t i = 0; i < 200; i++)
		sampler_forget(block_at(first + i));
	map_pages(first % PAGES, 1);
	unmap_pages(first % PAGES, 1);
}

static void *storm(void *context)
{
	while (!atomic_load(&is_storm_over))
		allocate_and_free((size_t)context * 1000);
	return NULL;
}

/* The threads of the parent are gone, in the middle of whatever they did. */
static bool is_child_sound(void)
{
	struct buffer text = { 0 };

	unwind_modules_after_fork(&modules);
	sampler_after_fork();
	allocate_and_free(100000);
	const uint64_t before = figures().samples;
	sampler_count(block_at(200000), 1000 * INTERVAL);
	buffer_init(&text, &memory_pages);
	return figures().samples == before + 1 && sampler_write(&text);
}

static void fork_soundly(void)
{
	int status = -1;
	const pid_t child = fork();

	if (child == 0)
		_exit(is_child_sound() ? 7 : 8);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 7 << 8);
}

static void check_storm(bool forks)
{
	enum { THREADS = 3, ROUNDS = 40 };
	pthread_t threads[THREADS];
	struct error err;

	void *const probe = dlopen("libresolv.so.2", RTLD_NOW);
	if (probe == NULL)
		skip_because("the C library has no libresolv.so.2 to load");
	dlclose(probe);
	atomic_store(&is_storm_over, false);
	sampler_reset(256);
	sampler_set_backtrace(take_real_stack);
	for (size_t i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, storm, (void *)i), 0);
	for (int i = 0; i < ROUNDS; i++) {
		CLEANUP(buffer_deinit) struct buffer text = { 0 };
		bool changed = false;
		void *const library = dlopen("libresolv.so.2", RTLD_NOW);
		assert_non_null(library);
		assert_true(unwind_modules_update(&modules, &changed, &err));
		if (forks)
			fork_soundly();
		dlclose(library);
		assert_true(unwind_modules_update(&modules, &changed, &err));
		buffer_init(&text, &memory_heap);
		assert_true(sampler_write(&text));
	}
	atomic_store(&is_storm_over, true);
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(figures().live_blocks, 0);
	unwind_modules_deinit(&modules);
}

static void samples_withstand_libraries(void **state)
{
	(void)state;
	check_storm(false);
}

static void samples_withstand_forks_and_libraries(void **state)
{
	(void)state;
	/* The lock lies in a page that is empty in a new child. */
	if (unit_is_emulated())
		skip_because("the emulator ignores MADV_WIPEONFORK");
	check_storm(true);
}

static const struct CMUnitTest tests[] = {
	cmocka_unit_test_setup(a_block_is_sampled_with_the_probability_of_its_size, set_up),
	cmocka_unit_test_setup(small_intervals_sample_everything, set_up),
	cmocka_unit_test_setup(the_first_distance_of_a_thread_is_drawn, set_up),
	cmocka_unit_test_setup(what_is_freed_is_forgotten, set_up),
	cmocka_unit_test_setup(what_is_freed_soon_is_temporary, set_up),
	cmocka_unit_test_setup(switching_keeps_what_a_thread_has_allocated, set_up),
	cmocka_unit_test_setup(an_address_that_was_freed_unseen_counts_once, set_up),
	cmocka_unit_test_setup(a_reset_between_suspending_and_resuming_is_harmless, set_up),
	cmocka_unit_test_setup(errno_is_kept, set_up),
	cmocka_unit_test_setup(the_profile_has_a_line_for_each_stack_and_size, set_up),
	cmocka_unit_test_setup(the_stack_begins_at_the_caller_of_the_entry, set_up),
	cmocka_unit_test_setup(sites_without_blocks_make_room_at_the_limit, set_up),
	cmocka_unit_test_setup(beyond_the_limit_samples_are_dropped_and_counted, set_up),
	cmocka_unit_test_setup(a_profile_is_whole_while_samples_and_resets_continue, set_up),
	cmocka_unit_test_setup(mappings_end_page_by_page, set_up),
	cmocka_unit_test_setup(a_part_is_sampled_with_the_probability_of_its_size, set_up),
	cmocka_unit_test_setup(a_mapping_that_follows_at_the_address_stays, set_up),
	cmocka_unit_test_setup(mappings_and_blocks_share_a_profile, set_up),
	cmocka_unit_test_setup(samples_withstand_libraries, set_up),
	cmocka_unit_test_setup(samples_withstand_forks_and_libraries, set_up),
	cmocka_unit_test(size_classes_are_an_eighth_apart),
};

UNIT_MAIN(tests)
