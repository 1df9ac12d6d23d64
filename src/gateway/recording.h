/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles by their id.
 *
 * Words. A *recording* is what an id stands for: a run of the agent, or, for the id 0, a profile
 * taken now. Its *start* is the profile at the beginning of a run: what was there before the run
 * is not the run's doing and is subtracted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "gateway/backend.h"
#include "gateway/gateway.h"

enum { RECORDING_NOW = 0 };

struct recording {
	int64_t id;
	int64_t span_ms;      /* of a run: how long it took; 0 of a snapshot */
	struct blob *profile; /* NULL until loaded */
	struct blob *start;   /* NULL when there is nothing to subtract */
};

void recording_deinit(struct recording *recording);

static inline void recording_cleanup(struct recording *recording)
{
	recording_deinit(recording);
}

/*
 * The newest finished run. ERROR_STATE while one is on, ERROR_NOT_FOUND when there was none yet.
 */
MUST_CHECK bool recording_newest(struct backend *backend, int64_t *id, struct error *err);

/* Gets the profiles of the recording, from the agent or from memory. */
MUST_CHECK bool recording_load(struct gateway *gateway, struct backend *backend, int64_t id,
	struct recording *recording, struct error *err);
