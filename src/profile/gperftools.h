/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The text formats of gperftools' tcmalloc:
 *
 *	heap profile:   1246:  8800744 [  1246:  8800744] @ heap_v2/524288
 *	     1:     4096 [     1:     4096] @ 0x40f2a1 0x40c77d
 *	...
 *	MAPPED_LIBRARIES:
 *
 * The word behind the last '@' of the first line says how the counters are meant: "heapprofile"
 * and "growth" are exact, "heap/P" and "heap_v2/P" sampled. Without it, sampled when the live
 * objects are exactly those that were ever allocated. (jeprof's rules, kept.)
 */
#pragma once

#include <stdbool.h>

#include "base/cursor.h"
#include "base/error.h"
#include "profile/profile.h"

bool gperftools_detect(struct cursor in);
bool gperftools_read(struct cursor *in, struct profile *profile, struct error *err);
