/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's protocol buffers (profile.proto of google/pprof), usually compressed with gzip.
 *
 * Addresses there lie within the call, not behind it as in heap_v2, so locations that are read are
 * exact, and one is taken from return addresses that are written. Values are estimates already:
 * nothing is left to scale up.
 *
 * Threads: a label "thread" with a number or a name makes a sample that of a thread, on top of
 * counting for all threads together. A label "bytes" is the size of one object.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/error.h"
#include "profile/profile.h"

bool pprof_detect(struct cursor in);
bool pprof_read(struct cursor *in, struct profile *profile, struct error *err);

struct pprof_write_options {
	bool plain; /* do not compress */
};

/*
 * Writes the samples, whose stacks and threads are those of `profile` and whose counters are
 * estimates, with the profile's mappings, names, time and comments.
 *
 * pprof knows whole numbers only. Each counter is rounded so that the sums over all samples are
 * those of the estimates, too: what rounding took from one sample, the next one gets.
 *
 * A mapping is marked as having functions, files or lines only when every location in it that is
 * written has; then go's pprof does not look for symbols on its own.
 */
MUST_CHECK bool pprof_write(const struct profile *profile, const struct profile_sample *samples,
	size_t sample_count, const struct pprof_write_options *options, struct buffer *out,
	struct error *err);
