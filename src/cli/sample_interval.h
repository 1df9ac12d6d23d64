/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mean distance of samples in bytes, as people type it (--sample 16KiB) and as jemalloc takes
 * it (a power of two), and whether as many samples came as a profile needs.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/option.h"
#include "client/target.h"

enum { SAMPLE_LG_MIN = 12, SAMPLE_LG_MAX = 40 };

/* Of parser.value; one that is no power of two is rounded down, which is said. */
MUST_CHECK bool sample_interval_option(struct option_parser *parser, int *lg_sample);

/* The samples of all stacks of a profile. False when it is no profile of jemalloc's. */
struct sample_count {
	uint64_t interval_bytes;
	uint64_t count; /* of what is alive */
	uint64_t bytes; /* of these samples: one of a large allocation represents only itself */
	uint64_t taken; /* also of what has been freed since; 0: not known */
};
MUST_CHECK bool sample_count_read(const char *text, struct sample_count *samples);
MUST_CHECK bool sample_count_of_file(const char *path, struct sample_count *samples);

/* What came of a recording. */
struct sample_yield {
	struct sample_count samples;
	uint64_t older_count; /* of these, as many are from before; sampling was off meanwhile */
	int64_t duration_ms;
	int64_t grown_bytes;  /* more in use by the program than before */
	int64_t in_use_bytes; /* by the program, after it; 0: not known */
	bool was_lowered;     /* the interval, for this recording */
	bool keeps_distances; /* to the next sample, when the interval changes: as jemalloc does */
	bool was_active;      /* sampling, before: the samples are of all that is in use */
	bool has_all;	      /* sampling is on since the process began */
};

/* Reads what the target has in use now; nothing is known of one that does not answer. */
void sample_yield_measure(
	struct sample_yield *yield, const struct target *target, int64_t allocated_before_bytes);

/*
 * Where the samples are few: says so, and which interval would have given a hundred. Nothing where
 * they are enough, or of blocks so large that each is sampled.
 */
void sample_yield_explain(const struct sample_yield *yield, const struct target *target);
