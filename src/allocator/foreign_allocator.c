/* SPDX-License-Identifier: Apache-2.0 */
/*
 * allocator_find() of the agent for static programs (agent/image_start.c), in the place of
 * allocator_find.c: no function of the program is called there, because the agent's threads are not
 * those of the program's C library. What is left is the sampler.
 */
#include "allocator/allocator.h"
#include "allocator/jemalloc.h"

#include <stdio.h>
#include <unistd.h>

static bool refuse(struct error *err)
{
	error_set(err, ERROR_UNSUPPORTED,
		"the agent calls no function of a static program, so its allocator reports "
		"nothing");
	return error_hint(err, "heapctl account shows what the kernel knows of its memory");
}

static bool refuse_stats(
	struct allocator *allocator, const char *options, struct buffer *out, struct error *err)
{
	(void)allocator;
	(void)options;
	(void)out;
	return refuse(err);
}

static bool refuse_memory(
	struct allocator *allocator, struct allocator_memory *ret, struct error *err)
{
	(void)allocator;
	(void)ret;
	return refuse(err);
}

static bool refuse_read(struct allocator *allocator, const char *name, struct mallctl_value *value,
	struct error *err)
{
	(void)allocator;
	(void)name;
	(void)value;
	return refuse(err);
}

static bool refuse_write(struct allocator *allocator, const char *name,
	const struct mallctl_value *value, struct error *err)
{
	(void)allocator;
	(void)name;
	(void)value;
	return refuse(err);
}

static bool has_nothing(const struct allocator *allocator, const char *name)
{
	(void)allocator;
	(void)name;
	return false;
}

static const struct allocator_operations foreign_operations = {
	.stats = refuse_stats,
	.memory = refuse_memory,
	.read = refuse_read,
	.write = refuse_write,
	.has = has_nothing,
};

/* No jemalloc is used. */
bool jemalloc_would_end_the_process(const struct allocator *allocator)
{
	(void)allocator;
	return false;
}

void allocator_find(struct allocator *allocator)
{
	struct allocator_identity *const identity = &allocator->identity;

	*allocator = (struct allocator){ .operations = &foreign_operations };
	snprintf(identity->malloc_name, sizeof identity->malloc_name, "static");
	snprintf(identity->name, sizeof identity->name, "static");
	const ssize_t size = readlink(
		"/proc/self/exe", identity->malloc_where, sizeof identity->malloc_where - 1);
	identity->malloc_where[size > 0 ? size : 0] = '\0';
	snprintf(identity->where, sizeof identity->where, "%s", identity->malloc_where);
	error_set(&allocator->unavailable, ERROR_UNSUPPORTED,
		"the functions of its allocator are not patched");
	error_hint(&allocator->unavailable, "heapctl detach, then heapctl attach");
}
