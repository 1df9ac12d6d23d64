/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What snapshots are sent to, by its URL: ClickHouse (fleet/sender.h), or what takes pprof
 * (fleet/pprof_push.h). For one thread at a time.
 */
#pragma once

#include "fleet/http.h"
#include "fleet/rows.h"

struct destination_options {
	const char *url;
	const char *password;	 /* NULL: none */
	const char *authorities; /* a PEM file; NULL: those of the system */
	struct fleet_retry retry;
	/* Called for each snapshot that is there for certain. */
	void (*sent)(void *context, int64_t id, bool was_there);
	void *context;
};

struct destination;

/* Does not connect. */
MUST_CHECK bool destination_open(
	const struct destination_options *options, struct destination **ret, struct error *err);
void destination_close(struct destination *destination);

DEFINE_CLEANUP(destination_cleanup, struct destination *, destination_close)

/* For messages. */
const char *destination_name(const struct destination *destination);

/* Whether the password crosses a network unencrypted. */
bool destination_is_exposed(const struct destination *destination);

/*
 * Sends it now or with later ones; `id` is the caller's. A failure is the profile's own when
 * `is_refused` is set: it cannot be sent, but others can.
 */
MUST_CHECK bool destination_add(struct destination *destination, int64_t id,
	const struct fleet_snapshot *snapshot, const struct profile *profile, bool *is_refused,
	struct error *err);

/* Sends the rest. */
MUST_CHECK bool destination_flush(struct destination *destination, struct error *err);

/* After a pause: what is known of the destination may have changed. */
void destination_recheck(struct destination *destination);
