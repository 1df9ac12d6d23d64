/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of mapped files that closes a text profile: /proc/PID/maps as it was
 * ("MAPPED_LIBRARIES:", jemalloc and gperftools), or gperftools' own short form with its variable
 * ("build=/dir" and "$build/lib.so"). A line "#build-id START HEX" behind a mapping, which we write
 * and other readers pass over, is an extension. Other lines are passed over, as every reader of
 * these formats does.
 */
#pragma once

#include <stdbool.h>

#include "base/cursor.h"
#include "profile/profile.h"

/* Whether the line at the cursor opens the list. */
bool map_section_at(const struct cursor *in);

/* Reads to the end of the input; sets the mappings and the program. */
void map_section_read(struct cursor *in, struct profile *profile);

/* The same without an opening line. */
void map_section_read_lines(struct cursor *in, struct profile *profile);
