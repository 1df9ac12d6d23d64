/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator_stub.h"

/* The agent copies a struct allocator about; the fake has to be found from any copy. */
static struct allocator_fake fake;

struct allocator_fake *allocator_stub(void)
{
	if (fake.allocator.operations == NULL)
		allocator_fake_init(&fake);
	return &fake;
}

#define FAKE (&allocator_stub()->allocator)

static bool stub_active_get(struct allocator *allocator, bool *active, struct error *err)
{
	(void)allocator;
	return FAKE->operations->active_get(FAKE, active, err);
}

static bool stub_active_set(
	struct allocator *allocator, bool active, bool *was_active, struct error *err)
{
	(void)allocator;
	return FAKE->operations->active_set(FAKE, active, was_active, err);
}

static bool stub_thread_sampling_off(struct allocator *allocator, struct error *err)
{
	(void)allocator;
	return FAKE->operations->thread_sampling_off(FAKE, err);
}

static bool stub_dump_path(struct allocator *allocator, const char *path, struct error *err)
{
	(void)allocator;
	return FAKE->operations->dump_path(FAKE, path, err);
}

static bool stub_stats(
	struct allocator *allocator, const char *options, struct buffer *out, struct error *err)
{
	(void)allocator;
	return FAKE->operations->stats(FAKE, options, out, err);
}

static bool stub_memory(
	struct allocator *allocator, struct allocator_memory *ret, struct error *err)
{
	(void)allocator;
	return FAKE->operations->memory(FAKE, ret, err);
}

static bool stub_reset(struct allocator *allocator, int lg_sample, struct error *err)
{
	(void)allocator;
	return FAKE->operations->reset(FAKE, lg_sample, err);
}

static bool stub_lg_sample(struct allocator *allocator, unsigned *lg_sample, struct error *err)
{
	(void)allocator;
	return FAKE->operations->lg_sample(FAKE, lg_sample, err);
}

static bool stub_gdump_set(struct allocator *allocator, bool on, struct error *err)
{
	(void)allocator;
	return FAKE->operations->gdump_set(FAKE, on, err);
}

static bool stub_read(struct allocator *allocator, const char *name, struct mallctl_value *value,
	struct error *err)
{
	(void)allocator;
	return FAKE->operations->read(FAKE, name, value, err);
}

static bool stub_write(struct allocator *allocator, const char *name,
	const struct mallctl_value *value, struct error *err)
{
	(void)allocator;
	return FAKE->operations->write(FAKE, name, value, err);
}

static bool stub_has(const struct allocator *allocator, const char *name)
{
	(void)allocator;
	return FAKE->operations->has(FAKE, name);
}

static const struct allocator_operations stub_operations = {
	.active_get = stub_active_get,
	.active_set = stub_active_set,
	.thread_sampling_off = stub_thread_sampling_off,
	.dump_path = stub_dump_path,
	.stats = stub_stats,
	.memory = stub_memory,
	.reset = stub_reset,
	.lg_sample = stub_lg_sample,
	.gdump_set = stub_gdump_set,
	.read = stub_read,
	.write = stub_write,
	.has = stub_has,
};

void allocator_find(struct allocator *allocator)
{
	*allocator = allocator_stub()->allocator;
	allocator->operations = &stub_operations;
}
