/* SPDX-License-Identifier: Apache-2.0 */
/* Writing a bundle (docs/bundle.md) of a running target. */
#pragma once

#include "source/source.h"

/*
 * Fetches all parts of a target. A process that cannot be profiled has no profile: then *profile is
 * NULL and `without_profile` says why (its message is "" when there is one). The mappings of the
 * profile of a process of this machine have build-ids. The caller owns the profile.
 */
MUST_CHECK bool bundle_fetch(struct source *source, struct profile **profile,
	struct error *without_profile, struct error *err);

/* Appends a bundle of what was fetched, with this text as its profile. */
void bundle_write(struct source *source, const struct buffer *profile_text, bool has_symbols,
	const struct error *without_profile, struct buffer *out);
