/* SPDX-License-Identifier: Apache-2.0 */
/* When the agent uses a folder, for the agent itself and for `heapctl doctor`. */
#pragma once

#include <sys/stat.h>

#include "base/error.h"

/*
 * Whether the folder at `path` belongs to the user and is closed to all others: ERROR_DENIED,
 * ERROR_USAGE.
 */
MUST_CHECK bool private_folder_check(
	const char *path, const struct stat *status, uid_t user, struct error *err);
