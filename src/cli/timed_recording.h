/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One recording: a run of an agent, and the files that its profiles are saved to. For heapctl
 * record, of one process or of all processes of a tree.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/control.h"
#include "client/target.h"

struct record_request {
	const char *operand;
	int64_t duration_ms;
	const char *path, *start_path;
	int lg_sample; /* SAMPLE_LG_KEEP: as it is */
	bool may_discard, may_attach;
	bool detaches; /* at the end: sampling does not stay on */
};

/* Starts as { 0 }. */
struct timed_recording {
	struct target target;
	struct profile_run run;
	struct output start, end;
	bool has_start;	  /* the profile of the start is saved, too */
	bool is_attached; /* the agent was loaded for it; set by the caller */
	bool is_kept;	  /* the agent has what could not be saved: it has to stay */
};

/* How many samples another interval (--sample) would discard. */
MUST_CHECK bool timed_recording_count_discarded(
	const struct target *target, int lg_sample, uint64_t *count, struct error *err);

/*
 * Samples that are lost do not come back: --discard, or a person, has to agree. ERROR_STATE where
 * neither does. `label` is whose samples they are.
 */
MUST_CHECK bool timed_recording_agree_to_discard(
	const struct record_request *request, const char *label, uint64_t count, struct error *err);

/* Opens the files: a name that cannot be written must not cost the time of the run. */
MUST_CHECK bool timed_recording_open(const struct target *target,
	const struct record_request *request, struct timed_recording *recording, struct error *err);

/* Starts the run. */
MUST_CHECK bool timed_recording_begin(
	const struct record_request *request, struct timed_recording *recording, struct error *err);

/* Saves the profiles of a run that has ended. */
MUST_CHECK bool timed_recording_save(struct timed_recording *recording, struct error *err);

/* Whether the profile has samples from before the recording, too. */
bool timed_recording_has_older(const struct timed_recording *recording);

/* Removes what was not saved. */
void timed_recording_deinit(struct timed_recording *recording);

/* Attaches the agent to the target's process, and says so. Sampling begins with the run. */
MUST_CHECK bool timed_recording_attach(
	const struct record_request *request, struct target *target, struct error *err);

/* Detaches it, and says so. */
MUST_CHECK bool timed_recording_detach(const struct target *target, struct error *err);
