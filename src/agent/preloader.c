/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libheapctl-preload.so, which `heapctl run` preloads: in a program that shall have an agent it
 * loads libheapctl.so from its own folder, and in any other it does nothing.
 *
 * Every program that a target starts inherits LD_PRELOAD. There the loader would search the 150
 * names that the agent calls; this library has fourteen. Whatever HEAPCTL_EXE alone does not decide
 * is decided by libheapctl.so, as where that is preloaded itself.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "agent/preload_choice.h"

static void preloader_start(void) __attribute__((constructor));

#define AGENT "libheapctl.so.0"

/*
 * The file beside this one. By its path: a name is searched for from whatever calls the loader's
 * dlopen, and another preloaded library may have put its own in between.
 */
static void *open_beside(int mode)
{
	char path[4096];
	Dl_info info;

	if (dladdr(__extension__(void *) open_beside, &info) == 0 || info.dli_fname == NULL)
		return NULL;
	const char *const slash = memrchr(info.dli_fname, '/', strlen(info.dli_fname));
	const size_t size = slash == NULL ? 0 : (size_t)(slash + 1 - info.dli_fname);
	if (size == 0 || size + sizeof AGENT > sizeof path)
		return NULL;
	memcpy(path, info.dli_fname, size);
	memcpy(path + size, AGENT, sizeof AGENT);
	return dlopen(path, mode);
}

/*
 * The library that the program is linked with, if any, else the one beside this file; by RPATH
 * where the file's own name cannot be found out. Its functions are for the program as well, as
 * those of a preloaded library.
 */
static void *open_agent(void)
{
	const int mode = RTLD_NOW | RTLD_GLOBAL;
	void *library = dlopen(AGENT, mode | RTLD_NOLOAD);

	if (library == NULL)
		library = open_beside(mode);
	return library != NULL ? library : dlopen(AGENT, mode);
}

static void preloader_start(void)
{
	if (getauxval(AT_SECURE) != 0 || preload_leaves_out(getenv("HEAPCTL_EXE")))
		return;
	void *const library = open_agent();
	if (library == NULL)
		return;
	void (*const end)(void) =
		__extension__(void (*)(void)) dlsym(library, "heapctl_preload_end");
	/* In this library's turn, before what the program's other libraries free at the end. */
	if (end != NULL)
		atexit(end);
}
