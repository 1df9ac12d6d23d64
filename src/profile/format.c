/* SPDX-License-Identifier: Apache-2.0 */
#include "profile/format.h"

#include "profile/collapsed.h"
#include "profile/contention.h"
#include "profile/cpu_profile.h"
#include "profile/gperftools.h"
#include "profile/heap_v2.h"
#include "profile/pprof.h"

/* In the order in which they are tried. */
static const struct profile_reader formats[] = {
	{ heap_v2_detect, heap_v2_read },
	{ gperftools_detect, gperftools_read },
	{ contention_detect, contention_read },
	{ cpu_profile_detect, cpu_profile_read },
	{ pprof_detect, pprof_read },
	{ collapsed_detect, collapsed_read },
};

const struct profile_reader *profile_reader_find(const struct cursor *in)
{
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
		if (formats[i].detect(*in))
			return &formats[i];
	return NULL;
}
