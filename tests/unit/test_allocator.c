/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator/allocator.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "allocator_fake.h"
#include "failing_memory.h"
#include "unit.h"

static struct allocator_fake fake;

static int set_up(void **state)
{
	(void)state;
	allocator_fake_init(&fake);
	return 0;
}

static void switches_sampling_and_says_what_was(void **state)
{
	(void)state;
	struct error err;
	bool active = true, was = true;

	assert_true(allocator_active_set(&fake.allocator, true, &was, &err));
	assert_false(was);
	assert_true(allocator_active_get(&fake.allocator, &active, &err));
	assert_true(active);
	assert_true(allocator_active_set(&fake.allocator, false, NULL, &err));
}

static void dumps_into_a_descriptor(void **state)
{
	(void)state;
	struct error err;
	char text[64] = "";
	CLEANUP(fd_cleanup) const int fd = memfd_create("test", MFD_CLOEXEC);

	fake.profile = "heap_v2/1\n";
	assert_true(allocator_dump_fd(&fake.allocator, fd, &err));
	assert_int_equal(pread(fd, text, sizeof text, 0), 10);
	assert_string_equal(text, "heap_v2/1\n");
	assert_int_equal(atomic_load(&fake.dumps), 1);
}

/* As the agent's thread, which has a table of descriptors of its own. */
static void *dump_into_own_descriptor(void *done)
{
	struct error err;

	if (unshare(CLONE_FILES) != 0)
		return NULL;
	CLEANUP(fd_cleanup) const int fd = memfd_create("own", MFD_CLOEXEC);
	*(bool *)done =
		allocator_dump_fd(&fake.allocator, fd, &err) && lseek(fd, 0, SEEK_END) == 10;
	return NULL;
}

static void dumps_into_a_descriptor_of_the_thread_alone(void **state)
{
	(void)state;
	bool done = false;
	pthread_t thread;

	fake.profile = "heap_v2/1\n";
	assert_int_equal(pthread_create(&thread, NULL, dump_into_own_descriptor, &done), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(done);
}

static void refuses_to_dump_into_a_pipe(void **state)
{
	(void)state;
	struct error err;
	int ends[2];

	assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
	assert_false(allocator_dump_fd(&fake.allocator, ends[1], &err));
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_int_equal(atomic_load(&fake.calls), 0);
	close(ends[0]);
	close(ends[1]);
	assert_false(allocator_dump_fd(&fake.allocator, ends[1], &err));
	assert_int_equal(err.errnum, EBADF);
}

static void says_why_a_dump_could_not_be_written(void **state)
{
	(void)state;
	struct error err;
	CLEANUP(fd_cleanup) const int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	assert_false(allocator_dump_fd(&fake.allocator, full, &err));
	assert_int_equal(err.errnum, ENOSPC);
	assert_contains(err.message, "No space left");
	assert_false(allocator_dump_path(&fake.allocator, "/nonexistent/a.heap", &err));
	assert_int_equal(err.errnum, ENOENT);
	assert_contains(err.message, "/nonexistent/a.heap");
	assert_false(allocator_dump_path(&fake.allocator, "/dev", &err));
	assert_int_equal(err.errnum, EISDIR);
	assert_false(allocator_dump_path(&fake.allocator, "", &err));
	assert_int_equal(err.kind, ERROR_USAGE);
}

static void reports_that_it_cannot_find_the_reason(void **state)
{
	(void)state;
	struct error err;
	CLEANUP(fd_cleanup) const int fd = memfd_create("test", MFD_CLOEXEC);
	struct stat status;

	allocator_fake_fail_next(&fake, ERROR_SYSTEM, EFAULT, "prof.dump");
	assert_false(allocator_dump_fd(&fake.allocator, fd, &err));
	assert_contains(err.message, "can be written now");
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_size, 0);
}

static void does_nothing_where_no_profile_can_be_taken(void **state)
{
	(void)state;
	struct error err;
	struct error unavailable;
	bool active = true;

	error_set(&unavailable, ERROR_UNSUPPORTED, "no jemalloc");
	error_hint(&unavailable, "preload it");
	fake.allocator.unavailable = unavailable;
	assert_false(allocator_active_set(&fake.allocator, true, NULL, &err));
	assert_string_equal(err.message, "no jemalloc");
	assert_string_equal(err.hint, "preload it");
	assert_false(allocator_active_get(&fake.allocator, &active, &err));
	assert_false(allocator_dump_fd(&fake.allocator, 1, &err));
	assert_false(allocator_reset(&fake.allocator, 19, false, &err));
	assert_true(allocator_thread_sampling_off(&fake.allocator, &err));
	assert_int_equal(atomic_load(&fake.calls), 0);
}

