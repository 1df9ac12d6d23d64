/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/quantity.h"
#include "base/utf8.h"
#include "base/xalloc.h"

/* Whether `out` is a terminal where colours are welcome. */
static bool has_colour(FILE *out)
{
	const char *const no_colour = getenv("NO_COLOR");
	const char *const kind = getenv("TERM");

	if (no_colour != NULL && *no_colour != '\0')
		return false;
	return isatty(fileno(out)) == 1 && kind != NULL && strcmp(kind, "dumb") != 0;
}

char *terminal_copy(const char *text)
{
	struct buffer copy = BUFFER_OR_EXIT;

	utf8_append_printable(&copy, text, strlen(text));
	return buffer_take(&copy);
}

const char *terminal_begin(FILE *out, enum terminal_style style)
{
	static const char *const sequences[] = {
		[TERMINAL_PLAIN] = "",
		[TERMINAL_BOLD] = "\033[1m",
		[TERMINAL_DIM] = "\033[2m",
		[TERMINAL_GOOD] = "\033[32m",
		[TERMINAL_WARNING] = "\033[33m",
		[TERMINAL_BAD] = "\033[31m",
	};

	return has_colour(out) ? sequences[style] : "";
}

const char *terminal_end(FILE *out)
{
	return has_colour(out) ? "\033[0m" : "";
}

int terminal_columns(FILE *out)
{
	struct winsize size;

	if (ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col >= 20)
		return size.ws_col;
	return 80;
}

static void new_line(FILE *out, size_t indent)
{
	fprintf(out, "\n%*s", (int)indent, "");
}

/* One paragraph, or a line that is kept; returns where it ended in the text. */
static const char *fill_paragraph(
	FILE *out, const char *text, size_t column, size_t indent, size_t limit)
{
	bool is_first = true;

	while (*text != '\0' && *text != '\n') {
		const size_t word = strcspn(text, " \n");

		if (!is_first && column + 1 + word > limit) {
			new_line(out, indent);
			column = indent;
			is_first = true;
		}
		column += (size_t)fprintf(out, "%s%.*s", is_first ? "" : " ", (int)word, text);
		is_first = false;
		text += word;
		text += strspn(text, " ");
		if (*text == '\n' && text[1] != '\n' && text[1] != ' ' && text[1] != '\0')
			text++;
	}
	return text;
}

void terminal_fill(FILE *out, const char *text, size_t column, size_t indent, size_t limit)
{
	while (*text != '\0') {
		if (*text == ' ') {
			const size_t line = strcspn(text, "\n");
			fwrite(text, 1, line, out);
			text += line;
		} else {
			text = fill_paragraph(out, text, column, indent, limit);
		}
		for (; *text == '\n'; text++) {
			if (text[1] != '\0' && text[1] != '\n')
				new_line(out, indent);
			else if (text[1] != '\0')
				fputc('\n', out);
		}
		column = indent;
	}
	fputc('\n', out);
}

void terminal_progress(const char *what, int64_t done_ms, int64_t total_ms)
{
	enum { BAR_MAX = 30, BAR_MIN = 10, AROUND = 20 };
	const int columns = terminal_columns(stderr);
	const int fitting = columns - AROUND - (int)strlen(what);
	const int bar = fitting > BAR_MAX ? BAR_MAX : fitting < BAR_MIN ? BAR_MIN : fitting;
	char left[DURATION_TEXT_BYTES];

	if (isatty(STDERR_FILENO) != 1 || total_ms <= 0)
		return;
	if (done_ms > total_ms)
		done_ms = total_ms;
	const int filled = (int)(done_ms * bar / total_ms);
	/* Rounded up: "1 s left" until the end. */
	const int64_t left_ms = (total_ms - done_ms + 999) / 1000 * 1000;
	const int room = columns - bar - AROUND;
	fprintf(stderr, "\r\033[K%.*s [", room < 0 ? 0 : room, what);
	for (int i = 0; i < bar; i++)
		fputc(i < filled ? '#' : '.', stderr);
	fprintf(stderr, "] %s left", duration_format(left_ms, left));
	fflush(stderr);
}

void terminal_progress_end(void)
{
	if (isatty(STDERR_FILENO) == 1)
		fputs("\r\033[K", stderr);
}

static volatile sig_atomic_t interrupts;
static int interrupt_reader = -1, interrupt_writer = -1;

static void note_interrupt(int number)
{
	const int saved = errno;

	/* Full or not there: the flag is enough. */
	(void)!write(interrupt_writer, "", 1);
	errno = saved;
	/* The next one works as usual. */
	if (interrupts++ > 0) {
		signal(number, SIG_DFL);
		raise(number);
	}
}

void terminal_catch_interrupts(void)
{
	struct sigaction action = { .sa_handler = note_interrupt };
	int ends[2];

	if (interrupt_writer < 0 && pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
		interrupt_reader = ends[0];
		interrupt_writer = ends[1];
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGHUP, SIG_IGN);
}

bool terminal_was_interrupted(void)
{
	return interrupts > 0;
}

const int *terminal_interrupt_fd(void)
{
	return &interrupt_reader;
}

void terminal_sleep_ms(int64_t duration_ms)
{
	const int64_t end_ms = clock_monotonic_ms() + duration_ms;

	/* An interrupt just before poll() counts, too, so it is waited for by its descriptor. */
	for (int64_t left_ms = duration_ms; left_ms > 0 && !terminal_was_interrupted();
		left_ms = end_ms - clock_monotonic_ms()) {
		struct pollfd interrupt = { .fd = interrupt_reader, .events = POLLIN };
		poll(&interrupt, 1, left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
	}
}

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
	struct table_row *const row = XAPPEND(table->rows, table->count, table->capacity);

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
