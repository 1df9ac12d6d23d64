/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How old a snapshot is. The machine's clock may be set while a gateway runs, by a person or by
 * NTP, and may be wrong after a boot; by its word alone a jump would make everything too old. So
 * age is counted on a clock of the store's own, which its index keeps: within a boot it goes on as
 * the kernel's clock since the boot does, which cannot be set and which counts a suspended
 * machine's time. Over a boot, where the machine's clock is all there is, it goes on by what that
 * says, but by half of what is kept at most: what a machine that was down for days has kept is
 * there for some time yet, and goes then.
 */
#pragma once

#include <stdint.h>

/* Of the machine, or a test's. */
struct store_time_source {
	int64_t (*since_boot_ms)(void);
	int64_t (*since_1970_ms)(void);
	int64_t boot; /* a number of this boot's own; 0 when it is not known */
};

/* When the last snapshot was kept. */
struct store_clock_mark {
	int64_t kept_ms; /* on the store's clock; 0 in an index of an earlier version */
	int64_t boot, since_boot_ms, since_1970_ms;
};

struct store_clock {
	struct store_time_source source;
	int64_t ahead_ms; /* of the clock since the boot */
};

/* The machine's. */
struct store_time_source store_time_source_get(void);

/* Goes on from the mark; NULL for an empty store. */
void store_clock_init(struct store_clock *clock, const struct store_time_source *source,
	const struct store_clock_mark *last, int64_t keep_ms);

/* Now. */
int64_t store_clock_ms(const struct store_clock *clock);
