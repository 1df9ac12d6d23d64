/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of heapctl serve --watch-file (docs/watch-file.md): sections that begin with the name of
 * a target or a pattern of names, then settings, one in a line.
 *
 *	# before the OOM killer comes
 *	[redis-server]
 *	user = redis
 *	when = cgroup>85%
 *	when = growth>10%/h
 *	keep = /var/lib/heaps/redis
 *	then = /usr/local/bin/upload --bucket heaps
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/user_name.h"
#include "watch/settings.h"

enum { WATCH_SECTIONS_MAX = 64, WATCH_PATTERN_BYTES = 128 };

struct watch_section {
	char pattern[WATCH_PATTERN_BYTES]; /* with * ? [...] as in file names, or a name */
	unsigned line;			   /* of its head */
	uid_t user;			   /* whose processes alone; USER_ANY */
	char program[SETTINGS_PATH_BYTES]; /* of that path alone; "" for any */
	unsigned number; /* 1, or more for a further section of the same pattern */
	struct watch_settings settings;
};

struct watch_file {
	struct watch_section *sections;
	size_t count, capacity;
};

/*
 * Takes the text apart. `has_history`: captures without `keep` have a place to go to. ERROR_INPUT
 * with "NAME:LINE: " in front. Free with watch_file_deinit.
 */
MUST_CHECK bool watch_file_parse(const char *name, const char *text, size_t size, bool has_history,
	struct watch_file *file, struct error *err);

/*
 * Reads and parses it. ERROR_DENIED when others than root and this user may change the file: it
 * names commands.
 */
MUST_CHECK bool watch_file_read(
	const char *path, bool has_history, struct watch_file *file, struct error *err);

void watch_file_deinit(struct watch_file *file);

static inline void watch_file_cleanup(struct watch_file *file)
{
	watch_file_deinit(file);
}

/* Whether the pattern stands for several names. */
bool watch_section_is_pattern(const struct watch_section *section);
