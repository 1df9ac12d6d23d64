/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/top_screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

/* Other screen, no cursor, no wrapping of long lines; and back. */
static const char ENTER[] = "\033[?1049h\033[?25l\033[?7l";
static const char LEAVE[] = "\033[?7h\033[?25h\033[?1049l";

/* What signal handlers need. */
static struct termios original;
static volatile sig_atomic_t is_open;
static volatile sig_atomic_t is_over;

bool top_screen_is_possible(void)
{
	const char *const kind = getenv("TERM");

	return isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1 && kind != NULL &&
	       *kind != '\0' && strcmp(kind, "dumb") != 0;
}

/* Safe in a signal handler. */
static void give_back(void)
{
	if (!is_open)
		return;
	is_open = 0;
	const ssize_t ignored = write(STDOUT_FILENO, LEAVE, sizeof LEAVE - 1);
	(void)ignored;
	tcsetattr(STDIN_FILENO, TCSANOW, &original);
}

static bool take(void)
{
	struct termios raw = original;

	/* Ctrl-C and Ctrl-Z stay signals. */
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_iflag &= ~(tcflag_t)(IXON | ICRNL);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	is_open = 1;
	if (tcsetattr(STDIN_FILENO, TCSANOW, &raw) == 0 &&
		write(STDOUT_FILENO, ENTER, sizeof ENTER - 1) == (ssize_t)(sizeof ENTER - 1))
		return true;
	give_back();
	return false;
}

static void note_end(int number)
{
	(void)number;
	is_over = 1;
}

static void note_size(int number)
{
	(void)number;
}

static void on_crash(int number)
{
	give_back();
	/* The handler is gone by SA_RESETHAND. */
	raise(number);
}

static void on_stop(int number)
{
	const int saved = errno;
	const bool was_open = is_open != 0;

	(void)number;
	give_back();
	raise(SIGSTOP);
	if (was_open)
		(void)take();
	errno = saved;
}

static void handle(int number, void (*handler)(int), int flags)
{
	struct sigaction action = { .sa_handler = handler, .sa_flags = flags };

	sigaction(number, &action, NULL);
}

static void install_handlers(void)
{
	static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	static const int crashes[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		handle(ends[i], note_end, 0);
	for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
		handle(crashes[i], on_crash, (int)(SA_RESETHAND | SA_NODEFER));
	handle(SIGTSTP, on_stop, SA_RESTART);
	handle(SIGWINCH, note_size, 0);
	signal(SIGPIPE, SIG_IGN);
}

bool top_screen_open(struct error *err)
{
	if (tcgetattr(STDIN_FILENO, &original) != 0)
		return error_system(err, errno, "the terminal");
	atexit(give_back);
	install_handlers();
	return take() || error_system(err, errno, "the terminal");
}

void top_screen_close(void)
{
	give_back();
}

struct top_screen_size top_screen_size(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0)
		return (struct top_screen_size){ size.ws_col, size.ws_row };
	return (struct top_screen_size){ 80, 24 };
}

void top_screen_draw(const struct buffer *lines)
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
		is_over = 1;
}

/* The letters of a key's sequence behind ESC [ or ESC O. */
static int key_of_sequence(const char *letters)
{
	static const struct {
		const char *letters;
		int key;
	} keys[] = {
		{ "A", TOP_KEY_UP },
		{ "B", TOP_KEY_DOWN },
		{ "5~", TOP_KEY_PAGE_UP },
		{ "6~", TOP_KEY_PAGE_DOWN },
		{ "H", TOP_KEY_HOME },
		{ "1~", TOP_KEY_HOME },
	};

	for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
		if (strcmp(letters, keys[i].letters) == 0)
			return keys[i].key;
	}
	return TOP_KEY_OTHER;
}

/* Only what has arrived: an ESC alone is the key of that name. */
static int read_sequence(void)
{
	char letters[8] = "", c = '\0';
	size_t size = 0;

	if (read(STDIN_FILENO, &c, 1) != 1)
		return '\033';
	if (c != '[' && c != 'O')
		return TOP_KEY_OTHER;
	while (size < sizeof letters - 1 && read(STDIN_FILENO, &c, 1) == 1) {
		letters[size++] = c;
		if (c >= '@' && c <= '~')
			break;
	}
	return key_of_sequence(letters);
}

int top_screen_read_key(int64_t timeout_ms, int wake_fd)
{
	struct pollfd pollers[] = {
		{ .fd = STDIN_FILENO, .events = POLLIN },
		{ .fd = wake_fd, .events = POLLIN },
	};
	unsigned char c = 0;

	if (is_over || poll(pollers, 2, timeout_ms < 0 ? 0 : (int)timeout_ms) <= 0 ||
		pollers[0].revents == 0)
		return TOP_KEY_NONE;
	if (read(STDIN_FILENO, &c, 1) != 1) {
		is_over = 1;
		return TOP_KEY_NONE;
	}
	return c == '\033' ? read_sequence() : c;
}

bool top_screen_has_ended(void)
{
	return is_over != 0;
}
