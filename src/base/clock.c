/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"

#include <time.h>

static int64_t read_ns(clockid_t clock)
{
	struct timespec now = { 0 };

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_monotonic_ms(void)
{
	return read_ns(CLOCK_MONOTONIC) / 1000000;
}

int64_t clock_monotonic_ns(void)
{
	return read_ns(CLOCK_MONOTONIC);
}

int64_t clock_boottime_ms(void)
{
	return read_ns(CLOCK_BOOTTIME) / 1000000;
}

int64_t clock_realtime_ms(void)
{
	return read_ns(CLOCK_REALTIME) / 1000000;
}
