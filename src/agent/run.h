/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A run: sampling switched on for a length of time, a profile at its start and one at its end. Its
 * state machine, and how it is written as a record and as JSON.
 *
 * The machine is given what happened and when, and answers what to do; the caller dumps, switches
 * and stores (agent/core.c). No clock, no thread, no memory.
 *
 *	idle --START--> begin --BEGUN--> running --TICK at the deadline, STOP--> finish --> idle
 *
 * Times: `now_ms` never goes back and is for deadlines, `wall_ms` is since 1970 and for people.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/json_writer.h"

enum run_state {
	RUN_IDLE, /* no run: never in a record */
	RUN_RUNNING,
	RUN_FINISHED,
	RUN_FAILED,
};

enum run_end {
	RUN_END_NONE,
	RUN_END_DEADLINE,
	RUN_END_STOP,
	RUN_END_EXIT, /* the process ended first */
};

enum { RUN_TEXT_MAX = 200 };

/* What is known of a run, while it is on and later. */
struct run {
	int64_t id; /* milliseconds since 1970, made unique */
	int32_t pid;
	enum run_state state;
	enum run_end ended_by;
	int64_t started_ms; /* since 1970 */
	int64_t ended_ms;   /* since 1970; 0 while it is on */
	int64_t duration_ms;
	unsigned lg_sample;
	unsigned was_active;	/* sampling was on before, and stays on; 0 or 1 */
	unsigned sampling_gaps; /* times that sampling was found switched off */
	unsigned resets;	/* times that the samples were discarded */
	uint64_t start_bytes;
	uint64_t profile_bytes;
	char version[96];	  /* jemalloc's */
	char error[RUN_TEXT_MAX]; /* why it failed; "" */
};

enum run_event {
	RUN_EVENT_START, /* a run of `duration_ms` is requested */
	RUN_EVENT_BEGUN, /* RUN_ACTION_BEGIN was carried out */
	RUN_EVENT_BEGIN_FAILED,
	RUN_EVENT_TICK,	 /* time has passed */
	RUN_EVENT_STOP,	 /* its end is requested */
	RUN_EVENT_ENDED, /* RUN_ACTION_FINISH was carried out */
	RUN_EVENT_END_FAILED,
	RUN_EVENT_SAMPLING_ON, /* the state of sampling was read */
	RUN_EVENT_SAMPLING_OFF,
	RUN_EVENT_RESET, /* all samples were discarded */
};

enum run_action {
	RUN_ACTION_NONE,
	RUN_ACTION_BEGIN,   /* take the start profile, switch sampling on; then BEGUN */
	RUN_ACTION_ALREADY, /* a run is on: answer with that one */
	RUN_ACTION_FINISH,  /* take the end profile, switch sampling off; then ENDED */
	RUN_ACTION_REFUSE,  /* there is no run to stop */
};

struct run_input {
	enum run_event event;
	int64_t now_ms;
	int64_t wall_ms;
	int64_t duration_ms; /* START */
	const char *error;   /* BEGIN_FAILED, END_FAILED */
};

struct run_machine {
	struct run run;	      /* the current one; after its end the last one */
	enum run_state state; /* RUN_IDLE or RUN_RUNNING */
	int64_t deadline_ms;
	int64_t last_id;
	bool sampling_seen_off;
};

/* `last_id`: no later run gets an id that is not greater. */
void run_machine_init(struct run_machine *machine, int64_t last_id);

enum run_action run_step(struct run_machine *machine, const struct run_input *input);

/* Milliseconds until a TICK is due; 0: now; -1: never. */
int64_t run_wait_ms(const struct run_machine *machine, int64_t now_ms);

/* The mean distance of samples in bytes; JSON's readers have 63 bits for it. */
static inline uint64_t sample_interval_bytes(unsigned lg_sample)
{
	return lg_sample < 63 ? UINT64_C(1) << lg_sample : INT64_MAX;
}

/*
 * Writes the run as text, "name value" on each line: what is kept beside its profiles, so that a
 * server that was restarted still has its earlier runs.
 */
void run_record_write(struct buffer *out, const struct run *run);

/*
 * Reads what run_record_write wrote; unknown names are skipped. False when it is no record: no
 * id, no state.
 */
bool run_record_read(const char *text, size_t size, struct run *run);

/* The RUN object of docs/protocol.md. `remaining_ms` is 0 once it has ended. */
void run_write_json(struct json_writer *json, const struct run *run, int64_t remaining_ms,
	bool already_running);
