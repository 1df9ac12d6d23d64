/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/symbolized.h"

#include <stdlib.h>

#include "base/xalloc.h"
#include "profile/codec.h"
#include "profile/text.h"

/* What the input says about one address; borrowed from the input. */
struct symbol {
	uint64_t address;
	struct text_line names;
	struct text_line places; /* size 0 without */
};

struct symbol_table {
	struct symbol *symbols;
	size_t count;
	size_t capacity;
	struct hash_index index; /* by address */
	uint64_t seed;
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

bool symbolized_detect(struct cursor in)
{
	return at_section(&in, "symbol") || at_body(&in);
}

static bool has_address(const void *items, uint32_t position, const void *key)
{
	return ((const struct symbol *)items)[position].address == *(const uint64_t *)key;
}

static struct symbol *get_symbol(struct symbol_table *table, uint64_t address)
{
	const uint32_t next = (uint32_t)table->count;
	const uint32_t found = hash_index_add(&table->index, hash_u64(address ^ table->seed),
		has_address, table->symbols, &address, next);

	if (found != HASH_INDEX_NONE)
		return &table->symbols[found];
	table->symbols =
		xgrow(table->symbols, &table->capacity, table->count + 1, sizeof *table->symbols);
	struct symbol *const added = &table->symbols[table->count++];
	*added = (struct symbol){ .address = address };
	return added;
}

static const struct symbol *find_symbol(const struct symbol_table *table, uint64_t address)
{
	const uint32_t found = hash_index_find(&table->index, hash_u64(address ^ table->seed),
		has_address, table->symbols, &address);

	return found == HASH_INDEX_NONE ? NULL : &table->symbols[found];
}

static struct text_line rest_of(const struct cursor *in)
{
	return (struct text_line){ (const char *)in->position, cursor_left(in), true };
}

/* "0x55d4 serve--parse"; other lines that begin with "0x" mean nothing. */
static void read_names(struct symbol_table *table, const struct text_line *line)
{
	struct cursor in = cursor_over(line->text, line->size);
	const uint64_t address = text_hexadecimal(&in);

	if (!cursor_ok(&in) || text_peek(&in) != ' ')
		return;
	text_skip_blanks(&in);
	get_symbol(table, address)->names = rest_of(&in);
}

static void read_places(struct symbol_table *table, const struct text_line *line)
{
	struct cursor in = cursor_over(line->text, line->size);

	cursor_skip(&in, strlen("#line "));
	const uint64_t address = text_hexadecimal(&in);
	if (cursor_ok(&in) && text_accept(&in, '\t'))
		get_symbol(table, address)->places = rest_of(&in);
}

/* Reads to the closing "---". */
static void read_symbols(struct cursor *in, struct symbol_table *table, struct profile *profile)
{
	static const char binary[] = "binary=";
	struct text_line line;

	while (text_line(in, &line)) {
		if (text_starts(&line, "0x"))
			read_names(table, &line);
		else if (text_starts(&line, "#line "))
			read_places(table, &line);
		else if (text_starts(&line, binary))
			profile->program = string_pool_add_sized(&profile->strings,
				line.text + sizeof binary - 1, line.size - (sizeof binary - 1));
		else if (text_starts(&line, "---"))
			return;
		if (table->count >= PROFILE_NONE - 1)
			cursor_fail(in, PROFILE_FULL_PROBLEM);
	}
	cursor_fail(in, "it ends in the middle of the names: truncated");
}

/* Cuts the last of several texts off; false when there is none left. */
static bool cut_last(struct text_line *list, const char *separator, struct text_line *last)
{
	const size_t size = strlen(separator);

	if (list->text == NULL)
		return false;
	for (size_t at = list->size; at >= size; at--) {
		if (memcmp(list->text + at - size, separator, size) != 0)
			continue;
		*last = (struct text_line){ list->text + at, list->size - at, true };
		list->size = at - size;
		return true;
	}
	*last = *list;
	list->text = NULL;
	return true;
}

/* "/src/parse.c:30" */
static void set_place(
	struct profile *profile, struct profile_frame *frame, const struct text_line *place)
{
	const char *const colon = memrchr(place->text, ':', place->size);

	if (colon == NULL)
		return;
	const size_t size = (size_t)(colon - place->text);
	struct cursor number = cursor_over(colon + 1, place->size - size - 1);
	const uint64_t line = text_decimal(&number);
	frame->file = string_pool_add_sized(&profile->strings, place->text, size);
	frame->line = cursor_ok(&number) && line <= UINT32_MAX ? (uint32_t)line : 0;
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
		frame.function = string_pool_add_sized(&profile->strings, name.text, name.size);
		if (places.size != 0 && cut_last(&places, "\t", &place))
			set_place(profile, &frame, &place);
		profile_add_frame(profile, &frame);
		location->frame_count++;
	}
}

/* An address as the only name is jeprof's way to say that there is none. */
static bool is_name(const struct symbol *symbol)
{
	return symbol != NULL && symbol->names.size != 0 && !text_starts(&symbol->names, "0x");
}

static void name_locations(
	struct cursor *in, struct profile *profile, const struct symbol_table *table)
{
	for (size_t i = 0; i < profile->location_count; i++) {
		struct profile_location *const location = &profile->locations[i];
		if (location->frame_count != 0)
			continue;
		const struct symbol *symbol = find_symbol(table, location->address - 1);
		if (location->is_exact || !is_name(symbol))
			symbol = find_symbol(table, location->address);
		if (is_name(symbol))
			set_frames(profile, location, symbol);
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
	const struct profile_codec *const codec =
		symbolized_detect(*in) ? NULL : profile_detect(in);
	if (codec == NULL) {
		cursor_fail(in, cursor_left(in) == 0
					? "no profile follows the names: truncated, or from jeprof "
					  "--raw, which leaves out profiles that are files"
					: "no profile of any known format follows the names");
		return false;
	}
	return codec->read(in, profile, err);
}

bool symbolized_read(struct cursor *in, struct profile *profile, struct error *err)
{
	struct symbol_table table = { .seed = profile->hash_seed };
	struct text_line title;

	hash_index_init(&table.index);
	if (at_section(in, "symbol") && text_line(in, &title))
		read_symbols(in, &table, profile);
	const bool done = cursor_ok(in) && read_body(in, profile, err);
	if (done)
		name_locations(in, profile, &table);
	hash_index_deinit(&table.index);
	free(table.symbols);
	return done && cursor_ok(in);
}
