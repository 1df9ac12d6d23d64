/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a terminal can do and a script must not see: colours, a progress bar, Ctrl-C that means
 * "enough" at first and "go away" the second time; at the end one picture on the whole screen.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buffer.h"
#include "base/error.h"

enum terminal_style {
	TERMINAL_PLAIN,
	TERMINAL_BOLD,
	TERMINAL_DIM,
	TERMINAL_GOOD,
	TERMINAL_WARNING,
	TERMINAL_BAD,
};

/*
 * The sequences around styled text; "" where colours are not welcome: no terminal, NO_COLOR,
 * TERM=dumb.
 */
const char *terminal_begin(FILE *out, enum terminal_style style);
const char *terminal_end(FILE *out);

/*
 * The text without what a terminal would obey or not show (base/utf8.h). The caller frees it.
 */
char *terminal_copy(const char *text);

/* Columns of the terminal, or 80. */
int terminal_columns(FILE *out);

/*
 * Prints a text filled to lines of at most `limit` columns, each after the first indented by
 * `indent` blanks; `column` is where the first one begins. Paragraphs are separated by empty
 * lines; a line that begins with a blank is kept as it is.
 */
void terminal_fill(FILE *out, const char *text, size_t column, size_t indent, size_t limit);

/*
 * Draws the bar for `done_ms` of `total_ms` on stderr, over the one before. Does nothing unless
 * stderr is a terminal.
 */
void terminal_progress(const char *what, int64_t done_ms, int64_t total_ms);
void terminal_progress_end(void);

/*
 * From now on the first SIGINT or SIGTERM only sets the flag and wakes sleeping calls; another one
 * ends the program as usual. SIGHUP does the same as the first, unless it was ignored (nohup): a
 * terminal that disconnects sends it more than once.
 */
void terminal_catch_interrupts(void);
/* The next one ends the program, until terminal_catch_interrupts is called again. */
void terminal_release_interrupts(void);
bool terminal_was_interrupted(void);

/*
 * A descriptor that becomes readable at an interrupt, to wait for it with others; -1 before.
 */
const int *terminal_interrupt_fd(void);

/* Sleeps, until the first interrupt at the longest. */
void terminal_sleep_ms(int64_t duration_ms);

/*
 * Rows with aligned columns, for people. Texts are counted in characters of UTF-8; the last
 * column is not padded, and on a terminal it continues in the next line when it is too long.
 * Control characters in a text are shown as '?', so that the name of a process cannot steer the
 * terminal.
 */

enum { TABLE_COLUMNS = 10 };

struct table;

/* `alignment` has one letter per column: 'l' or 'r'. */
struct table *table_new(const char *alignment);
void table_free(struct table *table);

DEFINE_CLEANUP(table_cleanup, struct table *, table_free)

/* The texts are copied; as many as there are columns. */
void table_add(struct table *table, enum terminal_style style, const char *const *texts);

/* Rows in the order of adding; the first one is the heading when `has_heading`. */
void table_print(const struct table *table, bool has_heading, FILE *out);

/*
 * The screen of a terminal, which shows one picture, and single keys. However the program ends - a
 * signal, a crash, exit, Ctrl-Z - the terminal is restored; only after SIGKILL it is not (`reset`).
 * One per process.
 */

/* Whether stdin and stdout are a terminal that can do it. */
bool screen_is_possible(void);

MUST_CHECK bool screen_open(struct error *err);
void screen_close(void);

struct screen_size {
	int columns, rows;
};
struct screen_size screen_size(void);

/* Replaces the picture: lines that end with '\n', not longer than the screen is wide. */
void screen_draw(const struct buffer *lines);

enum screen_key {
	SCREEN_KEY_NONE = -1, /* a timeout, a new size, or a signal */
	SCREEN_KEY_UP = 256,
	SCREEN_KEY_DOWN,
	SCREEN_KEY_PAGE_UP,
	SCREEN_KEY_PAGE_DOWN,
	SCREEN_KEY_HOME,
	SCREEN_KEY_OTHER, /* one that is not known */
};

/* A byte that was typed, or one of the above. NONE as well once `wake_fd` (-1: none) can be read.
 */
int screen_read_key(int64_t timeout_ms, int wake_fd);

/* Whether a signal ends the program, or the terminal has disconnected. */
bool screen_has_ended(void);
