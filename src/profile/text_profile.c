/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/text_profile.h"

#include <assert.h>
#include <stdlib.h>

#include "base/xalloc.h"
#include "profile/text.h"

enum {
	/* jemalloc's own limit is 128 frames by default and can be raised. */
	DEEPEST_STACK = 65536,
	KEPT_UNKNOWN_LINES = 32,
	FIRST_SHIFT = 54,
};

/* All free. */
static uint32_t *make_slots(unsigned shift)
{
	const size_t count = (size_t)1 << (64 - shift);
	uint32_t *const slots = xreallocarray(NULL, count, sizeof *slots);

	for (size_t i = 0; i < count; i++)
		slots[i] = PROFILE_NONE;
	return slots;
}

static inline size_t home_of(const struct address_table *table, uint64_t address)
{
	return (address * table->factor) >> table->shift;
}

/* The slot of the address, or the free one where it would go. */
static inline uint32_t *find_slot(const struct address_table *table, uint64_t address)
{
	const size_t mask = UINT64_MAX >> table->shift;
	size_t at = home_of(table, address);

	while (table->slots[at] != PROFILE_NONE && table->addresses[table->slots[at]] != address)
		at = (at + 1) & mask;
	return &table->slots[at];
}

static void grow_table(struct address_table *table)
{
	free(table->slots);
	table->slots = make_slots(--table->shift);
	for (size_t i = 0; i < table->count; i++)
		*find_slot(table, table->addresses[i]) = (uint32_t)i;
}

/* Not inline, so that the loop around find_location stays small. */
static __attribute__((noinline)) uint32_t new_location(struct text_profile *text, uint64_t address)
{
	struct address_table *const table = &text->addresses;
	const uint32_t location = profile_add_address(text->profile, address);

	assert(location == table->count);
	table->addresses = xgrow(
		table->addresses, &table->capacity, table->count + 1, sizeof *table->addresses);
	table->addresses[table->count++] = address;
	if (table->count > UINT64_MAX >> table->shift >> 2)
		grow_table(table);
	else
		*find_slot(table, address) = location;
	return location;
}

static inline uint32_t find_location(struct text_profile *text, uint64_t address)
{
	const uint32_t location = *find_slot(&text->addresses, address);

	return __builtin_expect(location == PROFILE_NONE, false) ? new_location(text, address)
								 : location;
}

static inline void keep_address(struct text_profile *text, size_t depth, uint64_t address)
{
	const struct address_table *const table = &text->addresses;

	text->stack_addresses[depth] = address;
	__builtin_prefetch(&table->slots[home_of(table, address)]);
}

/*
 * Reads addresses as profilers write them, " 0x7f06a3a2630f", as long as there is room for them
 * and the input is far from its end. What stands behind the last one is left to the caller.
 */
static size_t read_plain_addresses(struct text_profile *text, size_t depth)
{
	const unsigned char *at = text->in->position;
	const unsigned char *const end = text->in->end;

	while (depth < text->depth_capacity && end - at > 3 + TEXT_NUMBER_REACH &&
		memcmp(at, " 0x", 3) == 0) {
		uint64_t address = 0;
		const unsigned char *const next = text_hexadecimal_at(at + 3, &address);
		if (next == NULL)
			break;
		keep_address(text, depth++, address);
		at = next;
	}
	text->in->position = at;
	return depth;
}

static void make_room(struct text_profile *text, size_t depth)
{
	size_t capacity = text->depth_capacity;

	text->stack_locations =
		xgrow(text->stack_locations, &capacity, depth + 1, sizeof *text->stack_locations);
	text->stack_addresses = xgrow(text->stack_addresses, &text->depth_capacity, depth + 1,
		sizeof *text->stack_addresses);
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
	keep_address(text, depth, address);
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

static bool expect(struct cursor *in, char c, const char *problem)
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
static bool read_pair(struct cursor *in, double *objects, double *bytes)
{
	*objects = (double)text_decimal(in);
	if (!expect(in, ':', "a colon was expected after the number of objects"))
		return false;
	*bytes = (double)text_decimal(in);
	return cursor_ok(in);
}

/* The same as profilers write it, far from the end of the input. NULL for anything else. */
static inline const unsigned char *read_plain_pair(
	const unsigned char *at, double *objects, double *bytes)
{
	uint64_t number = 0;

	at = text_decimal_at(at, &number);
	*objects = (double)number;
	if (at == NULL || at[0] != ':' || at[1] != ' ')
		return NULL;
	at = text_decimal_at(at + 2, &number);
	*bytes = (double)number;
	return at;
}

static inline const unsigned char *read_plain_counters(
	const struct cursor *in, double counters[PROFILE_COUNTERS])
{
	enum { LONGEST = 4 * TEXT_NUMBER_REACH };
	const unsigned char *at = in->position;

	if (cursor_left(in) < LONGEST)
		return NULL;
	at = read_plain_pair(at, &counters[PROFILE_INUSE_OBJECTS], &counters[PROFILE_INUSE_SPACE]);
	if (at == NULL || at[0] != ' ' || at[1] != '[')
		return NULL;
	at = read_plain_pair(
		at + 2, &counters[PROFILE_ALLOC_OBJECTS], &counters[PROFILE_ALLOC_SPACE]);
	return at == NULL || *at != ']' ? NULL : at + 1;
}

bool text_profile_counters(struct text_profile *text, double counters[PROFILE_COUNTERS])
{
	struct cursor *const in = text->in;
	const unsigned char *const end = read_plain_counters(in, counters);

	if (end != NULL) {
		in->position = end;
		text_skip_blanks(in);
		return true;
	}
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
	assert(profile->location_count == 0);
	*text = (struct text_profile){ .in = in,
		.profile = profile,
		.addresses = { .slots = make_slots(FIRST_SHIFT),
			.shift = FIRST_SHIFT,
			.factor = profile->hash_seed | 1 } };
}

void text_profile_deinit(struct text_profile *text)
{
	free(text->addresses.slots);
	free(text->addresses.addresses);
	free(text->stack_addresses);
	free(text->stack_locations);
}
