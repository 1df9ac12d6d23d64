/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/symbolized.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "profile/raw_write.h"

enum { STAND_IN_BYTES = 256 };

/* How a location occurs: jeprof looks a leaf up as it is and steps back from all others. */
struct location_use {
	bool is_leaf;
	bool is_caller;
};

static struct location_use *find_uses(const struct profile *profile)
{
	struct location_use *const uses = xcalloc(profile->location_count, sizeof *uses);

	for (size_t i = 0; i < profile->stack_count; i++) {
		const struct profile_stack *const stack = &profile->stacks[i];
		for (uint32_t j = 0; j < stack->depth; j++) {
			const uint32_t location = profile->stack_locations[stack->first + j];
			uses[location].is_leaf |= j == 0;
			uses[location].is_caller |= j != 0;
		}
	}
	return uses;
}

/* "--" separates names and a newline ends them, so a name (of operator--) must hold neither. */
static void write_name(struct buffer *out, const char *name)
{
	for (const char *at = name; *at != '\0'; at++) {
		buffer_append_char(out, *at == '\n' || *at == '\r' ? ' ' : *at);
		if (at[0] == '-' && at[1] == '-')
			buffer_append_char(out, ' ');
	}
}

static void write_place(struct buffer *out, const struct profile_frame *frame)
{
	raw_put_text(out, frame->file);
	buffer_printf(out, ":%" PRIu32, frame->line);
}

static void write_symbol(struct buffer *out, uint64_t address, const struct profile_frame *frames,
	uint32_t frame_count)
{
	bool has_place = false;

	buffer_printf(out, "0x%" PRIx64, address);
	for (uint32_t i = frame_count; i-- > 0;) {
		buffer_append_string(out, i == frame_count - 1 ? " " : "--");
		write_name(out, frames[i].function[0] == '\0' ? "??" : frames[i].function);
		has_place |= frames[i].file[0] != '\0';
	}
	buffer_append_char(out, '\n');
	if (!has_place)
		return;
	buffer_printf(out, "#line 0x%" PRIx64, address);
	for (uint32_t i = frame_count; i-- > 0;) {
		buffer_append_char(out, '\t');
		write_place(out, &frames[i]);
	}
	buffer_append_char(out, '\n');
}

/* What stands for the name of an allocator's frame that has none, kept in `text`. */
static struct profile_frame stand_in(const struct profile_mapping *mapping,
	const struct profile_location *location, char text[STAND_IN_BYTES])
{
	const char *const slash = strrchr(mapping->path, '/');

	snprintf(text, STAND_IN_BYTES, "malloc<%.200s+0x%" PRIx64 ">",
		slash == NULL ? mapping->path : slash + 1,
		location->address - 1 - mapping->start + mapping->file_offset);
	return (struct profile_frame){ .function = text, .file = "" };
}

static bool is_unnamed_allocator(const struct profile *profile,
	const struct profile_location *location, symbolized_is_allocator *is_allocator)
{
	return location->frame_count == 0 && location->mapping != PROFILE_NONE &&
	       is_allocator != NULL &&
	       is_allocator(profile->kind, profile->mappings[location->mapping].path);
}

/* A function without a name is told by where it begins, as views do, "[MODULE]+0xOFFSET"; in
 * `text`. */
static struct profile_frame function_start(const struct profile_mapping *mapping,
	const struct profile_location *location, char text[STAND_IN_BYTES])
{
	const char *const slash = strrchr(mapping->path, '/');

	snprintf(text, STAND_IN_BYTES, "[%.200s]+0x%" PRIx64,
		slash == NULL ? mapping->path : slash + 1,
		location->function_start - mapping->start + mapping->file_offset);
	return (struct profile_frame){ .function = text, .file = "" };
}

static bool has_function_start(
	const struct profile *profile, const struct profile_location *location)
{
	return location->frame_count == 0 && location->mapping != PROFILE_NONE &&
	       location->function_start >= profile->mappings[location->mapping].start &&
	       location->function_start <= location->address;
}

static void write_location(const struct profile *profile, struct buffer *out, uint32_t position,
	struct location_use use, symbolized_is_allocator *is_allocator)
{
	const struct profile_location *const location = &profile->locations[position];
	const struct profile_frame *frames = profile->frames;
	const uint64_t address = raw_address(profile, position);
	uint32_t count = location->frame_count;
	struct profile_frame unnamed;
	char text[STAND_IN_BYTES];

	if (is_unnamed_allocator(profile, location, is_allocator)) {
		unnamed = stand_in(&profile->mappings[location->mapping], location, text);
		frames = &unnamed;
		count = 1;
	} else if (has_function_start(profile, location)) {
		unnamed = function_start(&profile->mappings[location->mapping], location, text);
		frames = &unnamed;
		count = 1;
	} else if (count != 0) {
		frames += location->first_frame;
	}
	if (count != 0 && use.is_caller)
		write_symbol(out, address - 1, frames, count);
	if (count != 0 && use.is_leaf)
		write_symbol(out, address, frames, count);
}

static void write_symbols(
	const struct profile *profile, symbolized_is_allocator *is_allocator, struct buffer *out)
{
	CLEANUP(free_cleanup) struct location_use *uses = find_uses(profile);

	for (uint32_t i = 0; i < profile->location_count; i++)
		write_location(profile, out, i, uses[i], is_allocator);
}

bool symbolized_write(const struct profile *profile, symbolized_is_allocator *is_allocator,
	struct buffer *out, struct error *err)
{
	buffer_append_string(out, "--- symbol\n");
	if (profile->program[0] != '\0') {
		buffer_append_string(out, "binary=");
		raw_put_text(out, profile->program);
		buffer_append_char(out, '\n');
	}
	write_symbols(profile, is_allocator, out);
	buffer_append_string(out, "---\n--- ");
	buffer_append_string(out, profile->kind == PROFILE_GROWTH ? "growth\n" : "heap\n");
	return raw_write(profile, out, err);
}
