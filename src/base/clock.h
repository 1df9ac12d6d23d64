/* SPDX-License-Identifier: Apache-2.0 */
/* What time it is, and waiting until then. Any thread, any place; nothing here fails on Linux. */
#pragma once

#include <pthread.h>
#include <stdint.h>
#include <time.h>

static inline int64_t clock_read_ns(clockid_t clock)
{
	struct timespec now = { 0 };

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Since an unspecified time in the past; never goes back. */
static inline int64_t clock_monotonic_ns(void)
{
	return clock_read_ns(CLOCK_MONOTONIC);
}

static inline int64_t clock_monotonic_ms(void)
{
	return clock_monotonic_ns() / 1000000;
}

/* The same, including the time that the machine was suspended. */
static inline int64_t clock_boottime_ms(void)
{
	return clock_read_ns(CLOCK_BOOTTIME) / 1000000;
}

/* Since 1970, by the machine's clock, which can be set. */
static inline int64_t clock_realtime_ms(void)
{
	return clock_read_ns(CLOCK_REALTIME) / 1000000;
}

/* A signal with a handler may end it early. */
static inline void clock_sleep_us(int64_t us)
{
	const struct timespec pause = { .tv_sec = (time_t)(us / 1000000),
		.tv_nsec = (long)(us % 1000000 * 1000) };

	nanosleep(&pause, NULL);
}

/* Of a time, a distance or a deadline. */
static inline struct timespec clock_timespec(int64_t ms)
{
	return (struct timespec){ .tv_sec = (time_t)(ms / 1000),
		.tv_nsec = (long)(ms % 1000 * 1000000) };
}

/* Its deadlines are of clock_monotonic_ms. */
static inline void clock_condition_init(pthread_cond_t *condition)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &attributes);
	pthread_condattr_destroy(&attributes);
}
