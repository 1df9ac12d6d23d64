/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the profiles of files were taken that do not tell it themselves. A file's modification time
 * is that moment, to the nanosecond, until the file is copied without it (scp, cp, an archive of
 * some web page): then growth per hour would be that of copying. The names that heapctl gives
 * (dump, record, watch) have the moment in whole seconds, and tell.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/series.h"

struct trend_time {
	size_t profile;	  /* in the series; its time_ms is set */
	int64_t file_ms;  /* modification time of its file */
	int64_t named_ms; /* the time in its name; 0 when there is none */
};

/*
 * The moment in a name such as "redis-server.4711.20261121-101500.heap" (local time) or
 * "00000012-20261121T101500Z-resident-redis-server.heap"; 0 when there is none.
 */
int64_t trend_time_in_name(const char *path);

/*
 * Sets the times of all: of the names where every file has one and the files' own times do not go
 * along with them, else of the files. True when it is those of the names.
 */
bool trend_time_set(struct series *series, const struct trend_time *times, size_t count);
