/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of /proc/PID/maps (proc(5)), which are also the last part of every jemalloc profile.
 * Parsing takes no memory; safe on the resident side.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct proc_map {
	uint64_t start; /* first address */
	uint64_t limit; /* one past the last */
	uint64_t file_offset;
	uint64_t inode;
	bool readable;
	bool writable;
	bool executable;
	bool deleted;	  /* the file's name carried " (deleted)", which is cut off `path` */
	const char *path; /* into the line; not NUL-terminated; "" for anonymous memory */
	size_t path_size;
};

/*
 * Parses the line at `line`, `size` bytes without its newline. False when it is not one: a comment,
 * a truncated line.
 */
bool proc_map_parse(const char *line, size_t size, struct proc_map *map);

/*
 * The next mapping of the text from `*at` to `end`, whose other lines are passed over; false behind
 * the last. `*at` moves behind its line.
 */
bool proc_map_next(const char **at, const char *end, struct proc_map *map);
