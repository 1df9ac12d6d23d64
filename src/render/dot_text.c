/* SPDX-License-Identifier: Apache-2.0 */
#include "render/dot_text.h"

#include <stdbool.h>
#include <string.h>

#include "base/utf8.h"
#include "base/xalloc.h"

#define ELLIPSIS "\xe2\x80\xa6"

enum {
	LINE_LENGTH = 32,    /* a name up to this stays on one line */
	BRACKET_LENGTH = 20, /* the longest argument list that is shown */
	LONGEST_LINE = 64,   /* bytes; what is left of a longer piece is its two ends */
};

static void append_character(
	struct buffer *out, const char *at, size_t length, const char *backslash)
{
	/* U+FFFE and U+FFFF are characters that XML, and so SVG, may not hold */
	if (length == 0 ||
		(length == 3 && memcmp(at, "\xef\xbf", 2) == 0 && (unsigned char)at[2] >= 0xbe))
		buffer_append_string(out, UTF8_REPLACEMENT);
	else if (*at == '"')
		buffer_append_string(out, "\\\"");
	else if (*at == '\\')
		buffer_append_string(out, backslash);
	else if (*at == '&')
		buffer_append_string(out, "&amp;");
	else if ((unsigned char)*at < 0x20 || *at == 0x7f)
		buffer_append_char(out, ' ');
	else
		buffer_append(out, at, length);
}

static void append_text(struct buffer *out, const char *text, size_t size, const char *backslash)
{
	const char *const end = text + size;

	while (text < end) {
		const size_t length = utf8_length(text, (size_t)(end - text));
		append_character(out, text, length, backslash);
		text += length == 0 ? 1 : length;
	}
}

void dot_text_append(struct buffer *out, const char *text, size_t size)
{
	append_text(out, text, size, "\\\\");
}

void dot_text_append_tooltip(struct buffer *out, const char *text)
{
	append_text(out, text, strlen(text), "\\\\\\\\");
}

/* The bracket that closes the one at `open`, or NULL. "->" and operator< close nothing. */
static const char *find_closing(const char *open)
{
	size_t depth = 0;

	for (const char *at = open; *at != '\0'; at++) {
		if (*at == '<' || *at == '(')
			depth++;
		else if ((*at == '>' && at[-1] != '-') || *at == ')')
			depth--;
		if (depth == 0)
			return at;
	}
	return NULL;
}

/*
 * Whether a bracket at `at` encloses arguments: not in "operator<", "operator()", nor in names that
 * begin with it as "(anonymous namespace)" and Rust's "<T as Trait>" do.
 */
static bool encloses_arguments(const char *name, const char *at)
{
	static const char word[] = "operator";
	const size_t length = sizeof word - 1;

	if (at == name || at[-1] == ':' || at[-1] == ' ')
		return false;
	return (size_t)(at - name) < length || memcmp(at - length, word, length) != 0;
}

/* The name with long bracketed parts cut out. */
static void shorten(struct buffer *out, const char *name)
{
	for (const char *at = name; *at != '\0'; at++) {
		buffer_append_char(out, *at);
		if ((*at != '<' && *at != '(') || !encloses_arguments(name, at))
			continue;
		const char *const closing = find_closing(at);
		if (closing == NULL || closing - at <= BRACKET_LENGTH)
			continue;
		buffer_append_string(out, ELLIPSIS);
		at = closing - 1;
	}
}

static bool is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

static void append_line(struct buffer *out, const char *text, size_t size)
{
	size_t head = LONGEST_LINE / 2, tail = LONGEST_LINE / 2;

	if (size <= LONGEST_LINE) {
		dot_text_append(out, text, size);
		return;
	}
	while (is_continuation(text[head]))
		head--;
	while (tail > 0 && is_continuation(text[size - tail]))
		tail--;
	dot_text_append(out, text, head);
	buffer_append_string(out, ELLIPSIS);
	dot_text_append(out, text + size - tail, tail);
}

/* Where the piece that begins at `text` ends: behind "::", before a space, outside brackets. */
static const char *find_piece_end(const char *text)
{
	size_t depth = 0;

	for (const char *at = text; *at != '\0'; at++) {
		if (*at == '<' || *at == '(')
			depth++;
		else if ((*at == '>' || *at == ')') && depth > 0)
			depth--;
		if (depth == 0 && *at == ' ' && at > text)
			return at;
		if (depth == 0 && at[0] == ':' && at[1] == ':' && at[2] != '\0')
			return at + 2;
	}
	return text + strlen(text);
}

void dot_text_append_name(struct buffer *out, const char *name)
{
	CLEANUP(buffer_deinit) struct buffer cut = { 0 };

	buffer_init(&cut, &memory_or_exit);
	shorten(&cut, name);
	const char *line = buffer_string(&cut), *at = line;

	if (strlen(line) <= LINE_LENGTH) {
		dot_text_append(out, line, strlen(line));
		return;
	}
	while (*at != '\0') {
		const char *const piece = find_piece_end(at);
		if (at > line && piece - line > LINE_LENGTH) {
			append_line(out, line, (size_t)(at - line));
			buffer_append_string(out, "\\n");
			line = at + (*at == ' ');
		}
		at = piece;
	}
	append_line(out, line, (size_t)(at - line));
}
