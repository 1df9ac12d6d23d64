/* SPDX-License-Identifier: Apache-2.0 */
#include "client/heap_text.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

enum {
	/* Lines of other kinds, such as ClickHouse's of its frames' names. */
	OTHER_BYTES_MAX = 4 * 1024 * 1024,
	/* A path, and what a map has in front of it. */
	MAP_LINE_BYTES_MAX = 8192,
};

struct heap_line {
	const char *text;
	size_t size;
};

static bool begins(const struct heap_line *line, const char *text)
{
	const size_t size = strlen(text);

	return line->size >= size && memcmp(line->text, text, size) == 0;
}

static size_t count_digits(const struct heap_line *line, size_t at)
{
	const size_t begin = at;

	while (at < line->size && isdigit((unsigned char)line->text[at]))
		at++;
	return at - begin;
}

/* "heap_v2/524288" */
static bool is_head(const struct heap_line *line)
{
	static const char head[] = "heap_v2/";
	const size_t size = sizeof head - 1;
	const size_t digits = begins(line, head) ? count_digits(line, size) : 0;

	return digits > 0 && size + digits == line->size;
}

/* "  t*: 28: 1500 [0: 0]", or of a thread, whose name may follow. */
static bool is_counter(const struct heap_line *line)
{
	size_t at = 3;

	if (!begins(line, "  t") || line->size < 6)
		return false;
	at += line->text[at] == '*' ? 1 : count_digits(line, at);
	if (at == 3 || at + 2 > line->size || memcmp(line->text + at, ": ", 2) != 0)
		return false;
	return count_digits(line, at + 2) > 0;
}

/* "@ 0x7f06a3a2630 0x55d41fef4427" */
static bool is_stack(const struct heap_line *line)
{
	if (!begins(line, "@"))
		return false;
	for (size_t i = 1; i < line->size; i++) {
		const unsigned char c = (unsigned char)line->text[i];
		if (c != ' ' && c != 'x' && !isxdigit(c))
			return false;
	}
	return true;
}

/* "55d41fef2000-55d41fef4000 r--p ..." */
static bool is_map(const struct heap_line *line)
{
	size_t at = 0;

	while (at < line->size && isxdigit((unsigned char)line->text[at]))
		at++;
	if (at == 0 || at >= line->size || line->text[at] != '-')
		return false;
	return line->size <= MAP_LINE_BYTES_MAX && isxdigit((unsigned char)line->text[at + 1]);
}

static bool refuse(size_t number, struct error *err)
{
	return error_set(err, ERROR_INPUT, "the answer is not a heap profile: line %zu", number);
}

bool heap_text_check(const char *text, size_t size, struct error *err)
{
	const char *const end = text + size;
	bool has_total = false, is_in_maps = false;
	size_t other_bytes = 0, number = 0;

	while (text < end) {
		const char *const stop = memchr(text, '\n', (size_t)(end - text));
		const struct heap_line line = { text,
			(size_t)((stop == NULL ? end : stop) - text) };
		text = stop == NULL ? end : stop + 1;
		number++;
		if (number == 1) {
			if (!is_head(&line))
				return refuse(number, err);
		} else if (is_in_maps) {
			if (line.size > 0 && !is_map(&line))
				return refuse(number, err);
		} else if (line.size == 0 || is_stack(&line)) {
			continue;
		} else if (is_counter(&line)) {
			has_total = true;
		} else if (begins(&line, "MAPPED_LIBRARIES:")) {
			is_in_maps = true;
		} else {
			other_bytes += line.size;
			if (memchr(line.text, '\0', line.size) != NULL ||
				other_bytes > OTHER_BYTES_MAX)
				return refuse(number, err);
		}
		if (number > 1 && line.size > 0 && !has_total && other_bytes == 0)
			return refuse(number, err);
	}
	return has_total || refuse(number, err);
}
