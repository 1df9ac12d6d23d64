/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/readers.h"

#include <stddef.h>

/* In the order in which they are tried. */
static const struct profile_reader *const formats[] = {
	&heap_v2_reader,
	&gperftools_reader,
	&contention_reader,
	&cpu_profile_reader,
	&pprof_reader,
	&collapsed_reader,
};

const struct profile_reader *profile_reader_find(const struct cursor *in)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (formats[i]->detect(*in))
			return formats[i];
	return NULL;
}
