/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs that talk to an agent have in common. */
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/file.h"
#include "cli/option.h"
#include "client/agent_client.h"
#include "client/target.h"

/*
 * Where a verb's result goes: the file of -o, standard output for "-", or a file in the working
 * folder under a sensible name. Files are private (0600), appear only when they are complete, and
 * then replace what had the name; a name that was made up here never replaces anything.
 */
struct output {
	bool is_stdout;
	struct file_draft draft;
};

/*
 * Opens an output for a second profile. ERROR_USAGE where it would be the file, or the stream, of
 * the first one, in any spelling.
 */
MUST_CHECK bool output_open_other(
	const char *path, const struct output *first, struct output *output, struct error *err);

/*
 * `path` is what -o said; NULL makes up "STEM.YYYYMMDD-HHMMSS.SUFFIX". Bytes go to output_fd.
 * Writing to a terminal is refused: profiles are for files.
 */
MUST_CHECK bool output_open(const char *path, const char *stem, const char *suffix,
	struct output *output, struct error *err);
int output_fd(const struct output *output);

/* For messages: the path or "standard output". */
const char *output_name(const struct output *output);

/* Whether the result can be read from its path later, and have a file beside it. */
bool output_is_file(const struct output *output);

/* Lets the file appear under its name. */
MUST_CHECK bool output_commit(struct output *output, struct error *err);

/* Fine after a commit, and for a zeroed one. */
void output_discard(struct output *output);

/*
 * Parses a command line of one operand, TARGET, and the options --json and
 * nothing else. False: return *exit_code.
 */
bool control_parse_target(const struct verb *verb, int argc, char **argv, struct target *target,
	bool *as_json, int *exit_code);

/* For agent_on_silence: reports on stderr that the call continues. */
void control_warn_of_wait(const struct target *target);

/*
 * Around the call that begins a run: from now on the first interrupt ends the run and saves its
 * profile. While an agent is silent there is none yet, and an interrupt, also one that came before,
 * ends the program as usual.
 */
void control_begin_run(void);
void control_run_has_begun(void);

/* --json and the end, for tables of options: stored in a bool, which is the whole request. */
extern const struct verb_option control_json_options[];

/* Names a process of a tree (client/target_tree.h) that is left out. */
void control_warn_of_left_out(const struct target *target, const struct error *problem);

/* The agent's answer as it is: for --json. Indented on a terminal. */
void control_print_json(const json_t *value);

/* A text for that, such as a path: one that is not UTF-8 in its printable form. Caller owns it. */
json_t *control_json_text(const char *text);

/* A request whose answer is not needed. */
MUST_CHECK bool control_post(const struct target *target, const char *path, struct error *err);

/*
 * Fetches the profile at `path` of the protocol into the output, commits it, and reports its file
 * and size on stderr; also, unless `advice` is NULL, that it has no sample, with this advice.
 */
MUST_CHECK bool control_save_profile(const struct target *target, const char *path,
	const char *advice, struct output *output, struct error *err);

/*
 * Waits until the run has ended, with a progress bar; an interrupt ends it early
 * (terminal_catch_interrupts was called). ERROR_STATE when it failed.
 */
MUST_CHECK bool control_wait_for_run(const struct target *target, int64_t id, int64_t duration_ms,
	const char *what, struct error *err);

/* Saves the profile at the run's end ("profile") or start ("start"). */
MUST_CHECK bool control_save_run(const struct target *target, int64_t id, const char *which,
	struct output *output, struct error *err);

/* "10:15:00", or with the date when it was not today; "-" for 0. */
enum { CONTROL_TIME_BYTES = 32 };
const char *control_format_time(int64_t time_ms, char text[CONTROL_TIME_BYTES]);

/*
 * Timed runs from the client's side: start, poll, stop. A run belongs to the agent and ends on time
 * even if this process ends.
 */
enum { SAMPLE_LG_KEEP = -1 };

struct profile_run_request {
	int64_t duration_ms;
	int lg_sample; /* logarithm of the sampling interval; SAMPLE_LG_KEEP: as it is */
};

/*
 * Starts one, or reports the one that is on: "already_running" in it. Sampling that is on stays
 * on: "was_active". Release with json_decref.
 */
MUST_CHECK bool profile_run_start(const struct target *target,
	const struct profile_run_request *request, json_t **run, struct error *err);

/* One that is ours. */
struct profile_run {
	int64_t id;
	bool was_active;	 /* sampling was on before, and stays on */
	bool was_reset;		 /* it has an interval of its own: no older samples */
	uint64_t older_count;	 /* samples from before it that are in its profile, too */
	int64_t allocated_bytes; /* by the program at its start */
	int64_t begun_ms;	 /* clock_monotonic_ms */
};

/* The same, but a run that is on already is ERROR_STATE. */
MUST_CHECK bool profile_run_start_own(const struct target *target,
	const struct profile_run_request *request, struct profile_run *run, struct error *err);

MUST_CHECK bool profile_run_stop(const struct target *target, json_t **run, struct error *err);

/* Whether the run has ended; ERROR_STATE when it failed. */
MUST_CHECK bool profile_run_poll(
	const struct target *target, int64_t id, bool *has_ended, struct error *err);

/* Ends a run of ours, which may have ended meanwhile. ERROR_STATE when it failed. */
MUST_CHECK bool profile_run_end_early(const struct target *target, int64_t id, struct error *err);

/* How often a run is asked about: before its end, and from then on, for how long. */
enum {
	PROFILE_RUN_LOOK_MS = 2000,
	PROFILE_RUN_OVERDUE_MS = 250,
	PROFILE_RUN_PATIENCE_MS = 30 * 1000,
};
