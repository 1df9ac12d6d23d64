/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/terminal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/units.h"
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

static volatile sig_atomic_t interrupts, hangups;
static int interrupt_reader = -1, interrupt_writer = -1;

static void note_interrupt(int number)
{
	const int saved = errno;

	/* Full or not there: the flag is enough. */
	(void)!write(interrupt_writer, "", 1);
	errno = saved;
	if (number == SIGHUP)
		hangups = 1;
	/* The next one works as usual. */
	else if (interrupts++ > 0) {
		signal(number, SIG_DFL);
		raise(number);
	}
}

void terminal_catch_interrupts(void)
{
	struct sigaction action = { .sa_handler = note_interrupt }, former;
	int ends[2];

	if (interrupt_writer < 0 && pipe2(ends, O_CLOEXEC | O_NONBLOCK) == 0) {
		interrupt_reader = ends[0];
		interrupt_writer = ends[1];
	}
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	if (sigaction(SIGHUP, NULL, &former) == 0 && former.sa_handler != SIG_IGN)
		sigaction(SIGHUP, &action, NULL);
}

void terminal_release_interrupts(void)
{
	static const int numbers[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction former;

	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
		if (sigaction(numbers[i], NULL, &former) == 0 &&
			former.sa_handler == note_interrupt)
			signal(numbers[i], SIG_DFL);
	}
}

bool terminal_was_interrupted(void)
{
	return interrupts > 0 || hangups > 0;
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

/* Other screen, no cursor, no wrapping of long lines; and back. */
static const char ENTER_SCREEN[] = "\033[?1049h\033[?25l\033[?7l";
static const char LEAVE_SCREEN[] = "\033[?7h\033[?25h\033[?1049l";

/* What signal handlers need. */
static struct termios before_screen;
static volatile sig_atomic_t is_screen_open;
static volatile sig_atomic_t has_screen_ended;

bool screen_is_possible(void)
{
	const char *const kind = getenv("TERM");

	return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && kind != NULL &&
	       *kind != '\0' && strcmp(kind, "dumb") != 0;
}

/* Safe in a signal handler. */
static void leave_screen(void)
{
	if (!is_screen_open)
		return;
	is_screen_open = 0;
	const ssize_t ignored = write(STDOUT_FILENO, LEAVE_SCREEN, sizeof LEAVE_SCREEN - 1);
	(void)ignored;
	tcsetattr(STDIN_FILENO, TCSANOW, &before_screen);
}

static bool take_screen(void)
{
	struct termios raw = before_screen;

	/* Ctrl-C and Ctrl-Z stay signals. */
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	is_screen_open = 1;
	if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0 &&
		write(STDOUT_FILENO, ENTER_SCREEN, sizeof ENTER_SCREEN - 1) ==
			(ssize_t)(sizeof ENTER_SCREEN - 1))
		return true;
	leave_screen();
	return false;
}

static void note_end(int number)
{
	(void)number;
	has_screen_ended = 1;
}

static void note_size(int number)
{
	(void)number;
}

static void on_crash(int number)
{
	leave_screen();
	/* The handler is gone by SA_RESETHAND. */
	raise(number);
}

static void on_stop(int number)
{
	const int saved = errno;
	const bool was_open = is_screen_open != 0;

	(void)number;
	leave_screen();
	raise(SIGSTOP);
	if (was_open)
		(void)take_screen();
	errno = saved;
}

static void set_handler(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(number, &action, NULL);
}

static void install_handlers(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		set_handler(ends[i], note_end, 0);
	for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
		set_handler(crashes[i], on_crash, (int)(SA_RESETHAND | SA_NODEFER));
	set_handler(SIGTSTP, on_stop, SA_RESTART);
	set_handler(SIGWINCH, note_size, 0);
	signal(SIGPIPE, SIG_IGN);
}

bool screen_open(struct error *err)
{
	if (tcgetattr(STDIN_FILENO, &before_screen) != 0)
		return error_system(err, errno, "the terminal");
	atexit(leave_screen);
	install_handlers();
	return take_screen() || error_system(err, errno, "the terminal");
}

void screen_close(void)
{
	leave_screen();
}

struct screen_size screen_size(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
		return (struct screen_size){ size.ws_col, size.ws_row };
	return (struct screen_size){ 80, 24 };
}

void screen_draw(const struct buffer *lines)
{
	CLEANUP(buffer_deinit) struct buffer out = BUFFER_OR_EXIT;
	struct error err;

	buffer_append_string(&out, "\033[H");
	for (size_t i = 0; i < lines->size; i++) {
		if (lines->data[i] != '\n')
			buffer_append_char(&out, lines->data[i]);
		else
			buffer_append_string(&out, i + 1 < lines->size ? "\033[K\r\n" : "\033[K");
	}
	buffer_append_string(&out, "\033[J");
	if (!file_write_fd(STDOUT_FILENO, "the terminal", out.data, out.size, &err))
		has_screen_ended = 1;
}

/* The letters of a key's sequence behind ESC [ or ESC O. */
static int key_of_sequence(const char *letters)
{
	static const struct {
		const char *letters;
		int key;
	} keys[] = {
		{ "A", SCREEN_KEY_UP },
		{ "B", SCREEN_KEY_DOWN },
		{ "5~", SCREEN_KEY_PAGE_UP },
		{ "6~", SCREEN_KEY_PAGE_DOWN },
		{ "H", SCREEN_KEY_HOME },
		{ "1~", SCREEN_KEY_HOME },
	};

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		if (strcmp(letters, keys[i].letters) == 0)
			return keys[i].key;
	}
	return SCREEN_KEY_OTHER;
}

/* Only what has arrived: an ESC alone is the key of that name. */
static int read_sequence(void)
{
	char letters[8] = "", c = '\0';
	size_t size = 0;

	if (read(STDIN_FILENO, &c, 1) != 1)
		return '\033';
	if (c != '[' && c != 'O')
		return SCREEN_KEY_OTHER;
	while (size < sizeof letters - 1 && read(STDIN_FILENO, &c, 1) == 1) {
		letters[size++] = c;
		if (c >= '@' && c <= '~')
			break;
	}
	return key_of_sequence(letters);
}

int screen_read_key(int64_t timeout_ms, int wake_fd)
{
	struct pollfd pollers[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = wake_fd, .events = POLLIN },
	};
	unsigned char c = 0;

	if (has_screen_ended || poll(pollers, 2, timeout_ms < 0 ? 0 : (int)timeout_ms) <= 0 ||
		pollers[0].revents == 0)
		return SCREEN_KEY_NONE;
	if (read(STDIN_FILENO, &c, 1) != 1) {
		has_screen_ended = 1;
		return SCREEN_KEY_NONE;
	}
	return c == '\033' ? read_sequence() : c;
}

bool screen_has_ended(void)
{
	return has_screen_ended != 0;
}
