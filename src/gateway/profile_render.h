/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renders the profiles of a target, by `heapctl report` in a process of its own. Renders of runs
 * are cached; requests for the same one at the same time share it.
 */
#pragma once

#include "gateway/run_profiles.h"

/* What can be made of a profile; the table's name is what URLs say. */
struct profile_format {
	const char *name;
	const char *option; /* of heapctl report; NULL: the profile as it was recorded */
	const char *media_type;
	const char *extension;
	const char *policy; /* Content-Security-Policy; NULL for the strictest */
};

/* What a request may name; ends with NULL. */
extern const char *const profile_format_names[];

struct profile_render {
	const struct profile_format *format;
	int64_t id;
	int64_t base_id;	    /* compared with; -1 for none */
	bool is_of_moments;	    /* both are times of kept moments */
	const char *counter;	    /* NULL: bytes in use */
	const char *granularity;    /* NULL: functions */
	const char *focus, *ignore; /* patterns; NULL for none */
	bool is_inverted;
	bool by_cumulative;
	int64_t span_ms; /* that a difference of two snapshots covers; 0: by its ids */
};

/* NULL when there is none of that name. */
const struct profile_format *profile_format_find(const char *name);

/* Of a format that is in profile_format_names. */
const char *profile_format_media_type(const char *format);

/* Rendered now, by another request meanwhile, or before. Drop the reference. */
MUST_CHECK bool profile_render_get(struct gateway *gateway, struct backend *backend,
	const struct profile_render *render, struct blob **blob, struct error *err);

/* What tells it from every other render; `owner` says whose profiles it is made of. Owned. */
char *profile_render_key(const char *owner, const struct profile_render *render);

/* The same from two profiles at hand; `base` may be NULL. Never kept, never shared. */
MUST_CHECK bool profile_render_run(struct gateway *gateway, struct backend *backend,
	const struct profile_render *render, struct blob *profile, struct blob *base,
	struct blob **blob, struct error *err);
