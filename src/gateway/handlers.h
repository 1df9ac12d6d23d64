/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of routes, and the handlers behind it: one file for each kind of user. Each answers a
 * request whose parameters were checked; see gateway/request.h.
 */
#pragma once

#include "base/buffer.h"
#include "gateway/gateway.h"
#include "gateway/request.h"

/* On failure `reply` is untouched, and the router replies with the error in the way of the route.
 */
typedef bool handler(struct gateway *gateway, const struct request *request, struct reply *reply,
	struct error *err);

/* Ends with a NULL pattern. */
extern const struct route routes[];

/* The OpenAPI 3.1 document of the gateway, written from such a table. */
void openapi_write(const struct route *table, struct buffer *out);

/* Mesos */
handler mesos_start, mesos_stop, mesos_state, mesos_statistics, mesos_download, mesos_diff;

/* libmtev */
handler mtev_memory, mtev_heap_profile;

/* gperftools */
handler pprof_heap, pprof_growth, pprof_symbol, pprof_cmdline;

/* Go */
handler go_index, go_heap, go_allocs, go_cmdline;

/* Prometheus, and what reads its discovery */
handler metrics, discovery;

/* Forwards the agent's protocol. */
handler agent_read, agent_change;
const char *stats_media_type(const char *format);

/* What serve --history has kept. */
handler api_archive, api_timeline, api_snapshot, api_trend, api_overview;

/* What users wrote about it. */
handler api_notes, api_add_note, api_remove_note;

enum { TREND_PROFILES_MAX = 1000, TREND_TOP = 30 };
/* End with NULL. */
extern const char *const trend_format_names[];
extern const char *const trend_unit_names[];
/* Of a format that is in trend_format_names. */
const char *trend_media_type(const char *format);

/* What the kernel says of a target. */
handler api_kernel;

/* What serve --send does. */
handler api_sending;

/* The database of serve --store. */
handler api_fleet, api_fleet_hosts, api_fleet_sites, api_fleet_picture;
/* End with a NULL name, and a status of 0. */
extern const struct parameter fleet_hosts_parameters[], fleet_sites_parameters[],
	fleet_picture_parameters[];
extern const struct route_status fleet_statuses[];
/* Of a format that fleet_picture_parameters has. */
const char *fleet_format_media_type(const char *format);

/* What serve --watch-file does. */
handler api_watch, api_watches, api_captures, api_capture;

/* What serve --symbols has. */
handler symbols_debuginfo;

/* Profiles that a client sends. */
handler api_file;

/* The page and what it needs. */
handler page_root, page_asset, api_targets, api_history, api_profile, api_classes, api_openapi;