static void guards_the_sample_interval(void **state)
{
	(void)state;
	struct error err;
	unsigned lg = 0;

	assert_false(allocator_reset(&fake.allocator, 41, true, &err));
	assert_false(allocator_reset(&fake.allocator, -2, true, &err));
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_false(allocator_reset(&fake.allocator, 11, false, &err));
	assert_int_equal(err.kind, ERROR_DENIED);
	assert_true(allocator_reset(&fake.allocator, 11, true, &err));
	assert_true(allocator_reset(&fake.allocator, ALLOCATOR_LG_SAMPLE_KEEP, false, &err));
	assert_true(allocator_lg_sample(&fake.allocator, &lg, &err));
	assert_int_equal(lg, 11);
	assert_int_equal(atomic_load(&fake.resets), 2);
}

static void bounds_the_statistics(void **state)
{
	(void)state;
	struct error err;
	struct buffer out;

	buffer_init(&out, &memory_heap);
	assert_true(allocator_stats(&fake.allocator, NULL, &out, &err));
	assert_string_equal(buffer_string(&out), "{\"jemalloc\":{}}");
	assert_false(allocator_stats(&fake.allocator, "Jq", &out, &err));
	assert_contains(err.message, "'q'");
	buffer_clear(&out);
	out.limit = 3;
	assert_false(allocator_stats(&fake.allocator, "J", &out, &err));
	assert_int_equal(err.kind, ERROR_INPUT);
	buffer_deinit(&out);
}

static void survives_each_failed_allocation(void **state)
{
	(void)state;
	char wide[3000];
	struct error err;
	unsigned nth = 0;
	bool failed = true;

	memset(wide, 'x', sizeof wide - 1);
	wide[sizeof wide - 1] = '\0';
	fake.statistics = wide;
	while (failed) {
		struct failing_memory memory = failing_memory_at(++nth);
		struct buffer out;
		buffer_init(&out, &memory.memory);
		buffer_append_string(&out, "before");
		const bool ok = allocator_stats(&fake.allocator, NULL, &out, &err);
		failed = memory.failed;
		assert_int_equal(ok, !failed);
		if (failed)
			assert_int_equal(err.kind, ERROR_MEMORY);
		buffer_deinit(&out);
	}
	assert_int_equal(nth, 3);
}

static void reads_and_writes_by_name(void **state)
{
	(void)state;
	static struct mallctl_value value;
	struct error err;

	assert_true(allocator_write(
		&fake.allocator, "prof.active", MALLCTL_UNKNOWN, "true", false, &err));
	assert_true(allocator_read(&fake.allocator, "prof.active", MALLCTL_UNKNOWN, &value, &err));
	assert_int_equal(value.type, MALLCTL_BOOL);
	assert_int_equal(value.number, 1);
	assert_true(allocator_write(
		&fake.allocator, "arena.0.purge", MALLCTL_UNKNOWN, "", false, &err));
	assert_true(allocator_has(&fake.allocator, "prof.dump"));
	assert_false(allocator_has(&fake.allocator, "no.such"));
}

static void asks_for_a_type_only_when_it_must(void **state)
{
	(void)state;
	static struct mallctl_value value;
	struct error err;

	assert_false(allocator_read(&fake.allocator, "no.such", MALLCTL_UNKNOWN, &value, &err));
	assert_int_equal(err.kind, ERROR_USAGE);
	assert_false(allocator_read(&fake.allocator, "no.such", MALLCTL_U64, &value, &err));
	assert_int_equal(err.kind, ERROR_NOT_FOUND);
	assert_false(allocator_read(&fake.allocator, "prof.active", MALLCTL_SIZE, &value, &err));
	assert_contains(err.message, "bool");
	assert_false(
		allocator_read(&fake.allocator, "arena.0.purge", MALLCTL_UNKNOWN, &value, &err));
	assert_int_equal(err.kind, ERROR_USAGE);
}

