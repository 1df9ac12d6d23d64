/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source files below some folders alone: profiles and debug information come from elsewhere, and
 * may name any file.
 */
#pragma once

#include "base/error.h"
#include "base/file.h"

/*
 * Maps the file that `path` means: the path itself, or the longest end of it that a folder has; the
 * first folder first. `roots` are separated by colons. Neither ".." nor symbolic links lead out of
 * a folder. ERROR_NOT_FOUND when nothing is there.
 */
MUST_CHECK bool source_root_map(
	const char *roots, const char *path, struct file_map *map, struct error *err);
