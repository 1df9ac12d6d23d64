/* SPDX-License-Identifier: Apache-2.0 */
/* The operations of a process without jemalloc: each says what is there instead. */
#include "allocator/jemalloc.h"

static bool refuse(const struct allocator *allocator, struct error *err)
{
	*err = allocator->unavailable;
	return false;
}

static bool absent_active_get(struct allocator *allocator, bool *active, struct error *err)
{
	(void)active;
	return refuse(allocator, err);
}

static bool absent_active_set(
	struct allocator *allocator, bool active, bool *was_active, struct error *err)
{
	(void)active;
	(void)was_active;
	return refuse(allocator, err);
}

static bool absent_thread_sampling_off(struct allocator *allocator, struct error *err)
{
	return refuse(allocator, err);
}

static bool absent_dump_path(struct allocator *allocator, const char *path, struct error *err)
{
	(void)path;
	return refuse(allocator, err);
}

static bool absent_stats(
	struct allocator *allocator, const char *options, struct buffer *out, struct error *err)
{
	if (allocator->unavailable.kind != ERROR_NONE && !allocator->malloc.is_known)
		return refuse(allocator, err);
	if (!allocator->malloc.is_known) {
		error_set(err, ERROR_UNSUPPORTED, "the malloc of %s reports no statistics",
			allocator->identity.malloc_name);
		return error_hint(err, "for statistics, start it with heapctl run --jemalloc");
	}
	malloc_stats_write(&allocator->malloc, allocator->identity.malloc_name,
		allocator->identity.malloc_where, options, out);
	return true;
}

static bool absent_memory(
	struct allocator *allocator, struct allocator_memory *ret, struct error *err)
{
	(void)ret;
	return refuse(allocator, err);
}

static bool absent_reset(struct allocator *allocator, int lg_sample, struct error *err)
{
	(void)lg_sample;
	return refuse(allocator, err);
}

static bool absent_lg_sample(struct allocator *allocator, unsigned *lg_sample, struct error *err)
{
	(void)lg_sample;
	return refuse(allocator, err);
}

static bool absent_read(struct allocator *allocator, const char *name, struct mallctl_value *value,
	struct error *err)
{
	(void)name;
	(void)value;
	return refuse(allocator, err);
}

static bool absent_write(struct allocator *allocator, const char *name,
	const struct mallctl_value *value, struct error *err)
{
	(void)name;
	(void)value;
	return refuse(allocator, err);
}

static bool absent_has(const struct allocator *allocator, const char *name)
{
	(void)allocator;
	(void)name;
	return false;
}

static bool absent_backtrace_get(
	struct allocator *allocator, allocator_backtrace **function, struct error *err)
{
	(void)function;
	return refuse(allocator, err);
}

static bool absent_backtrace_set(
	struct allocator *allocator, allocator_backtrace *function, struct error *err)
{
	(void)function;
	return refuse(allocator, err);
}

const struct allocator_operations absent_operations = {
	.active_get = absent_active_get,
	.active_set = absent_active_set,
	.thread_sampling_off = absent_thread_sampling_off,
	.dump_path = absent_dump_path,
	.stats = absent_stats,
	.memory = absent_memory,
	.reset = absent_reset,
	.lg_sample = absent_lg_sample,
	.read = absent_read,
	.write = absent_write,
	.has = absent_has,
	.backtrace_get = absent_backtrace_get,
	.backtrace_set = absent_backtrace_set,
};
