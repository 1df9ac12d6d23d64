/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of code that a process made at run time, from the map that it writes for perf:
 * /tmp/perf-PID.map, lines of "START SIZE NAME" in hexadecimal. A JIT that reuses an address writes
 * a later line, so the last one counts. Any user can put a file into /tmp: one that belongs to
 * neither the process' user nor root is not read.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"

struct perf_map_match {
	size_t name;	  /* offset in the map's text */
	size_t name_size; /* 0 where no line covers the address */
};

/* Reads the map of a process, through its own root if it is in a container. */
MUST_CHECK bool perf_map_read(pid_t pid, struct buffer *path, struct buffer *text);

/*
 * Fills matches[i] for addresses[i], which are sorted. Malformed lines are skipped. Returns how
 * many lines and addresses it went through, for tests.
 */
uint64_t perf_map_find(const struct buffer *text, const uint64_t *addresses, size_t count,
	struct perf_map_match *matches);
