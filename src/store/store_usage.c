/* SPDX-License-Identifier: Apache-2.0 */
#include "store/store_usage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "store/store_index.h"

void store_usage_deinit(struct store_usage *usage)
{
	free(usage->items);
	*usage = (struct store_usage){ 0 };
}

static struct store_share *find(const struct store_usage *usage, const char *target, int64_t owner)
{
	for (size_t i = 0; i < usage->count; i++) {
		if (usage->items[i].owner == owner && strcmp(usage->items[i].target, target) == 0)
			return &usage->items[i];
	}
	return NULL;
}

void store_usage_add(struct store_usage *usage, const char *target, int64_t owner, int64_t bytes)
{
	struct store_share *share = find(usage, target, owner);

	if (share == NULL) {
		usage->items = xgrow(
			usage->items, &usage->capacity, usage->count + 1, sizeof *usage->items);
		share = &usage->items[usage->count++];
		*share = (struct store_share){ .owner = owner };
		snprintf(share->target, sizeof share->target, "%s", target);
	}
	share->bytes += bytes;
	usage->bytes += bytes;
	if (share->bytes <= 0)
		*share = usage->items[--usage->count];
}

bool store_usage_load(struct store_usage *usage, sqlite3 *index)
{
	CLEANUP(statement_cleanup) sqlite3_stmt *rows = NULL;
	int step;

	if (sqlite3_prepare_v2(index,
		    "SELECT target, owner, sum(bytes) FROM moment GROUP BY owner, target", -1,
		    &rows, NULL) != SQLITE_OK)
		return false;
	while ((step = sqlite3_step(rows)) == SQLITE_ROW) {
		usage->items = xgrow(
			usage->items, &usage->capacity, usage->count + 1, sizeof *usage->items);
		struct store_share *const share = &usage->items[usage->count++];
		*share = (struct store_share){
			.owner = sqlite3_column_int64(rows, 1),
			.bytes = sqlite3_column_int64(rows, 2),
		};
		snprintf(share->target, sizeof share->target, "%s",
			(const char *)sqlite3_column_text(rows, 0));
		usage->bytes += share->bytes;
	}
	return step == SQLITE_DONE;
}

static int compare_owners(const void *a, const void *b)
{
	const struct store_share *const left = a, *const right = b;

	return (left->owner > right->owner) - (left->owner < right->owner);
}

static int compare_shares(const void *a, const void *b)
{
	const struct store_share *const left = a, *const right = b;

	if (left->owner_bytes != right->owner_bytes)
		return left->owner_bytes > right->owner_bytes ? -1 : 1;
	if (left->owner != right->owner)
		return left->owner > right->owner ? -1 : 1;
	if (left->bytes != right->bytes)
		return left->bytes > right->bytes ? -1 : 1;
	return strcmp(left->target, right->target);
}

const struct store_share *store_usage_sort(struct store_usage *usage)
{
	if (usage->count == 0)
		return usage->items;
	qsort(usage->items, usage->count, sizeof *usage->items, compare_owners);
	for (size_t begin = 0, end; begin < usage->count; begin = end) {
		int64_t bytes = 0;
		for (end = begin;
			end < usage->count && usage->items[end].owner == usage->items[begin].owner;
			end++)
			bytes += usage->items[end].bytes;
		for (size_t i = begin; i < end; i++)
			usage->items[i].owner_bytes = bytes;
	}
	qsort(usage->items, usage->count, sizeof *usage->items, compare_shares);
	return usage->items;
}
