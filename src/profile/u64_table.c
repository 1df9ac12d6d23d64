/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/u64_table.h"

#include <stdlib.h>

#include "base/xalloc.h"

enum { FIRST_SLOTS = 1024 };

/* The slot of the key, or the free one where it would go. */
static uint32_t *find_slot(const struct u64_table *table, uint64_t key)
{
	size_t at = (size_t)(u64_table_pair(table, key) - table->slots);

	while (table->slots[at] != 0 && table->keys[table->slots[at]] != key)
		at = (at + 1) & table->mask;
	return &table->slots[at];
}

static void make_slots(struct u64_table *table, size_t count)
{
	free(table->slots);
	table->slots = xcalloc(count, sizeof *table->slots);
	table->mask = (uint32_t)(count - 1);
	table->pairs = table->mask & ~UINT32_C(1);
	for (size_t i = 1; i < table->count; i++)
		*find_slot(table, table->keys[i]) = (uint32_t)i;
}

void u64_table_init(struct u64_table *table, uint64_t seed)
{
	*table = (struct u64_table){ .factor = seed | 1 };
	make_slots(table, FIRST_SLOTS);
}

void u64_table_deinit(struct u64_table *table)
{
	free(table->slots);
	free(table->keys);
	*table = (struct u64_table){ 0 };
}

uint32_t u64_table_find(const struct u64_table *table, uint64_t key)
{
	if (table->count == 0)
		return U64_TABLE_NONE;
	const uint32_t position = *find_slot(table, key);
	return table->keys[position] == key ? position : U64_TABLE_NONE;
}

uint32_t u64_table_add(struct u64_table *table, uint64_t key)
{
	const uint32_t position = (uint32_t)table->count;

	*XAPPEND(table->keys, table->count, table->capacity) = key;
	if (table->count > table->mask / 2)
		make_slots(table, 2 * ((size_t)table->mask + 1));
	else
		*find_slot(table, key) = position;
	return position;
}
