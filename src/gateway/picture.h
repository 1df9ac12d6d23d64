/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What can be drawn from the profiles of a target, by `heapctl report` in a process of its own.
 * Pictures of runs are kept; whoever asks for the same one at the same time gets the same one.
 */
#pragma once

#include "gateway/run_profiles.h"

/* What can be made of a profile; the table's name is what URLs say. */
struct picture_format {
	const char *name;
	const char *option; /* of heapctl report; NULL: the profile as it was recorded */
	const char *media_type;
	const char *extension;
	const char *policy; /* Content-Security-Policy; NULL for the strictest */
};

/* What a request may name; ends with NULL. */
extern const char *const picture_format_names[];

struct picture {
	const struct picture_format *format;
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
const struct picture_format *picture_format_find(const char *name);

/* Of a format that is in picture_format_names. */
const char *picture_media_type(const char *format);

/* Drawn now, by somebody else meanwhile, or before. Drop the reference. */
MUST_CHECK bool picture_get(struct gateway *gateway, struct backend *backend,
	const struct picture *picture, struct blob **blob, struct error *err);

/* What tells it from every other picture; `owner` says whose profiles it is made of. Owned. */
char *picture_key(const char *owner, const struct picture *picture);

/* The same from two profiles at hand; `base` may be NULL. Never kept, never shared. */
MUST_CHECK bool picture_draw(struct gateway *gateway, struct backend *backend,
	const struct picture *picture, struct blob *profile, struct blob *base, struct blob **blob,
	struct error *err);
