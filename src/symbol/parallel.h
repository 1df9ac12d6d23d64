/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Independent pieces of work on several threads. Pieces are started in order, one at a time, so put
 * the big ones first; results must not depend on the thread.
 */
#pragma once

#include <stddef.h>

enum {
	PARALLEL_STACK_BYTES = 64 << 20, /* of each thread: demangling recurses deeply */
};

typedef void parallel_work(void *context, size_t index);

/*
 * Calls work(context, i) for every i below count and returns when all are done. At most `threads`
 * run at once (0: as many as there are processors). Even a single piece runs on a thread of its
 * own.
 */
void parallel_run(size_t count, unsigned threads, parallel_work *work, void *context);
