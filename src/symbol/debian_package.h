/* SPDX-License-Identifier: Apache-2.0 */
/* Which Debian packages files came from, as dpkg's lists have it; to say what to install. */
#pragma once

#include <stddef.h>

/*
 * Sets names[i] to the package of paths[i], to be freed, or to NULL. No list is read twice,
 * whatever the count; on other systems nothing is found.
 */
void debian_package_find(const char *const *paths, size_t count, char **names);
