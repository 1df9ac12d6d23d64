/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The formats of profiles that are read. A profile in one of them may stand inside of another file:
 * behind a list of names (symbolized.h) or in a bundle (bundle.h).
 */
#pragma once

#include <stdbool.h>

#include "base/cursor.h"
#include "base/error.h"
#include "profile/profile.h"

struct profile_reader {
	/* Whether the input is in this format; the cursor is a copy. */
	bool (*detect)(struct cursor in);
	/*
	 * Reads all of the input into an empty profile. A failure is left in the cursor, or in
	 * `err` when it needs more words than a constant text; then the result is false.
	 */
	bool (*read)(struct cursor *in, struct profile *profile, struct error *err);
};

/* The format of what is at the cursor; NULL for none. */
const struct profile_reader *profile_reader_find(const struct cursor *in);
