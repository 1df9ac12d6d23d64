/* SPDX-License-Identifier: Apache-2.0 */
#include "symbol/perf_map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cursor.h"
#include "base/file.h"
#include "base/rooted_file.h"
#include "base/xalloc.h"
#include "symbol/vaddrs.h"

/* Some hundred thousand functions, which no process compiles. */
enum { MAX_MAP_BYTES = 128 << 20 };

/* The process' inner pid, which names its map; `pid` when that is not known. */
static pid_t inner_pid(pid_t pid)
{
	CLEANUP(buffer_deinit) struct buffer status = BUFFER_OR_EXIT;

	if (!file_try_read(&status, "/proc/%d/status", (int)pid))
		return pid;
	const char *const line = strstr(buffer_string(&status), "\nNSpid:");
	if (line == NULL)
		return pid;
	const char *const end = strchrnul(line + 1, '\n');
	const char *last = end;
	while (last > line && last[-1] != '\t' && last[-1] != ' ')
		last--;
	const long inner = strtol(last, NULL, 10);
	return inner > 0 ? (pid_t)inner : pid;
}

/*
 * The user that may have written the map: the process' user; the current one when the process has
 * ended.
 */
static uid_t owner_of(pid_t pid)
{
	char path[64];
	struct stat status;

	snprintf(path, sizeof path, "/proc/%d", (int)pid);
	return stat(path, &status) == 0 ? status.st_uid : geteuid();
}

/* `root` is the folder that the path is below; "" for our own. */
static bool read_map(const char *root, const char *path, uid_t owner, struct buffer *text)
{
	const int flags = O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK;
	CLEANUP(fd_cleanup)
	const int fd = root[0] == '\0' ? open(path, flags) : rooted_file_open(root, path, flags);
	struct stat status;
	struct error err;

	return fd >= 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
	       (status.st_uid == owner || status.st_uid == 0) && file_read_fd(fd, path, text, &err);
}

bool perf_map_read(pid_t pid, struct buffer *path, struct buffer *text)
{
	const uid_t owner = owner_of(pid);
	char root[32];

	text->limit = MAX_MAP_BYTES;
	snprintf(root, sizeof root, "/proc/%d/root", (int)pid);
	buffer_clear(path);
	buffer_printf(path, "%s/tmp/perf-%d.map", root, (int)inner_pid(pid));
	if (read_map(root, path->data + strlen(root), owner, text))
		return true;
	buffer_clear(path);
	buffer_clear(text);
	buffer_printf(path, "/tmp/perf-%d.map", (int)pid);
	return read_map("", buffer_string(path), owner, text);
}

static bool take_hex(const char **at, const char *end, uint64_t *number)
{
	const char *c = *at;

	*number = 0;
	if (end - c > 2 && c[0] == '0' && (c[1] == 'x' || c[1] == 'X'))
		c += 2;
	const char *const first = c;
	for (; c < end && *c != ' '; c++) {
		const int digit = hex_digit(*c);
		if (digit < 0 || c - first >= 16)
			return false;
		*number = *number << 4 | (uint64_t)digit;
	}
	if (c == first || c == end)
		return false;
	*at = c + 1;
	return true;
}

/* Parses a line of the map; false when it is malformed. */
struct map_line {
	uint64_t start;
	uint64_t size;
	const char *name;
};

static bool parse_line(const char *line, const char *end, struct map_line *parsed)
{
	const char *at = line;

	if (!take_hex(&at, end, &parsed->start) || !take_hex(&at, end, &parsed->size) || at == end)
		return false;
	parsed->name = at;
	return true;
}

/* From the last line to the first, so that each address is named once. */
uint64_t perf_map_find(const struct buffer *text, const uint64_t *addresses, size_t count,
	struct perf_map_match *matches)
{
	CLEANUP(free_cleanup) uint32_t *unnamed = xcalloc(count + 1, sizeof *unnamed);
	struct map_line parsed = { 0 };
	uint64_t steps = 0;

	vaddrs_free_all(unnamed, count);
	for (size_t limit = text->size; limit > 0;) {
		const char *const newline = memrchr(text->data, '\n', limit - 1);
		const char *const line = newline == NULL ? text->data : newline + 1;
		const char *const last = text->data + limit - 1;
		const char *const end = *last == '\n' ? last : last + 1;
		limit = (size_t)(line - text->data);
		steps++;
		if (!parse_line(line, end, &parsed))
			continue;
		const size_t first = vaddrs_lower_bound(addresses, count, parsed.start);
		for (uint32_t i = vaddrs_first_free(unnamed, (uint32_t)first);
			i < count && addresses[i] - parsed.start < parsed.size;
			i = vaddrs_first_free(unnamed, i)) {
			matches[i] = (struct perf_map_match){ (size_t)(parsed.name - text->data),
				(size_t)(end - parsed.name) };
			vaddrs_take(unnamed, i);
			steps++;
		}
	}
	return steps;
}
