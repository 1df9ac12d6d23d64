/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bundle: what was captured of a process in one file, for another machine (docs/bundle.md). It is
 * a tar archive (POSIX ustar) of regular files, so that any tar can open it; the whole archive may
 * be compressed like any profile. The first member is BUNDLE_ABOUT.
 *
 * As a profile format a bundle means its member BUNDLE_PROFILE. Members of unknown names are
 * skipped; a damaged header, a member that extends past the end, and a truncated archive are
 * refused with the offset.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/cursor.h"
#include "base/error.h"
#include "profile/profile.h"

#define BUNDLE_ABOUT "heapctl-bundle.json"
#define BUNDLE_PROFILE "profile.heap"
enum { BUNDLE_FORMAT = 1 };

/* Whether a bundle with this BUNDLE_ABOUT is of the supported format. */
MUST_CHECK bool bundle_check(const struct cursor *about, struct error *err);

/*
 * The bytes of a member of an uncompressed bundle; data NULL when it has none of that name. False,
 * with the problem in the cursor, when the archive is damaged. The cursor begins at the archive's
 * start and moves anywhere.
 */
MUST_CHECK bool bundle_find(struct cursor *in, const char *name, struct cursor *member);
