/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: 0.1 s pass before the constructors of libraries that are named in front of it, as
 * where much is loaded. */
#include <time.h>

static __attribute__((constructor)) void start(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 100 * 1000 * 1000 }, NULL);
}
