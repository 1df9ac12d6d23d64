/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sends a snapshot as pprof to what takes profiles by POST: Pyroscope (/ingest) and the pprof
 * receiver of the OpenTelemetry collector (/v1/pprof). Neither can be asked what it has, so a
 * snapshot whose answer was lost is there twice. For one thread at a time.
 */
#pragma once

#include "fleet/http.h"
#include "fleet/rows.h"

struct pprof_push;

bool pprof_push_url_detect(const char *url);

/* The scheme of the options is not used. */
MUST_CHECK bool pprof_push_open(
	const struct fleet_http_options *options, struct pprof_push **ret, struct error *err);
void pprof_push_close(struct pprof_push *push);

DEFINE_CLEANUP(pprof_push_cleanup, struct pprof_push *, pprof_push_close)

bool pprof_push_is_exposed(const struct pprof_push *push);
const char *pprof_push_name(const struct pprof_push *push);

/*
 * Sets `is_refused` when the server does not take this profile, now or later: it is too old or too
 * large, say.
 */
MUST_CHECK bool pprof_push_send(struct pprof_push *push, const struct fleet_retry *retry,
	const struct fleet_snapshot *snapshot, const struct profile *profile, bool *is_refused,
	struct error *err);

/*
 * What Pyroscope calls the series, "api{host=a,version=1.4,zone=b}". What has a meaning there, and
 * what a name cannot have, is replaced by '_'.
 */
void pprof_push_append_series(struct buffer *out, const struct snapshot_identity *identity);
