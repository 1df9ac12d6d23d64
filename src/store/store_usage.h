/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many bytes of a store each target has, and each user with all of its targets: when the
 * store has too many, the oldest snapshot of the largest target of the largest user goes. So each
 * has as much as any other, as far as it wants that, and what one target or user keeps never costs
 * another one with less its past.
 *
 * Under the store's mutex.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

struct store_share {
	char target[128];
	int64_t owner; /* a user, STORE_NO_OWNER */
	int64_t bytes, owner_bytes;
};

struct store_usage {
	struct store_share *items;
	size_t count, capacity;
	int64_t bytes; /* of all */
};

/* Adds up what the index has. */
bool store_usage_load(struct store_usage *usage, sqlite3 *index);
void store_usage_deinit(struct store_usage *usage);

/* `bytes` below 0 for what was removed. */
void store_usage_add(struct store_usage *usage, const char *target, int64_t owner, int64_t bytes);

/*
 * The shares in the order in which they have to give: the user with most bytes first, of its
 * targets the largest. Valid until the next change.
 */
const struct store_share *store_usage_sort(struct store_usage *usage);
