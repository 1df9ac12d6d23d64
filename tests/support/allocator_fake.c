/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator_fake.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

static struct allocator_fake *fake_of(struct allocator *allocator)
{
	return allocator->context;
}

/* Counts a call; false, with the scripted error, when it is the one that has to fail. */
static bool fake_call(struct allocator_fake *fake, struct error *err)
{
	const unsigned number = atomic_fetch_add(&fake->calls, 1) + 1;

	if (number != atomic_load(&fake->fail_at))
		return true;
	*err = fake->failure;
	return false;
}

static bool fake_active_get(struct allocator *allocator, bool *active, struct error *err)
{
	struct allocator_fake *const fake = fake_of(allocator);

	if (!fake_call(fake, err))
		return false;
	*active = atomic_load(&fake->active);
	return true;
}

static bool fake_active_set(
	struct allocator *allocator, bool active, bool *was_active, struct error *err)
{
	struct allocator_fake *const fake = fake_of(allocator);

	if (!fake_call(fake, err))
		return false;
	*was_active = atomic_exchange(&fake->active, active);
	return true;
}

static bool fake_thread_sampling_off(struct allocator *allocator, struct error *err)
{
	struct allocator_fake *const fake = fake_of(allocator);

	if (!fake_call(fake, err))
		return false;
	atomic_fetch_add(&fake->threads_off, 1);
	return true;
}

/* In small steps, so that a test ends a long delay by setting it to 0. */
static void delay_dump(const struct allocator_fake *fake)
{
	enum { STEP_MS = 5 };

	for (unsigned ms = 0; ms < atomic_load(&fake->dump_delay_ms); ms += STEP_MS) {
		struct timespec left = { .tv_nsec = STEP_MS * 1000000 };
		while (nanosleep(&left, &left) != 0 && errno == EINTR)
			continue;
	}
}

/* Like jemalloc: every trouble with the file is EFAULT. */
static bool fake_dump_path(struct allocator *allocator, const char *path, struct error *err)
{
	struct allocator_fake *const fake = fake_of(allocator);
	struct error ignored;

	if (!fake_call(fake, err))
		return false;
	const char *const profile = atomic_load(&fake->profile);
	delay_dump(fake);
	CLEANUP(fd_cleanup)
	const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0 || !file_write_fd(fd, path, profile, strlen(profile), &ignored))
		return error_system(err, EFAULT, "prof.dump");
	atomic_fetch_add(&fake->dumps, 1);
	return true;
}

static bool fake_stats(
	struct allocator *allocator, const char *options, struct buffer *out, struct error *err)
{
	struct allocator_fake *const fake = fake_of(allocator);

	(void)options;
	if (!fake_call(fake, err))
		return false;
	buffer_append_string(out, fake->statistics);
	return true;
}

static bool fake_memory(
	struct allocator *allocator, struct allocator_memory *ret, struct error *err)
{
	struct allocator_fake *const fake = fake_of(allocator);

	if (!fake_call(fake, err))
		return false;
	*ret = fake->figures;
	return true;
}

static bool fake_reset(struct allocator *allocator, int lg_sample, struct error *err)
{
	struct allocator_fake *const fake = fake_of(allocator);

	if (!fake_call(fake, err))
		return false;
	if (lg_sample != ALLOCATOR_LG_SAMPLE_KEEP)
		atomic_store(&fake->lg_sample, (unsigned)lg_sample);
	atomic_fetch_add(&fake->resets, 1);
	return true;
}

static bool fake_lg_sample(struct allocator *allocator, unsigned *lg_sample, struct error *err)
{
	struct allocator_fake *const fake = fake_of(allocator);

	if (!fake_call(fake, err))
		return false;
	*lg_sample = atomic_load(&fake->lg_sample);
	return true;
}

static bool no_such_name(const char *name, struct error *err)
{
	error_set(err, ERROR_NOT_FOUND, "this jemalloc has no mallctl %s", name);
	return error_hint(err, "it has few");
}

/* Knows a few names of each kind: enough to test the callers. */
static bool fake_read(struct allocator *allocator, const char *name, struct mallctl_value *value,
	struct error *err)
{
	struct allocator_fake *const fake = fake_of(allocator);

