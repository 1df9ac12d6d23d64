/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that is there to have an allocator: linked with jemalloc in one way or another, or
 * not at all, it runs the probe that was preloaded into it (allocator_probe.c).
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef HOST_PREFIXED
/* As a Rust program does: its allocations go to a jemalloc of its own. */
void *_rjem_malloc(size_t size);
#define HOST_MALLOC _rjem_malloc
#else
#define HOST_MALLOC malloc
#endif

int main(int argc, char **argv)
{
	int (*probe)(char **arguments) = NULL;
	const char *const local_library = getenv("HOST_DLOPEN_LOCAL");
	void *volatile block = HOST_MALLOC(1);

	(void)argc;
	(void)block;
	if (local_library != NULL && dlopen(local_library, RTLD_NOW | RTLD_LOCAL) == NULL) {
		fprintf(stderr, "%s\n", dlerror());
		return 3;
	}
	void *const symbol = dlsym(RTLD_DEFAULT, "allocator_probe");
	if (symbol == NULL)
		return 4;
	memcpy(&probe, &symbol, sizeof probe);
	return probe(argv + 1);
}
