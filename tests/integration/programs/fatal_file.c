/* SPDX-License-Identifier: Apache-2.0 */
/* Preloaded: ends a program that maps the file named by FATAL_FILE, as a fault of a reader would.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

__attribute__((visibility("default"))) void *mmap(
	void *place, size_t size, int protection, int flags, int fd, off_t offset)
{
	static void *(*real)(void *, size_t, int, int, int, off_t);
	const char *const fatal = getenv("FATAL_FILE");
	char link[64], path[4096];

	if (real == NULL)
		real = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	const ssize_t length = fd < 0 || fatal == NULL ? -1 : readlink(link, path, sizeof path - 1);
	if (length > 0) {
		path[length] = '\0';
		if (strcmp(path, fatal) == 0)
			abort();
	}
	return real(place, size, protection, flags, fd, offset);
}
