/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_clock.h"

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"

/* FNV-1a of the kernel's text. */
static int64_t read_boot(void)
{
	CLEANUP(buffer_cleanup) struct buffer text = { 0 };
	uint64_t hash = UINT64_C(14695981039346656037);
	struct error err;

	buffer_init(&text, &memory_or_exit);
	if (!file_read("/proc/sys/kernel/random/boot_id", &text, &err) || text.size == 0)
		return 0;
	for (size_t i = 0; i < text.size; i++)
		hash = (hash ^ (unsigned char)text.data[i]) * UINT64_C(1099511628211);
	return (int64_t)(hash >> 1) | 1;
}

struct store_time_source store_time_source_get(void)
{
	return (struct store_time_source){ clock_boottime_ms, clock_realtime_ms, read_boot() };
}

static int64_t at_least_zero(int64_t number)
{
	return number < 0 ? 0 : number;
}

/* How long ago the last snapshot was kept, as far as that can be known. */
static int64_t passed_since(const struct store_time_source *source,
	const struct store_clock_mark *last, int64_t keep_ms)
{
	if (source->boot != 0 && last->boot == source->boot)
		return at_least_zero(source->since_boot_ms() - last->since_boot_ms);
	const int64_t passed_ms = at_least_zero(source->since_1970_ms() - last->since_1970_ms);
	return passed_ms < keep_ms / 2 ? passed_ms : keep_ms / 2;
}

void store_clock_init(struct store_clock *clock, const struct store_time_source *source,
	const struct store_clock_mark *last, int64_t keep_ms)
{
	int64_t now_ms;

	if (last == NULL) {
		now_ms = source->since_1970_ms();
	} else {
		now_ms = (last->kept_ms != 0 ? last->kept_ms : last->since_1970_ms) +
			 passed_since(source, last, keep_ms);
	}
	/* 0 says that an earlier version kept a snapshot; a machine without a clock begins there.
	 */
	if (now_ms < 1)
		now_ms = 1;
	*clock = (struct store_clock){ *source, now_ms - source->since_boot_ms() };
}

int64_t store_clock_ms(const struct store_clock *clock)
{
	return clock->ahead_ms + clock->source.since_boot_ms();
}
