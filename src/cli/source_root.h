/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Source files below one folder alone: profiles and debug information come from elsewhere, and may
 * name any file.
 */
#pragma once

#include "base/error.h"
#include "base/file.h"

/*
 * Maps the file that `path` means: the path itself, or the longest end of it that the folder has.
 * Neither ".." nor symbolic links lead out of the folder. ERROR_NOT_FOUND when nothing is there.
 */
MUST_CHECK bool source_root_map(
	const char *root, const char *path, struct file_map *map, struct error *err);
