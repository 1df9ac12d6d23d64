/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a profiled process was called. The program's file may have another name: Debian's
 * redis-server is a link to redis-check-rdb, which is what a profile has.
 */
#pragma once

#include <sys/types.h>

enum { PROCESS_NAME_BYTES = 64 };

/*
 * Of a source as the command line names it: by the process where `pid` is one here, by what a
 * bundle says of itself, or by a name that dump, record or watch gave to the file. "" when none of
 * these tells.
 */
void process_name_of_source(const char *source, pid_t pid, char name[PROCESS_NAME_BYTES]);
