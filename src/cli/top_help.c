/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top_help.h"

#include "cli/terminal.h"
#include "cli/top_table.h"

static const char *const lines[] = {
	"q      quit",
	"u      sort by bytes in use",
	"g      sort by growth",
	"o      sort by objects",
	"s      show sites",
	"t      show threads",
	"p      show processes, as a tree",
	"/      only names with a text",
	"f      freeze; the space bar, too",
	"a      switch sampling on, off",
	"b      growth counts from now",
	"arrows, pages, home: scroll",
};

enum { LINES = sizeof lines / sizeof *lines };

bool top_help_is_cut(size_t rows)
{
	return LINES > rows;
}

bool top_help_scroll(int key, size_t rows, size_t *skip)
{
	const size_t last = top_help_is_cut(rows) ? LINES - rows : 0;
	const size_t step = key == SCREEN_KEY_UP || key == SCREEN_KEY_DOWN ? 1 : rows;

	switch (key) {
	case SCREEN_KEY_UP:
	case SCREEN_KEY_PAGE_UP:
		*skip -= *skip < step ? *skip : step;
		return true;
	case SCREEN_KEY_DOWN:
	case SCREEN_KEY_PAGE_DOWN:
		*skip = *skip + step > last ? last : *skip + step;
		return true;
	case SCREEN_KEY_HOME:
		*skip = 0;
		return true;
	default:
		return false;
	}
}

void top_help_write(size_t columns, size_t rows, size_t skip, struct buffer *out)
{
	for (size_t i = skip; i < LINES && i - skip < rows; i++)
		top_table_line(out, columns, lines[i]);
}
