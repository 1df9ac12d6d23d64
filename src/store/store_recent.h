/* SPDX-License-Identifier: Apache-2.0 */
/* The figures of all processes lately, thinned: for a list of them. */
#pragma once

#include "base/error.h"
#include "store/store.h"

struct store_recent {
	const char *target;
	int64_t pid, started_ms;
	int64_t time_ms;
	uint64_t allocated, rss; /* 0: not known */
	const char *reason;	 /* of a capture, "" of a regular one */
};

/*
 * Calls for the last snapshot of each process in each `step_ms` from `from_ms` on, by target,
 * process and time; at most `max` times. One pass over the rows of that time. Nothing may be called
 * of the store meanwhile.
 */
MUST_CHECK bool store_each_recent(struct store *store, int64_t from_ms, int64_t step_ms, size_t max,
	void (*take)(void *context, const struct store_recent *recent), void *context,
	struct error *err);
