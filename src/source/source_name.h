/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * What a process was called by the name that dump, record or watch gave to its file. The program's
 * file may have another name: Debian's redis-server is a link to redis-check-rdb, which is what
 * a profile has. False when the name tells none.
 */
bool source_name_of_file(const char *path, char *name, size_t size);
