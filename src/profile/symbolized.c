/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/symbolized.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "profile/compress.h"
#include "profile/readers.h"
#include "profile/raw_write.h"
#include "profile/text_profile.h"
#include "base/hash_index.h"

/* What the input says about one address; borrowed from the input or the profile. */
struct symbol {
	struct text_line names;
	struct text_line places; /* size 0 without */
};

struct address_names {
	struct u64_table addresses;
	struct symbol *symbols; /* one for each address */
	size_t capacity;
	struct profile *profile; /* for copies of the names, when the input is released behind the
				    cursor; NULL when it stays */
};

/* Whether the line is "--- WORD...", with any number of blanks. */
static bool at_section(const struct cursor *in, const char *word)
{
	struct cursor ahead = *in;

	if (!text_at(&ahead, "---"))
		return false;
	cursor_skip(&ahead, 3);
	text_skip_blanks(&ahead);
	return text_at(&ahead, word);
}

static bool at_body(const struct cursor *in)
{
	return at_section(in, "heap") || at_section(in, "growth") || at_section(in, "profile");
}

static bool detect(struct cursor in)
{
	return at_section(&in, "symbol") || at_body(&in);
}

static struct symbol *get_symbol(struct address_names *table, uint64_t address)
{
	const uint32_t found = u64_table_find(&table->addresses, address);

	if (found != U64_TABLE_NONE)
		return &table->symbols[found];
	const uint32_t added = u64_table_add(&table->addresses, address);
	table->symbols =
		xgrow(table->symbols, &table->capacity, added + (size_t)1, sizeof *table->symbols);
	table->symbols[added] = (struct symbol){ 0 };
	return &table->symbols[added];
}

static const struct symbol *find_symbol(const struct address_names *table, uint64_t address)
{
	const uint32_t found = u64_table_find(&table->addresses, address);

	return found == U64_TABLE_NONE ? NULL : &table->symbols[found];
}

static struct text_line rest_of(const struct address_names *table, const struct cursor *in)
{
	const char *const text = (const char *)in->position;
	const size_t size = cursor_left(in);
	const bool is_borrowed = table->profile == NULL;

	return (struct text_line){
		.text = is_borrowed ? text
				    : string_pool_add_sized(&table->profile->strings, text, size),
		.size = size,
		.is_whole = true,
	};
}

/* "0x55d4 serve--parse"; other lines that begin with "0x" mean nothing. */
static void read_names(struct address_names *table, const struct text_line *line)
{
	struct cursor in = cursor_over(line->text, line->size);
	const uint64_t address = text_hexadecimal(&in);

	if (!cursor_ok(&in) || text_peek(&in) != ' ')
		return;
	text_skip_blanks(&in);
	get_symbol(table, address)->names = rest_of(table, &in);
}

static void read_places(struct address_names *table, const struct text_line *line)
{
	struct cursor in = cursor_over(line->text, line->size);

	cursor_skip(&in, strlen("#line "));
	const uint64_t address = text_hexadecimal(&in);
	if (cursor_ok(&in) && text_accept(&in, '\t'))
		get_symbol(table, address)->places = rest_of(table, &in);
}

/* Reads to the closing "---". */
static void read_symbols(struct cursor *in, struct address_names *table, struct profile *profile)
{
	static const char binary[] = "binary=";
	struct text_line line;

	table->profile = in->source == NULL ? NULL : profile;
	while (cursor_more(in) && text_line(in, &line)) {
		if (text_starts(&line, "0x"))
			read_names(table, &line);
		else if (text_starts(&line, "#line "))
			read_places(table, &line);
		else if (text_starts(&line, binary))
			profile->program = string_pool_add_sized(&profile->strings,
				line.text + sizeof binary - 1, line.size - (sizeof binary - 1));
		else if (text_starts(&line, "---"))
			return;
		if (table->addresses.count >= PROFILE_NONE - 1 || profile_is_full(profile))
			cursor_fail(in, PROFILE_FULL_PROBLEM);
	}
	cursor_fail(in, "it ends in the middle of the names: truncated");
}

/* Of jeprof, which separates names by "--" and writes operator-- as it is. */
static bool ends_with_operator(const char *text, size_t size)
{
	static const char word[] = "operator";
	const size_t word_size = sizeof word - 1;

	if (size < word_size || memcmp(text + size - word_size, word, word_size) != 0)
		return false;
	const char before = size == word_size ? ' ' : text[size - word_size - 1];
	return !isalnum((unsigned char)before) && before != '_';
}

/* Cuts off the last of several texts; false when none is left. */
static bool cut_last(struct text_line *list, const char *separator, struct text_line *last)
{
	const size_t size = strlen(separator);

	if (list->text == NULL)
		return false;
	for (size_t at = list->size; at >= size; at--) {
		if (memcmp(list->text + at - size, separator, size) != 0 ||
			ends_with_operator(list->text, at - size))
			continue;
		*last = (struct text_line){ list->text + at, list->size - at, true };
		list->size = at - size;
		return true;
	}
	*last = *list;
	list->text = NULL;
	return true;
}

/* As it was before write_name(). */
static const char *original_name(struct profile *profile, const struct text_line *name)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (memmem(name->text, name->size, "- -", 3) == NULL)
		return string_pool_add_sized(&profile->strings, name->text, name->size);
	for (size_t i = 0; i < name->size; i++) {
		const bool is_put_in = name->text[i] == ' ' && i > 0 && i + 1 < name->size &&
				       name->text[i - 1] == '-' && name->text[i + 1] == '-';
		if (!is_put_in)
			buffer_append_char(&text, name->text[i]);
	}
	return string_pool_add_sized(&profile->strings, text.data, text.size);
}

