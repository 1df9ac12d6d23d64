/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/table.h"

#include <string.h>
#include <unistd.h>

#include "base/xalloc.h"
#include "cli/verb.h"
#include "cli/terminal.h"

struct table_row {
	enum terminal_style style;
	char *texts[TABLE_COLUMNS];
};

struct table {
	const char *alignment;
	size_t columns;
	struct table_row *rows;
	size_t count, capacity;
};

struct table *table_new(const char *alignment)
{
	struct table *const table = xcalloc(1, sizeof *table);

	table->alignment = alignment;
	table->columns = strlen(alignment);
	return table;
}

void table_free(struct table *table)
{
	if (table == NULL)
		return;
	for (size_t i = 0; i < table->count; i++) {
		for (size_t j = 0; j < table->columns; j++)
			free(table->rows[i].texts[j]);
	}
	free(table->rows);
	free(table);
}

void table_add(struct table *table, enum terminal_style style, const char *const *texts)
{
	table->rows = xgrow(table->rows, &table->capacity, table->count + 1, sizeof *table->rows);
	struct table_row *const row = &table->rows[table->count++];

	row->style = style;
	for (size_t i = 0; i < table->columns; i++)
		row->texts[i] = terminal_copy(texts[i]);
}

static size_t width_of(const char *text)
{
	size_t width = 0;

	for (; *text != '\0'; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

static void print_cell(const char *text, char alignment, size_t width, bool is_last, FILE *out)
{
	const int padding = (int)(width - width_of(text));

	if (alignment == 'r')
		fprintf(out, "%*s%s", padding, "", text);
	else
		fprintf(out, "%s%*s", text, is_last ? 0 : padding, "");
	if (!is_last)
		fputs("  ", out);
}

/* On a terminal a long last text continues below itself; in a file a row is one line. */
static void print_last(const char *text, char alignment, size_t width, size_t start,
	const char *end_of_style, FILE *out)
{
	enum { NARROWEST = 16 };
	const size_t columns = (size_t)terminal_columns(out);
	const bool wraps = alignment == 'l' && isatty(fileno(out)) == 1 &&
			   start + width_of(text) > columns && start + NARROWEST <= columns;

	if (wraps) {
		terminal_fill(out, text, start, start, columns);
		fputs(end_of_style, out);
		return;
	}
	print_cell(text, alignment, width, true, out);
	fprintf(out, "%s\n", end_of_style);
}

void table_print(const struct table *table, bool has_heading, FILE *out)
{
	const size_t last = table->columns - 1;
	size_t widths[TABLE_COLUMNS] = { 0 };
	size_t start = 2 * last;

	for (size_t i = 0; i < table->count; i++) {
		for (size_t j = 0; j < table->columns; j++) {
			const size_t width = width_of(table->rows[i].texts[j]);
			widths[j] = width > widths[j] ? width : widths[j];
		}
	}
	for (size_t j = 0; j < last; j++)
		start += widths[j];
	for (size_t i = 0; i < table->count; i++) {
		const struct table_row *const row = &table->rows[i];
		const enum terminal_style style =
			has_heading && i == 0 ? TERMINAL_BOLD : row->style;
		fputs(terminal_begin(out, style), out);
		for (size_t j = 0; j < last; j++)
			print_cell(row->texts[j], table->alignment[j], widths[j], false, out);
		print_last(row->texts[last], table->alignment[last], widths[last], start,
			style == TERMINAL_PLAIN ? "" : terminal_end(out), out);
	}
}