	if (!fake_call(fake, err))
		return false;
	if (strcmp(name, "prof.active") == 0)
		value->number = atomic_load(&fake->active);
	else if (strcmp(name, "prof.gdump") == 0)
		value->number = atomic_load(&fake->gdump);
	else if (strcmp(name, "prof.lg_sample") == 0)
		value->number = atomic_load(&fake->lg_sample);
	else if (strcmp(name, "arenas.narenas") == 0)
		value->number = 4;
	else if (strcmp(name, "stats.allocated") == 0)
		value->number = fake->figures.allocated;
	else if (strcmp(name, "version") == 0)
		memcpy(value->text, fake->allocator.identity.version,
			sizeof fake->allocator.identity.version);
	else
		return no_such_name(name, err);
	return true;
}

static bool fake_write(struct allocator *allocator, const char *name,
	const struct mallctl_value *value, struct error *err)
{
	struct allocator_fake *const fake = fake_of(allocator);

	if (!fake_call(fake, err))
		return false;
	if (strcmp(name, "prof.active") == 0)
		atomic_store(&fake->active, value->number != 0);
	else if (strcmp(name, "prof.gdump") == 0)
		atomic_store(&fake->gdump, value->number != 0);
	else if (value->type != MALLCTL_UNIT)
		return no_such_name(name, err);
	return true;
}

static bool fake_has(const struct allocator *allocator, const char *name)
{
	(void)allocator;
	return mallctl_name_type(name) != MALLCTL_UNKNOWN;
}

static bool fake_backtrace_get(
	struct allocator *allocator, allocator_backtrace **function, struct error *err)
{
	struct allocator_fake *const fake = fake_of(allocator);

	if (fake->backtrace == NULL)
		return no_such_name("experimental.hooks.prof_backtrace", err);
	*function = fake->backtrace;
	return true;
}

static bool fake_backtrace_set(
	struct allocator *allocator, allocator_backtrace *function, struct error *err)
{
	struct allocator_fake *const fake = fake_of(allocator);

	if (fake->backtrace == NULL)
		return no_such_name("experimental.hooks.prof_backtrace", err);
	fake->backtrace = function;
	return true;
}

static const struct allocator_operations fake_operations = {
	.active_get = fake_active_get,
	.active_set = fake_active_set,
	.thread_sampling_off = fake_thread_sampling_off,
	.dump_path = fake_dump_path,
	.stats = fake_stats,
	.memory = fake_memory,
	.reset = fake_reset,
	.lg_sample = fake_lg_sample,
	.read = fake_read,
	.write = fake_write,
	.has = fake_has,
	.backtrace_get = fake_backtrace_get,
	.backtrace_set = fake_backtrace_set,
};

void allocator_fake_init(struct allocator_fake *fake)
{
	*fake = (struct allocator_fake){
		.allocator = {
			.operations = &fake_operations,
			.context = fake,
			.identity = { .name = "jemalloc", .version = "5.3.0-0-gfake", .major = 5,
				.minor = 3, .symbol = "mallctl", .where = "/fake/libjemalloc.so.2",
				.found_by = "dynamic", .owns_malloc = true,
				.malloc_name = "jemalloc", .malloc_where = "/fake/libjemalloc.so.2", .jemalloc_count = 1 },
			.profiling = { .compiled_in = true, .enabled = true,
				.thread_active_init = true, .lg_interval = -1, .lg_sample = 19,
				.sampler = "jemalloc", .unwinder = "libgcc", .prefix = "jeprof" },
			.configuration = { .variable = "MALLOC_CONF",
				.environment = "prof:true,prof_active:false" },
		},
		.profile = "heap_v2/524288\n  t*: 1: 100 [0: 0]\n@ 0x1000 0x2000\n"
			   "  t*: 1: 100 [0: 0]\n\nMAPPED_LIBRARIES:\n"
			   "1000-3000 r-xp 00000000 00:00 0 /fake\n",
		.statistics = "{\"jemalloc\":{}}",
		.figures = { .allocated = 1000, .active = 4096, .metadata = 512, .resident = 8192,
			.mapped = 16384, .retained = 2048 },
		.lg_sample = 19,
	};
}

void allocator_fake_fail_next(
	struct allocator_fake *fake, enum error_kind kind, int errnum, const char *message)
{
	error_set(&fake->failure, kind, "%s", message);
	fake->failure.errnum = errnum;
	atomic_store(&fake->fail_at, atomic_load(&fake->calls) + 1);
}
