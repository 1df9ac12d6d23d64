/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/text_profile.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "profile/text.h"

enum {
	/* jemalloc's own limit is 128 frames by default and can be raised. */
	DEEPEST_STACK = 65536,
	KEPT_UNKNOWN_LINES = 32,
	FIRST_TABLE_BITS = 10,
};

static struct address_table make_table(unsigned bits, uint64_t factor)
{
	const size_t count = (size_t)1 << bits;
	struct address_table table = { .bits = bits, .factor = factor };

	table.slots = xreallocarray(NULL, count, sizeof *table.slots);
	for (size_t i = 0; i < count; i++)
		table.slots[i] = (struct address_slot){ .location = PROFILE_NONE };
	return table;
}

static inline size_t home_of(const struct address_table *table, uint64_t address)
{
	return (address * table->factor) >> (64 - table->bits);
}

/* The slot of the address, or the free one where it would go. */
static inline struct address_slot *find_slot(const struct address_table *table, uint64_t address)
{
	const size_t mask = ((size_t)1 << table->bits) - 1;
	size_t at = home_of(table, address);

	while (table->slots[at].address != address && table->slots[at].location != PROFILE_NONE)
		at = (at + 1) & mask;
	return &table->slots[at];
}

static void grow_table(struct address_table *table)
{
	struct address_table larger = make_table(table->bits + 1, table->factor);
	const size_t count = (size_t)1 << table->bits;

	for (size_t i = 0; i < count; i++)
		if (table->slots[i].location != PROFILE_NONE)
			*find_slot(&larger, table->slots[i].address) = table->slots[i];
	larger.used = table->used;
	free(table->slots);
	*table = larger;
}

static uint32_t new_location(struct text_profile *text, uint64_t address)
{
	struct address_table *const table = &text->addresses;

	if (++table->used > (size_t)1 << (table->bits - 1))
		grow_table(table);
	const uint32_t location = profile_add_address(text->profile, address);
	*find_slot(table, address) = (struct address_slot){ address, location };
	return location;
}

static inline uint32_t find_location(struct text_profile *text, uint64_t address)
{
	const struct address_slot *const slot = find_slot(&text->addresses, address);

	if (__builtin_expect(slot->location == PROFILE_NONE, false))
		return new_location(text, address);
	return slot->location;
}

static void make_room(struct text_profile *text, size_t depth)
{
	size_t capacity = text->depth_capacity;

	text->stack_locations =
		xgrow(text->stack_locations, &capacity, depth + 1, sizeof *text->stack_locations);
	text->stack_addresses = xgrow(text->stack_addresses, &text->depth_capacity, depth + 1,
		sizeof *text->stack_addresses);
}

static inline void prefetch_slot(const struct address_table *table, uint64_t address)
{
	__builtin_prefetch(&table->slots[home_of(table, address)]);
}

/*
 * Reads addresses as profilers write them, " 0x7f06a3a2630f", as long as there is room for them
 * and the input is far from its end.
 */
static size_t read_plain_addresses(struct text_profile *text, size_t depth)
{
	const unsigned char *at = text->in->position;
	const unsigned char *const end = text->in->end;

	while (depth < text->depth_capacity && end - at > 3 + TEXT_HEXADECIMAL_REACH &&
		at[0] == ' ' && at[1] == '0' && at[2] == 'x') {
		uint64_t address = 0;
		const unsigned char *const next = text_hexadecimal_at(at + 3, &address);
		if (next == NULL || (*next != ' ' && *next != '\n'))
			break;
		text->stack_addresses[depth++] = address;
		prefetch_slot(&text->addresses, address);
		at = next;
	}
	text->in->position = at;
	return depth;
}

/* Reads one address in any form. */
static void read_address(struct text_profile *text, size_t depth)
{
	struct cursor *const in = text->in;
	const uint64_t address = text_hexadecimal(in);
	const char after = text_peek(in);

	if (after != ' ' && after != '\n' && after != '\r' && after != '\t')
		cursor_fail(in, "an address was expected");
	if (depth == DEEPEST_STACK)
		cursor_fail(in, "a stack of more than 65536 frames");
	if (depth >= text->depth_capacity)
		make_room(text, depth);
	text->stack_addresses[depth] = address;
	prefetch_slot(&text->addresses, address);
}

/*
 * Reads " 0x1 0x2" to the end of the line and returns how many there were. The table is asked
 * for its memory here and looked at only when the line is done, so that the waits overlap.
 */
static size_t read_addresses(struct text_profile *text)
{
	for (size_t depth = 0;; depth++) {
		depth = read_plain_addresses(text, depth);
		text_skip_blanks(text->in);
		const char next = text_peek(text->in);
		if (next == '\n' || next == '\r')
			return depth;
		read_address(text, depth);
	}
}

void text_profile_read_stack(struct text_profile *text)
{
	text->depth = read_addresses(text);
	if (!cursor_ok(text->in))
		return;
	for (size_t i = 0; i < text->depth; i++)
		text->stack_locations[i] = find_location(text, text->stack_addresses[i]);
	text->prepared = profile_prepare_stack(text->profile, text->stack_locations, text->depth);
	if (profile_is_full(text->profile))
		cursor_fail(text->in, PROFILE_FULL_PROBLEM);
}

uint32_t text_profile_add_stack(struct text_profile *text)
{
	return profile_add_prepared_stack(
		text->profile, text->prepared, text->stack_locations, text->depth);
}

uint32_t text_profile_stack(struct text_profile *text)
{
	text_profile_read_stack(text);
	return cursor_ok(text->in) ? text_profile_add_stack(text) : PROFILE_NONE;
}

static inline bool expect(struct cursor *in, char c, const char *problem)
{
	text_skip_blanks(in);
	if (!text_accept(in, c))
		cursor_fail(in, problem);
	text_skip_blanks(in);
	return cursor_ok(in);
}

bool text_profile_expect(struct text_profile *text, char c, const char *problem)
{
	return expect(text->in, c, problem);
}

/* "28: 1500", a number of objects and their bytes */
static inline bool read_pair(struct cursor *in, double *objects, double *bytes)
{
	*objects = (double)text_decimal(in);
	if (!expect(in, ':', "a colon was expected after the number of objects"))
		return false;
	*bytes = (double)text_decimal(in);
	return cursor_ok(in);
}

bool text_profile_counters(struct text_profile *text, double counters[PROFILE_COUNTERS])
{
	struct cursor *const in = text->in;

	return read_pair(in, &counters[PROFILE_INUSE_OBJECTS], &counters[PROFILE_INUSE_SPACE]) &&
	       expect(in, '[', "'[' was expected before the counts of all allocations") &&
	       read_pair(in, &counters[PROFILE_ALLOC_OBJECTS], &counters[PROFILE_ALLOC_SPACE]) &&
	       expect(in, ']', "']' was expected after the counts of all allocations");
}

void text_profile_unknown_line(struct text_profile *text)
{
	struct text_line line;

	if (text_line(text->in, &line) && line.size != 0 &&
		text->unknown_lines++ < KEPT_UNKNOWN_LINES)
		profile_add_comment(text->profile, line.text, line.size);
}

void text_profile_init(struct text_profile *text, struct cursor *in, struct profile *profile)
{
	*text = (struct text_profile){ .in = in,
		.profile = profile,
		.addresses = make_table(FIRST_TABLE_BITS, profile->hash_seed | 1) };
}

void text_profile_deinit(struct text_profile *text)
{
	free(text->addresses.slots);
	free(text->stack_addresses);
	free(text->stack_locations);
}
