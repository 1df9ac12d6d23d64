/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows with aligned columns, for people. Texts are counted in characters of UTF-8; the last
 * column is not padded, and on a terminal it continues in the next line when it is too long.
 * Control characters in a text are shown as '?', so that the name of a process cannot steer the
 * terminal.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/terminal.h"

enum { TABLE_COLUMNS = 8 };

struct table;

/* `alignment` has one letter per column: 'l' or 'r'. */
struct table *table_new(const char *alignment);
void table_free(struct table *table);

static inline void table_cleanup(struct table **table)
{
	table_free(*table);
}

/* The texts are copied; as many as there are columns. */
void table_add(struct table *table, enum terminal_style style, const char *const *texts);

/* Rows in the order of adding; the first one is the heading when `has_heading`. */
void table_print(const struct table *table, bool has_heading, FILE *out);
