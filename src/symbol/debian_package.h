/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the Debian packages of files in dpkg's lists, for hints about what to install. */
#pragma once

#include <stddef.h>

/*
 * Sets names[i] to the package of paths[i], to be freed, or to NULL. Each list is read once, for
 * all paths. On other systems nothing is found.
 */
void debian_package_find(const char *const *paths, size_t count, char **names);
