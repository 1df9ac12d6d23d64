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

enum { RUN_PROFILES_NOW = 0 };

struct run_profiles {
	int64_t id;
	int64_t span_ms;      /* of a run: how long it took; 0 of a snapshot */
	struct blob *profile; /* NULL until loaded */
	struct blob *start;   /* NULL when there is nothing to subtract */
};

void run_profiles_deinit(struct run_profiles *recording);

static inline void run_profiles_cleanup(struct run_profiles *recording)
{
	run_profiles_deinit(recording);
}

/*
 * The newest finished run. ERROR_STATE while one is on, ERROR_NOT_FOUND when there was none yet.
 */
MUST_CHECK bool run_profiles_newest(struct backend *backend, int64_t *id, struct error *err);

/* Gets the profiles of the recording, from the agent or from memory. */
MUST_CHECK bool run_profiles_load(struct gateway *gateway, struct backend *backend, int64_t id,
	struct run_profiles *recording, struct error *err);
