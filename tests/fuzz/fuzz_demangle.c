/* SPDX-License-Identifier: Apache-2.0 */
/* A linkage name; the thread has the stack that the symbolizer gives it. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"
#include "symbol/demangle.h"
#include "symbol/work.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demangle(void *context, size_t index)
{
	CLEANUP(buffer_deinit) struct buffer out = { 0 };

	(void)index;
	buffer_init(&out, &memory_or_exit);
	if (demangle_append(context, &out) && out.size > DEMANGLE_MAX_RESULT_BYTES)
		__builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	CLEANUP(free_cleanup) char *name = xstrndup((const char *)data, size);

	parallel_run(1, 1, demangle, name);
	return 0;
}
