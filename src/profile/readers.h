/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The formats of profiles that are read. A new one is a file with a reader, declared here and added
 * to the table in formats.c, and a fuzz target.
 *
 * A profile may be inside another file: after a list of names (symbolized.c) or in a bundle
 * (bundle.c).
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
	bool is_binary; /* reads what expansion_fetch_binary provides */
};

/* Where one profile follows another, as cat writes them. */
#define PROFILE_NEXT_PROBLEM "another profile begins here"

extern const struct profile_reader bundle_reader;
extern const struct profile_reader collapsed_reader;
extern const struct profile_reader contention_reader;
extern const struct profile_reader cpu_profile_reader;
extern const struct profile_reader gperftools_reader;
extern const struct profile_reader heap_v2_reader;
extern const struct profile_reader pprof_reader;
extern const struct profile_reader symbolized_reader;

/* The format of what is at the cursor, other than a bundle or names; NULL for none. */
const struct profile_reader *profile_reader_find(const struct cursor *in);
