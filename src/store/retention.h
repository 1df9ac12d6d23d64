/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which snapshots are removed from a store (store/store.h), and when: those that are too old by the
 * store's own clock (store/store_index.h), those above its limits of bytes and number, and those
 * that take space that must stay free on the disk. Removal begins with the user that has most
 * bytes, and with the largest of its targets, so that what one target or user keeps never displaces
 * another's smaller history. The oldest snapshots of a target are removed first, in the order in
 * which they were kept, because the clock may have been set meanwhile. A file is removed before its
 * row; a row without a file is removed when the store is opened.
 *
 * Under the store's mutex.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store_index.h"

/* What each target of each user has, counted once and then kept up to date. */
MUST_CHECK bool store_usage_load(struct store *store, struct error *err);
void store_usage_deinit(struct store_usage *usage);
void store_usage_add(struct store *store, const char *target, int64_t owner, int64_t bytes);

/* The shares in the order of removal. Valid until the next change. */
const struct store_share *store_usage_sort(struct store_usage *usage);

/*
 * Whether there is, or could be made, room for a snapshot of this size of that target (NULL: any).
 * ERROR_STATE with the reason; removes nothing.
 */
MUST_CHECK bool retention_check_room(
	struct store *store, const struct snapshot *snapshot, uint64_t bytes, struct error *err);

/*
 * Before a file of this size is written, `now_ms` on the store's clock: if the disk is too full,
 * removes what is above the limits, then as much as the new one needs to be written. The last
 * snapshot of each target stays, because the new one may fail. ERROR_STATE, with nothing removed
 * beyond the limits, when there cannot be enough room.
 */
MUST_CHECK bool retention_make_room(struct store *store, const struct snapshot *snapshot,
	uint64_t bytes, int64_t now_ms, struct error *err);

/*
 * After a write found the disk full: removes what is above the limits; whether there was anything.
 */
bool retention_free_surplus(struct store *store, int64_t now_ms);

/* After the snapshot `newest` was kept, at that time: removes what is above the limits. */
void retention_apply(struct store *store, int64_t newest, int64_t now_ms);
