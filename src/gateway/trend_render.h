/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trends over kept snapshots, by `heapctl trend` in a process of its own, which gets the profiles
 * as one store. A render is cached until the snapshots change.
 */
#pragma once

#include "gateway/blob.h"
#include "store/store.h"
#include "gateway/gateway.h"

enum {
	TREND_PROFILES_MAX = 1000,
	TREND_TOP = 30,
};

/* Of compressed profiles that are handed to the worker. */
#define TREND_BYTES_MAX (UINT64_C(512) << 20)

struct trend_format {
	const char *name;
	const char *option; /* of heapctl trend; NULL: the profiles themselves */
	const char *media_type;
	const char *policy; /* Content-Security-Policy; NULL for the strictest */
};

/* End with NULL. */
extern const char *const trend_format_names[];
extern const char *const trend_unit_names[];

struct trend_render {
	const struct trend_format *format;
	struct store_query query;
	int64_t most;			      /* profiles */
	int64_t top;			      /* sites */
	const char *unit;		      /* NULL: functions */
	const char *counter;		      /* NULL: bytes in use */
	const char *focus, *ignore, *exclude; /* patterns; NULL for none */
};

/* NULL when there is none of that name. */
const struct trend_format *trend_format_find(const char *name);

/* Of a format that is in trend_format_names. */
const char *trend_media_type(const char *format);

/* Drop the reference. `series` is what the query found. */
MUST_CHECK bool trend_render_get(struct gateway *gateway, const struct trend_render *render,
	struct store_series *series, struct blob **blob, struct error *err);
