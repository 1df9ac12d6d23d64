/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arguments of memory_profile.so in plugin.config:
 *
 *	--dir=PATH   the folder of the socket and of kept runs (as HEAPCTL_DIR)
 *	--keep=N     finished runs kept, 1 to 32 (as HEAPCTL_KEEP)
 *	--no-socket  plugin messages only
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct arguments {
	const char *folder; /* points into the arguments; NULL: not given */
	unsigned keep;	    /* 0: not given */
	bool no_socket;
};

/*
 * False with a sentence in `problem` for anything else; on success `problem` is untouched.
 * `argv[0]` is the plugin's file.
 */
bool arguments_read(int argc, const char *const *argv, struct arguments *arguments, char *problem,
	size_t problem_size);
