/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes profiles of targets into a store (store/store.h), for heapctl watch and for heapctl serve.
 */
#pragma once

#include <jansson.h>

#include "client/target.h"
#include "store/store.h"
#include "watch/dump_collector.h"
#include "watch/trigger.h"

/* Sets the target's name, owner, host, service, version, labels, pid and start; `status` is its
 * agent's or NULL. */
void recorder_identify(
	struct snapshot *snapshot, const struct target *target, const json_t *status);

/*
 * Takes a profile of the target and keeps it; the snapshot is identified and has its reason. `seen`
 * is what was seen of the target. For a store of captures.
 */
MUST_CHECK bool recorder_capture(struct store *store, const struct target *target,
	const struct trigger_observation *seen, struct snapshot *snapshot, struct error *err);

/* Takes a file that the target's jemalloc has written instead. */
MUST_CHECK bool recorder_take_dump(
	struct store *store, const struct dump *dump, struct snapshot *snapshot, struct error *err);
