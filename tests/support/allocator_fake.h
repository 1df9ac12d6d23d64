/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator that does as a test says: profiles of given bytes, slow dumps, failures on demand.
 * It starts as a jemalloc 5.3.0 with profiling enabled and inactive. One thread may change the
 * script while others call: the fields are atomic.
 */
#pragma once

#include <stdatomic.h>

#include "allocator/allocator.h"

struct allocator_fake {
	struct allocator allocator; /* may be copied: its context is this fake */
	/* the script */
	_Atomic(const char *) profile; /* what a dump writes; NUL-terminated */
	const char *statistics;	       /* what stats prints */
	atomic_uint dump_delay_ms;     /* a dump takes this long, or until it is less */
	atomic_uint fail_at;	       /* the call with this number fails; 0: none */
	struct error failure;	       /* what a failing call reports */
	struct allocator_memory figures;
	/* What takes the stacks of samples; NULL: it cannot be set. */
	allocator_backtrace *backtrace;
	/* what happened */
	atomic_uint calls; /* fallible operations so far */
	atomic_uint dumps;
	atomic_uint resets;
	atomic_uint threads_off; /* threads that asked not to be sampled */
	atomic_bool active;
	atomic_bool gdump;
	atomic_uint lg_sample;
};

void allocator_fake_init(struct allocator_fake *fake);

/* Makes the next call fail with this error. */
void allocator_fake_fail_next(
	struct allocator_fake *fake, enum error_kind kind, int errnum, const char *message);
