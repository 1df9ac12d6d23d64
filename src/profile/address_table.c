/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/address_table.h"

#include <stdlib.h>

#include "base/xalloc.h"

enum { FIRST_SLOTS = 1024 };

/* The slot of the address, or the free one where it would go. */
static uint32_t *find_slot(const struct address_table *table, uint64_t address)
{
	size_t at = (size_t)(address_table_pair(table, address) - table->slots);

	while (table->slots[at] != 0 && table->addresses[table->slots[at]] != address)
		at = (at + 1) & table->mask;
	return &table->slots[at];
}

static void make_slots(struct address_table *table, size_t count)
{
	free(table->slots);
	table->slots = xcalloc(count, sizeof *table->slots);
	table->mask = (uint32_t)(count - 1);
	table->pairs = table->mask & ~UINT32_C(1);
	for (size_t i = 1; i < table->count; i++)
		*find_slot(table, table->addresses[i]) = (uint32_t)i;
}

void address_table_init(struct address_table *table, uint64_t seed)
{
	*table = (struct address_table){ .factor = seed | 1 };
	make_slots(table, FIRST_SLOTS);
}

void address_table_deinit(struct address_table *table)
{
	free(table->slots);
	free(table->addresses);
	*table = (struct address_table){ 0 };
}

uint32_t address_table_find(const struct address_table *table, uint64_t address)
{
	if (table->count == 0)
		return ADDRESS_TABLE_NONE;
	const uint32_t position = *find_slot(table, address);
	return table->addresses[position] == address ? position : ADDRESS_TABLE_NONE;
}

uint32_t address_table_add(struct address_table *table, uint64_t address)
{
	const uint32_t position = (uint32_t)table->count;

	table->addresses = xgrow(
		table->addresses, &table->capacity, table->count + 1, sizeof *table->addresses);
	table->addresses[table->count++] = address;
	if (table->count > table->mask / 2)
		make_slots(table, 2 * ((size_t)table->mask + 1));
	else
		*find_slot(table, address) = position;
	return position;
}
