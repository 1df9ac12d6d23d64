/* SPDX-License-Identifier: Apache-2.0 */
/*
 * jemalloc's own format, version 4 to 5.3:
 *
 *	heap_v2/524288				mean bytes between two samples
 *	  t*: 28: 1500 [0: 0]			live objects: bytes [ever allocated, if kept]
 *	  t3: 20: 1000 [0: 0] worker 3		the same of one thread, and its name
 *	@ 0x7f06a3a2630 0x55d41fef4427		a stack, leaf first; may be empty
 *	  t*: 28: 1500 [0: 0]
 *	  t3: 20: 1000 [0: 0]
 *
 *	MAPPED_LIBRARIES:			only where there is /proc
 *	55d41fef2000-55d41fef4000 r--p ...
 *
 * Lines of other kinds (ClickHouse adds some that begin with "f:") are kept as comments, the first
 * few of them.
 */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/error.h"
#include "profile/profile.h"

bool heap_v2_detect(struct cursor in);
bool heap_v2_read(struct cursor *in, struct profile *profile, struct error *err);
