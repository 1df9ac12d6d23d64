/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collects the profiles that jemalloc writes itself (lg_prof_interval, prof_gdump, prof_final)
 * as PREFIX.PID.SEQUENCE.KIND.heap, and those of memory_profile.so beside them: if nothing removes
 * them, they fill the disk. A file is taken when it has not changed for a while, for jemalloc
 * writes in place.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct dump_collector;

/* `prefix` as in jemalloc's prof_prefix. */
MUST_CHECK bool dump_collector_new(
	const char *prefix, struct dump_collector **collector, struct error *err);
void dump_collector_free(struct dump_collector *collector);

DEFINE_CLEANUP(dump_collector_cleanup, struct dump_collector *, dump_collector_free)

/*
 * Lists the files. Of those that are ready only the newest `limit` are kept, and the others are
 * removed: a program may write thousands in a second. `dropped` is their number.
 */
MUST_CHECK bool dump_collector_scan(struct dump_collector *collector, int64_t now_ms, size_t limit,
	size_t *dropped, struct error *err);

/* A file that is written completely. */
struct dump {
	int fd; /* open for reading; -1 when there is none. The caller closes it. */
	char path[4096];
	char tag[24], stem[256]; /* "i3" and "jeprof.4711": parts of its name */
	const char *reason;	 /* what made jemalloc write it */
	int64_t time_ms;
};

/*
 * The next one of those that the last scan found ready, oldest first. One that fails, here or with
 * the caller, is tried again a minute later; one that is no profile is reported once and left
 * alone.
 */
MUST_CHECK bool dump_collector_next(
	struct dump_collector *collector, int64_t now_ms, struct dump *dump, struct error *err);