/* The last name is the innermost. */
static void set_frames(
	struct profile *profile, struct profile_location *location, const struct symbol *symbol)
{
	struct text_line names = symbol->names;
	struct text_line places = symbol->places;
	struct text_line name;
	struct text_line place;

	location->first_frame = (uint32_t)profile->frame_count;
	while (cut_last(&names, "--", &name)) {
		struct profile_frame frame = { 0 };
		frame.function = original_name(profile, &name);
		if (places.size != 0 && cut_last(&places, "\t", &place))
			text_profile_place(profile, &frame, &place);
		profile_add_frame(profile, &frame);
		location->frame_count++;
	}
}

/*
 * An address, or "??", as the only name means that there is no name, but where the address is made
 * up for what has nothing else.
 */
static bool is_name(const struct symbol *symbol, const struct profile_location *location)
{
	if (symbol == NULL || symbol->names.size == 0)
		return false;
	return raw_is_made_up(location->address) ||
	       (!text_starts(&symbol->names, "0x") &&
		       !(symbol->names.size == 2 && text_starts(&symbol->names, "??")));
}

/* The start of a function without a name, as function_start() writes it; false for a name. */
static bool take_function_start(const struct profile *profile, struct profile_location *location,
	const struct text_line *name)
{
	static const char middle[] = "]+0x";
	const char *const at = memmem(name->text, name->size, middle, sizeof middle - 1);

	if (name->text[0] != '[' || at == NULL || location->mapping == PROFILE_NONE)
		return false;
	const char *const digits = at + sizeof middle - 1;
	struct cursor number = cursor_over(digits, (size_t)(name->text + name->size - digits));
	const uint64_t offset = text_hexadecimal(&number);
	if (!cursor_ok(&number) || cursor_left(&number) != 0)
		return false;
	const struct profile_mapping *const mapping = &profile->mappings[location->mapping];
	const uint64_t start = offset - mapping->file_offset + mapping->start;
	if (offset < mapping->file_offset || start > location->address)
		return false;
	location->function_start = start;
	return true;
}

/* What had names alone before it was written has them now. */
static void forget_made_up_address(struct profile_location *location)
{
	if (!raw_is_made_up(location->address))
		return;
	location->address = 0;
	location->is_exact = true;
	location->is_named = true;
}

static void name_locations(
	struct cursor *in, struct profile *profile, const struct address_names *table)
{
	for (size_t i = 0; i < profile->location_count; i++) {
		struct profile_location *const location = &profile->locations[i];
		if (location->frame_count != 0)
			continue;
		const struct symbol *symbol = find_symbol(table, location->address - 1);
		if (location->is_exact || !is_name(symbol, location))
			symbol = find_symbol(table, location->address);
		if (is_name(symbol, location) &&
			!take_function_start(profile, location, &symbol->names)) {
			set_frames(profile, location, symbol);
			forget_made_up_address(location);
		}
		if (profile_is_full(profile))
			cursor_fail(in, PROFILE_FULL_PROBLEM);
	}
}

/* "--- heap" says nothing that the body does not say itself. */
static bool read_body(struct cursor *in, struct profile *profile, struct error *err)
{
	struct text_line title;

	if (at_body(in))
		text_line(in, &title);
	const struct profile_reader *const format = profile_reader_find(in);
	if (format == NULL) {
		cursor_fail(in, cursor_left(in) == 0
					? "no profile follows the names: truncated, or from jeprof "
					  "--raw, which leaves out profiles that are files"
					: "no profile of any known format follows the names");
		return false;
	}
	if (format->is_binary)
		expansion_fetch_binary(in);
	return cursor_ok(in) && format->read(in, profile, err);
}

static bool read_profile(struct cursor *in, struct profile *profile, struct error *err)
{
	struct address_names table = { 0 };
	struct text_line title;

	u64_table_init(&table.addresses, profile->hash_seed);
	if (at_section(in, "symbol") && text_line(in, &title))
		read_symbols(in, &table, profile);
	const bool done = cursor_ok(in) && read_body(in, profile, err);
	/* Sums of sampled profiles are written in the form of complete ones. */
	profile->is_complete = false;
	if (done) {
		profile_assign_mappings(profile);
		name_locations(in, profile, &table);
	}
	u64_table_deinit(&table.addresses);
	free(table.symbols);
	return done && cursor_ok(in);
}

enum { PLACEHOLDER_BYTES = 256 };

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

/* A name for an allocator's frame that has none, stored in `text`. */
static struct profile_frame placeholder_frame(const struct profile_mapping *mapping,
	const struct profile_location *location, char text[PLACEHOLDER_BYTES])
{
	snprintf(text, PLACEHOLDER_BYTES, "malloc<%.200s+0x%" PRIx64 ">",
		path_base_name(mapping->path),
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

/*
 * A function without a name is shown by its start, as in views, "[MODULE]+0xOFFSET"; stored in
 * `text`.
 */
static struct profile_frame function_start(const struct profile_mapping *mapping,
	const struct profile_location *location, char text[PLACEHOLDER_BYTES])
{
	snprintf(text, PLACEHOLDER_BYTES, "[%.200s]+0x%" PRIx64, path_base_name(mapping->path),
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
	char text[PLACEHOLDER_BYTES];

	if (is_unnamed_allocator(profile, location, is_allocator)) {
		unnamed = placeholder_frame(&profile->mappings[location->mapping], location, text);
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

const struct profile_reader symbolized_reader = { detect, read_profile, false };
