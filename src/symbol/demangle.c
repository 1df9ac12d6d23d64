/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/demangle.h"

#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "symbol/symbol_table.h"

struct sink {
	struct buffer *out;
	size_t start;
	jmp_buf too_long;
};

/*
 * The demangler cannot be stopped, and a name of a few hundred bytes can expand for
 * hours. The functions used here keep their state on the stack, so leaving them loses nothing.
 */
static void collect(const char *text, size_t size, void *opaque)
{
	struct sink *const sink = opaque;

	if (sink->out->size - sink->start + size > DEMANGLE_MAX_RESULT_BYTES)
		longjmp(sink->too_long, 1);
	buffer_append(sink->out, text, size);
}

bool demangle_wanted(const char *linkage_name)
{
	return linkage_name[0] == '_' &&
	       (linkage_name[1] == 'Z' || linkage_name[1] == 'R' ||
		       (linkage_name[1] == '_' && linkage_name[2] == 'Z'));
}

/* Legacy names are C++ ones that end in a hash: "17h" and 16 digits. */
static bool is_rust(const char *linkage_name)
{
	return strncmp(linkage_name, "_R", 2) == 0 || strncmp(linkage_name, "__R", 3) == 0 ||
	       strstr(linkage_name, "17h") != NULL;
}

/* demangle_append; `work` is about how many bytes were read and written, also where it fails. */
static bool demangle_append_counted(const char *linkage_name, struct buffer *out, size_t *work)
{
	struct sink sink = { .out = out, .start = out->size };

	*work = 0;

	if (!demangle_wanted(linkage_name) ||
		strnlen(linkage_name, DEMANGLE_MAX_NAME_BYTES + 1) > DEMANGLE_MAX_NAME_BYTES)
		return false;
	if (setjmp(sink.too_long) != 0) {
		*work = DEMANGLE_MAX_RESULT_BYTES;
		out->size = sink.start;
		return false;
	}
	*work = strlen(linkage_name);
	/* Rust's back references can recurse without end, so there the library's limit stays. */
	if (is_rust(linkage_name) && rust_demangle_callback(linkage_name, 0, collect, &sink) != 0) {
		*work += out->size - sink.start;
		return true;
	}
	out->size = sink.start;
	if (cplus_demangle_v3_callback(linkage_name,
		    DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT, collect, &sink) != 0) {
		*work += out->size - sink.start;
		return true;
	}
	out->size = sink.start;
	return false;
}

bool demangle_append(const char *linkage_name, struct buffer *out)
{
	size_t work = 0;

	return demangle_append_counted(linkage_name, out, &work);
}

enum { NAMES_PER_PIECE = 512 };

struct piece {
	struct name *names;
	size_t count;
	struct work_budget *budget;
	struct buffer text; /* the readable names, NUL-terminated, one after another */
	size_t *starts;	    /* in text; SIZE_MAX where there is none */
};

void name_table_init(
	struct name_table *table, struct string_pool *strings, struct work_budget *budget)
{
	*table = (struct name_table){ .strings = strings, .budget = budget };
	hash_index_init(&table->index);
}

void name_table_deinit(struct name_table *table)
{
	hash_index_deinit(&table->index);
	text_numbers_deinit(&table->seen);
	free(table->names);
	free(table->seen_positions);
	*table = (struct name_table){ 0 };
}

static bool is_name(const void *items, uint32_t position, const void *key)
{
	return ((const struct name *)items)[position].linkage == key;
}

static uint32_t add_text(struct name_table *table, const char *linkage_name)
{
	const char *const linkage =
		string_pool_add_sized(table->strings, linkage_name, symbol_name_size(linkage_name));
	const uint32_t next = (uint32_t)table->count;
	const uint32_t found = hash_index_add(
		&table->index, hash_u64((uintptr_t)linkage), is_name, table->names, linkage, next);

	if (found != HASH_INDEX_NONE)
		return found;
	*XAPPEND(table->names, table->count, table->capacity) =
		(struct name){ .linkage = linkage, .function = "" };
	return next;
}

uint32_t name_table_add(struct name_table *table, const char *linkage_name)
{
	const size_t count = table->seen.count;
	const uint32_t number = text_numbers_add(&table->seen, linkage_name);

	if (number == count) {
		table->seen_positions = xgrow(table->seen_positions, &table->seen_capacity,
			count + 1, sizeof *table->seen_positions);
		table->seen_positions[number] = add_text(table, linkage_name);
	}
	return table->seen_positions[number];
}

/* A name of a few bytes may become a megabyte, and then be abandoned. */
static bool demangle_within_budget(struct piece *piece, const char *linkage)
{
	enum { BYTES_AT_ONCE = 8 };
	size_t work = 0;

	if (work_budget_is_spent(piece->budget))
		return false;
	const bool is_readable = demangle_append_counted(linkage, &piece->text, &work);
	(void)work_budget_spend(piece->budget, work / BYTES_AT_ONCE);
	return is_readable;
}

static void demangle_piece(void *context, size_t index)
{
	struct piece *const piece = (struct piece *)context + index;

	for (size_t i = 0; i < piece->count; i++) {
		const size_t start = piece->text.size;
		const bool readable = demangle_within_budget(piece, piece->names[i].linkage);
		piece->starts[i] = readable ? start : SIZE_MAX;
		if (readable)
			buffer_append_char(&piece->text, '\0');
	}
}

/* Points the names into the piece's text, which is no longer moved. */
static char *finish_piece(struct piece *piece)
{
	char *const text = buffer_take(&piece->text);

	for (size_t i = 0; i < piece->count; i++)
		if (piece->starts[i] != SIZE_MAX)
			piece->names[i].function = text + piece->starts[i];
	free(piece->starts);
	return text;
}

void name_table_demangle(
	struct name_table *table, unsigned threads, char ***texts, size_t *text_count)
{
	const size_t count = (table->count + NAMES_PER_PIECE - 1) / NAMES_PER_PIECE;
	CLEANUP(free_cleanup) struct piece *pieces = xcalloc(count, sizeof *pieces);

	for (size_t i = 0; i < count; i++) {
		const size_t first = i * NAMES_PER_PIECE;
		const size_t left = table->count - first;
		pieces[i].names = table->names + first;
		pieces[i].budget = table->budget;
		pieces[i].count = left < NAMES_PER_PIECE ? left : NAMES_PER_PIECE;
		pieces[i].starts = xcalloc(pieces[i].count, sizeof *pieces[i].starts);
		buffer_init(&pieces[i].text, &memory_or_exit);
	}
	parallel_run(count, threads, demangle_piece, pieces);
	*texts = xcalloc(count, sizeof(char *));
	*text_count = count;
	for (size_t i = 0; i < count; i++)
		(*texts)[i] = finish_piece(&pieces[i]);
}
