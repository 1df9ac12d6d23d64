/* SPDX-License-Identifier: Apache-2.0 */
#include "base/proc_maps.h"

#include <string.h>

#include "base/cursor.h"

/* Reads a number up to `terminator` and steps over it. */
static bool read_number(
	const char **at, const char *end, unsigned base, char terminator, uint64_t *value)
{
	const char *c = *at;

	*value = 0;
	for (; c < end && *c != terminator; c++) {
		const int digit = hex_digit(*c);
		if (digit < 0 || (unsigned)digit >= base || c - *at >= 20)
			return false;
		*value = *value * base + (unsigned)digit;
	}
	if (c == *at || (c == end && terminator != ' '))
		return false;
	*at = c == end ? c : c + 1;
	return true;
}

bool proc_map_parse(const char *line, size_t size, struct proc_map *map)
{
	static const char deleted[] = " (deleted)";
	const char *at = line;
	const char *const end = line + size;
	struct proc_map parsed = { 0 };
	uint64_t device = 0;

	if (!read_number(&at, end, 16, '-', &parsed.start) ||
		!read_number(&at, end, 16, ' ', &parsed.limit))
		return false;
	if (end - at < 5 || at[4] != ' ')
		return false;
	parsed.readable = at[0] == 'r';
	parsed.writable = at[1] == 'w';
	parsed.executable = at[2] == 'x';
	at += 5;
	if (!read_number(&at, end, 16, ' ', &parsed.file_offset) ||
		!read_number(&at, end, 16, ':', &device) ||
		!read_number(&at, end, 16, ' ', &device) ||
		!read_number(&at, end, 10, ' ', &parsed.inode))
		return false;

	while (at < end && *at == ' ')
		at++;
	parsed.path = at;
	parsed.path_size = (size_t)(end - at);
	const size_t suffix = sizeof deleted - 1;
	if (parsed.path_size > suffix && memcmp(end - suffix, deleted, suffix) == 0) {
		parsed.deleted = true;
		parsed.path_size -= suffix;
	}
	*map = parsed;
	return true;
}

bool proc_map_next(const char **at, const char *end, struct proc_map *map)
{
	while (*at < end) {
		const char *const line = *at;
		const char *const newline = memchr(line, '\n', (size_t)(end - line));
		const char *const stop = newline == NULL ? end : newline;
		*at = newline == NULL ? end : newline + 1;
		if (proc_map_parse(line, (size_t)(stop - line), map))
			return true;
	}
	return false;
}
