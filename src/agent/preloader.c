/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libheapctl-preload.so, which `heapctl run` preloads: in a program that shall have an agent it
 * loads libheapctl.so from its own folder, and in any other it does nothing.
 *
 * Every program that a target starts inherits LD_PRELOAD. There the loader would search the 150
 * names that the agent calls; this library has ten. Whatever HEAPCTL_EXE alone does not decide is
 * decided by libheapctl.so, as where that is preloaded itself.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/auxv.h>

#include "agent/preload_choice.h"

static void preloader_start(void) __attribute__((constructor));

/*
 * By its name: it is the library that the program is linked with, if any, else the one beside this
 * file (RPATH). Its functions are for the program as well, as those of a preloaded library.
 */
static void preloader_start(void)
{
	if (getauxval(AT_SECURE) != 0 || preload_leaves_out(getenv("HEAPCTL_EXE")))
		return;
	void *const library = dlopen("libheapctl.so.0", RTLD_NOW | RTLD_GLOBAL);
	if (library == NULL)
		return;
	void (*const end)(void) =
		__extension__(void (*)(void)) dlsym(library, "heapctl_preload_end");
	/* In this library's turn, before what the program's other libraries free at the end. */
	if (end != NULL)
		atexit(end);
}
