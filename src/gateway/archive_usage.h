/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many bytes of an archive each target has, and each user with all of its targets: when the
 * archive has too many, the oldest moment of the largest target of the largest user goes. So each
 * has as much as any other, as far as it wants that, and what one target or user keeps never costs
 * another one with less its past.
 *
 * Under the archive's mutex.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <sqlite3.h>

struct archive_share {
	char target[128];
	int64_t owner; /* a user, ARCHIVE_NO_OWNER */
	int64_t bytes, owner_bytes;
};

struct archive_usage {
	struct archive_share *items;
	size_t count, capacity;
	int64_t bytes; /* of all */
};

/* Adds up what the index has. */
bool archive_usage_load(struct archive_usage *usage, sqlite3 *index);
void archive_usage_deinit(struct archive_usage *usage);

/* `bytes` below 0 for what was removed. */
void archive_usage_add(
	struct archive_usage *usage, const char *target, int64_t owner, int64_t bytes);

/*
 * The shares in the order in which they have to give: the user with most bytes first, of its
 * targets the largest. Valid until the next change.
 */
const struct archive_share *archive_usage_sort(struct archive_usage *usage);
