/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiles of a target by their id, and what is rendered from them, by `heapctl report` in a
 * process of its own. Renders of runs are cached; requests for the same one at the same time share
 * it.
 *
 * Words. An id means a run of the agent, or, when it is 0, a profile taken now. The
 * *start* of a run is the profile at its beginning: what was there before the run is subtracted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "gateway/backend.h"
#include "gateway/gateway.h"
#include "gateway/request.h"

enum { RUN_PROFILES_NOW = 0 };

struct run_profiles {
	int64_t id;
	int64_t span_ms;      /* of a run: how long it took; 0 of a snapshot */
	struct blob *profile; /* NULL until loaded */
	struct blob *start;   /* NULL when there is nothing to subtract */
};

void run_profiles_deinit(struct run_profiles *profiles);

/*
 * The newest finished run. ERROR_STATE while one is on, ERROR_NOT_FOUND when there was none yet.
 */
MUST_CHECK bool run_profiles_newest(struct backend *backend, int64_t *id, struct error *err);

/*
 * Gets the profiles of a run, from the agent or from memory; those of now are cancelled when all
 * `clients` have left. NULL: they never leave.
 */
MUST_CHECK bool run_profiles_load(struct gateway *gateway, struct backend *backend, int64_t id,
	struct waiting_clients *clients, struct run_profiles *profiles, struct error *err);

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
	int64_t base_id;		      /* compared with; -1 for none */
	bool is_of_snapshots;		      /* both are times of snapshots */
	const char *counter;		      /* NULL: bytes in use */
	const char *granularity;	      /* NULL: functions */
	const char *file, *base_file;	      /* what they are called; NULL: by their ids */
	const char *function;		      /* of source: a pattern */
	const char *source_root, *debuginfod; /* the gateway's */
	const char *focus, *ignore;	      /* patterns; NULL for none */
	const char *show, *hide, *show_from, *prune_from;
	const char *thread, *bytes; /* of the samples: a number or name, LOW:HIGH */
	const char *ignored_tag;    /* samples that are left out: KEY=VALUE */
	int64_t first, limit;	    /* of rows */
	const char *sort, *rows;    /* of rows: by what; the pattern of names */
	int64_t frame_limit;	    /* of flame-data; 0 for all */
	const char *frame_root;	    /* as render_options has it */
	bool is_churn;		    /* temporary allocations only */
	bool is_whole;		    /* of a run: all at its end, not since its start */
	bool is_inverted;
	bool by_cumulative;
	bool has_file_addresses, strips_names, strips_labels; /* of pprof */
	bool drops_negative;
	int64_t span_ms; /* that the difference of two profiles covers; 0: by its ids */
};

/*
 * What a request says of drawing, which any profile takes; json where it names no format.
 * ERROR_DENIED for source or assembly that the gateway does not show.
 */
MUST_CHECK bool profile_render_read(struct profile_render *render, const struct gateway *gateway,
	const struct request *request, struct error *err);

/* NULL when there is none of that name. */
const struct profile_format *profile_format_find(const char *name);

/* Of a format that is in profile_format_names. */
const char *profile_format_media_type(const char *format);

/* The options of heapctl report that the render needs, but for headings and profiles. */
void profile_render_add_options(const struct profile_render *render, struct command_line *line);

/* "what is in use at 2026-01-31 14:05:00 UTC", now; in `text`. */
enum { PROFILE_TIME_BYTES = 64 };
const char *profile_time_describe(char text[PROFILE_TIME_BYTES]);

/* The key of the render in the cache; `owner` identifies the profiles that it is made of. Owned. */
char *profile_render_key(const char *owner, const struct profile_render *render);

/* Rendered now, or taken from the cache, for the client of the request. Drop the reference. */
MUST_CHECK bool profile_render_get(struct gateway *gateway, struct backend *backend,
	const struct request *request, const struct profile_render *render, struct blob **blob,
	struct error *err);

/* Renders the given profiles; `base` and `clients` may be NULL. Not cached. */
MUST_CHECK bool profile_render_run(struct gateway *gateway, struct backend *backend,
	const struct profile_render *render, struct waiting_clients *clients, struct blob *profile,
	struct blob *base, struct blob **blob, struct error *err);

/*
 * Kept profiles: snapshots of the history, captures in folders. Their process may have ended.
 */
struct snapshot_profiles {
	const char *name; /* of their target */
	char *owner;	  /* their part of the cache's key; freed by snapshot_profiles_deinit */
	uid_t user;	  /* whose process it was; USER_ANY where that is not known */
	struct blob *profile, *base; /* `base` is what is subtracted; NULL for nothing */
	int64_t time_ms, base_ms;    /* when they were taken */
};

void snapshot_profiles_deinit(struct snapshot_profiles *kept);

/* Replies with the requested render. */
MUST_CHECK bool snapshot_render_reply(struct gateway *gateway, const struct request *request,
	const struct snapshot_profiles *kept, struct reply *reply, struct error *err);
