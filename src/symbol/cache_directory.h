/* SPDX-License-Identifier: Apache-2.0 */
/* A directory of files that may be lost at any time: made when missing, bounded in size. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Makes the directory, and those above it, for this user alone. False when that is not possible
 * or when somebody else could have put files there.
 */
bool cache_directory_prepare(const char *path);

/* Removes the oldest files until the rest is within `limit` bytes, and abandoned temporary ones. */
void cache_directory_trim(const char *path, size_t limit);
