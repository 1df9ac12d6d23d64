/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Demangles linkage names: C++ (Itanium ABI) and Rust (legacy and v0). Names are input: the length
 * of a name and of its readable form are bounded, because a hostile one can need unlimited stack or
 * text. Any thread with PARALLEL_STACK_BYTES of stack.
 *
 * A *name table* has the linkage names of a module. All are added first and then demangled
 * together, on several threads when there are many. Not for two threads at once.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/xalloc.h"
#include "base/hash_index.h"
#include "base/string_pool.h"
#include "symbol/work.h"

enum {
	DEMANGLE_MAX_NAME_BYTES = 32 << 10,
	DEMANGLE_MAX_RESULT_BYTES = 1 << 20,
};

/* Whether the name begins like a mangled one. */
bool demangle_wanted(const char *linkage_name);

/*
 * Appends the readable form, parameters and template arguments included, without Rust's hash.
 * False, with nothing appended, when the name is not mangled or is too long.
 */
bool demangle_append(const char *linkage_name, struct buffer *out);

struct name {
	const char *linkage;  /* in the string pool */
	const char *function; /* after name_table_demangle; "" when it cannot be demangled */
};

struct name_table {
	struct string_pool *strings;
	struct work_budget *budget;
	struct hash_index index;
	struct name *names;
	size_t count, capacity;
	/* Borrowed names that were added before: comparing pointers is quicker than texts. */
	struct text_numbers seen;
	uint32_t *seen_positions;
	size_t seen_capacity;
};

/* Demangling is charged to the budget; once it is spent, names stay as they are. */
void name_table_init(
	struct name_table *table, struct string_pool *strings, struct work_budget *budget);
void name_table_deinit(struct name_table *table);

/*
 * The position of a linkage name; a version behind '@' is cut off. The text must stay valid as long
 * as the table.
 */
uint32_t name_table_add(struct name_table *table, const char *linkage_name);

/*
 * Demangles what was added. The readable names are in texts[0..*text_count], each to be freed; the
 * caller frees the array, too.
 */
void name_table_demangle(
	struct name_table *table, unsigned threads, char ***texts, size_t *text_count);
