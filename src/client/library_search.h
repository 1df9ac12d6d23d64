/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the dynamic loader would find a library: run paths, LD_LIBRARY_PATH, the cache that
 * ldconfig makes, the default folders (ld.so(8)). Good enough to see what a program links; the
 * loader's rarer features (audit, prelink, hardware folders outside the cache) are left out.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { LIBRARY_PATH_BYTES = 4096 };

/*
 * Finds `name` as needed by the object at `needed_by`, whose DT_RUNPATH or DT_RPATH is `run_path`
 * (NULL for none). False when there is none on this machine.
 */
bool library_search(const char *name, const char *needed_by, const char *run_path,
	char path[LIBRARY_PATH_BYTES]);
