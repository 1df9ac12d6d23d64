/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes from a store (store/store.h), and when: snapshots that are too old by its own
 * clock (store/store_clock.h), those above its bytes, those that stand in the way of what the
 * disk shall keep free. Where bytes are short the target and user with most of them give first
 * (store/store_usage.h); of a target the oldest go first, in the order in which they were kept:
 * the clock may have been set meanwhile.
 *
 * Under the store's mutex.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

#include "base/error.h"

struct store_limits;
struct store_usage;

struct retention {
	sqlite3 *index;
	int folder_fd;
	const char *folder; /* for errors */
	const struct store_limits *limits;
	/* Of all profiles, as the index has them. Adding them up at each snapshot would take too
	 * long. */
	struct store_usage *usage;
};

/*
 * Before a profile of so many bytes is written, `now_ms` on the store's clock: where the disk is
 * short of room, removes what is above the limits, then as much as the new one needs to be written.
 * The last snapshot of each target stays, for the new one may fail. ERROR_STATE, with nothing
 * removed beyond the limits, when there cannot be room enough.
 */
MUST_CHECK bool retention_make_room(
	const struct retention *retention, uint64_t bytes, int64_t now_ms, struct error *err);

/* After a disk was full all the same: whether anything above the limits was there to be removed. */
bool retention_free_surplus(const struct retention *retention, int64_t now_ms);

/* After the snapshot `newest` was kept, at that time: removes what is above the limits. */
void retention_apply(const struct retention *retention, int64_t newest, int64_t now_ms);