static void passes_on_every_failure(void **state)
{
	(void)state;
	static struct mallctl_value value;
	struct allocator_memory figures = { .allocated = 5 };
	struct error err;
	struct buffer out;
	bool active;
	unsigned lg;
	CLEANUP(fd_cleanup) const int fd = memfd_create("test", MFD_CLOEXEC);

	buffer_init(&out, &memory_heap);
	for (unsigned n = 1; n <= 9; n++) {
		allocator_fake_init(&fake);
		error_set(&fake.failure, ERROR_STATE, "scripted");
		atomic_store(&fake.fail_at, n);
		struct allocator *const a = &fake.allocator;
		bool outcomes[9];
		outcomes[0] = allocator_active_set(a, true, NULL, &err);
		outcomes[1] = allocator_active_get(a, &active, &err);
		outcomes[2] = allocator_thread_sampling_off(a, &err);
		outcomes[3] = allocator_dump_fd(a, fd, &err);
		outcomes[4] = allocator_stats(a, NULL, &out, &err);
		outcomes[5] = allocator_memory(a, &figures, &err);
		outcomes[6] = allocator_reset(a, 20, false, &err);
		outcomes[7] = allocator_read(a, "version", MALLCTL_UNKNOWN, &value, &err);
		outcomes[8] = allocator_write(a, "prof.active", MALLCTL_UNKNOWN, "0", false, &err);

		for (unsigned i = 0; i < 9; i++)
			assert_int_equal(outcomes[i], i + 1 != n);
		assert_string_equal(err.message, "scripted");
		assert_true(allocator_lg_sample(a, &lg, &err));
	}
	buffer_deinit(&out);
}

static void count_jit_warnings(void *count, const struct allocator_warning *warning)
{
	*(int *)count += strcmp(warning->code, "unwinder-jit") == 0;
}

static void warns_of_run_time_code_where_the_unwinder_stays(void **state)
{
	int without_hook = 0, with_hook = 0;
	void *const code =
		mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(code, MAP_FAILED);
	allocator_warnings(&fake.allocator, count_jit_warnings, &without_hook);
	fake.allocator.profiling.has_unwinder_hook = true;
	allocator_warnings(&fake.allocator, count_jit_warnings, &with_hook);
	munmap(code, 4096);
	assert_int_equal(without_hook, 1);
	assert_int_equal(with_hook, 0);
}

#define TEST(function) cmocka_unit_test_setup(function, set_up)
static void count_malformed(void *count, const struct allocator_warning *warning)
{
	if (strcmp(warning->code, "conf-malformed") == 0)
		++*(unsigned *)count;
}

/* Of a long one a part is kept, which ends anywhere. */
static void a_long_configuration_is_not_malformed(void **state)
{
	static const char option[] = "background_thread:true,";
	unsigned found = 0;

	(void)state;
	char *const text = fake.allocator.configuration.environment;
	for (size_t i = 0; i < ALLOCATOR_CONF_MAX - 1; i++)
		text[i] = option[i % (sizeof option - 1)];
	text[ALLOCATOR_CONF_MAX - 1] = '\0';
	assert_int_not_equal(text[ALLOCATOR_CONF_MAX - 2], ',');
	allocator_warnings(&fake.allocator, count_malformed, &found);
	assert_int_equal(found, 0);
	strcpy(text, "prof:true,half");
	allocator_warnings(&fake.allocator, count_malformed, &found);
	assert_int_not_equal(found, 0);
}

static const struct CMUnitTest tests[] = {
	TEST(a_long_configuration_is_not_malformed),
	TEST(switches_sampling_and_says_what_was),
	TEST(dumps_into_a_descriptor),
	TEST(dumps_into_a_descriptor_of_the_thread_alone),
	TEST(refuses_to_dump_into_a_pipe),
	TEST(says_why_a_dump_could_not_be_written),
	TEST(reports_that_it_cannot_find_the_reason),
	TEST(does_nothing_where_no_profile_can_be_taken),
	TEST(guards_the_sample_interval),
	TEST(bounds_the_statistics),
	TEST(survives_each_failed_allocation),
	TEST(reads_and_writes_by_name),
	TEST(asks_for_a_type_only_when_it_must),
	TEST(passes_on_every_failure),
	TEST(warns_of_run_time_code_where_the_unwinder_stays),
};
UNIT_MAIN(tests)
