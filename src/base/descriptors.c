/* SPDX-License-Identifier: Apache-2.0 */
#include "base/descriptors.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

void descriptors_close_from(int first)
{
#ifdef __GLIBC__
	closefrom(first);
#else
	struct rlimit limit;

	if (syscall(SYS_close_range, first, ~0U, 0) == 0 || getrlimit(RLIMIT_NOFILE, &limit) != 0)
		return;
	/* A kernel before 5.9. */
	for (rlim_t fd = (rlim_t)first; fd < limit.rlim_cur; fd++)
		close((int)fd);
#endif
}
