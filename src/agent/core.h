/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agent can do: the socket's routes and the C interface of heapctl.h call this.
 *
 * The core has no thread and no lock; its owner serialises calls. core_tick ends a run or a pause
 * whose deadline has passed; core_wait_ms says when to call it. It takes memory from `memory` only.
 */
#pragma once

#include <stdatomic.h>

#include "agent/capture.h"
#include "agent/run.h"
#include "agent/settings.h"
#include "agent/run_store.h"
#include "allocator/allocator.h"
#include "base/json_writer.h"

/* What switched sampling on. */
enum core_cause {
	CORE_CAUSE_NONE, /* it is off */
	CORE_CAUSE_HEAPCTL,
	CORE_CAUSE_START, /* HEAPCTL_ACTIVATE=1 */
	CORE_CAUSE_RUN,
	CORE_CAUSE_OTHER, /* the program, its configuration, another tool */
};

/*
 * What switched sampling on, and when (since 1970; 0: before the agent began). It belongs to the
 * process, not to the core: sampling survives the end of an agent, and a child inherits it.
 */
struct core_activation {
	_Atomic(enum core_cause) cause;
	_Atomic(int64_t) since_ms;
};

/* The cost of the last profile, to estimate that of the next. */
struct core_dump {
	int64_t time_ms; /* since 1970; 0: none yet */
	int64_t duration_ms;
	uint64_t stack_count;
	uint64_t size_bytes;
};

struct core_options {
	struct allocator *allocator;
	const struct memory *memory;
	const struct settings *settings;
	const struct folder *folder; /* NULL: none, runs stay in memory */
	const char *name;	     /* the program's, for people and for files */
	struct core_activation *activation;
	int64_t (*now_ms)(void);  /* never goes back */
	int64_t (*wall_ms)(void); /* since 1970 */
	bool is_preloaded;	  /* the agent: the program does not know of it */
};

struct core {
	struct allocator *allocator;
	const struct memory *memory;
	struct settings settings;
	struct folder folder; /* path "" when there is none */
	char name[64];
	int64_t started_ms; /* of an agent that was attached: the attach */
	int64_t (*now_ms)(void);
	int64_t (*wall_ms)(void);
	struct run_machine machine;
	int former_lg_sample; /* to be restored after the run; ALLOCATOR_LG_SAMPLE_KEEP: nothing */
	int own_lg_sample;    /* what the process had before resets changed it; as above */
	int reset_lg_sample;  /* what the last of these made of it */
	int64_t resume_ms;    /* when sampling is switched on again after a pause; 0: no pause */
	enum core_cause paused_cause; /* of the sampling that is paused */
	struct run_store store;
	struct core_activation *activation;
	struct core_dump last_dump;
	bool is_preloaded;
	bool is_detaching; /* core_detach() was called: the agent ends */
};

void core_init(struct core *core, const struct core_options *options);

/* Does not switch off the sampling of a run: stop that first. Kept files stay. */
void core_deinit(struct core *core);

/* Where kept runs go from now on, and profiles where there is no memfd. */
void core_set_folder(struct core *core, const struct folder *folder);

/* Reads whether sampling is on, and what switched it on; ERROR_UNSUPPORTED where it never can be.
 */
MUST_CHECK bool core_observe(struct core *core, bool *active, struct error *err);

/*
 * ERROR_STATE where a module's file was cut: the loader is asked for symbols when sampling begins,
 * and reads all modules.
 */
MUST_CHECK bool core_check_files(struct error *err);

/* Refuses (ERROR_STATE) to switch off under a run, and to switch on where a file was cut. */
MUST_CHECK bool core_activate(struct core *core, bool active, bool *was_active, struct error *err);

/*
 * Switches off, and on again after 1 s to 24 h where it was on, unless sampling is switched or a
 * run is started before.
 */
MUST_CHECK bool core_pause(
	struct core *core, int64_t duration_ms, bool *was_active, struct error *err);

/*
 * Ends a run and the sampling that heapctl switched on, for an agent that was attached, or
 * `is_replaced`, that was preloaded and cannot profile: its owner ends it then. ERROR_STATE for one
 * that the process was started with otherwise, and while functions are patched.
 */
MUST_CHECK bool core_detach(struct core *core, bool is_replaced, struct error *err);

/* Ends a pause now, if there is one. */
void core_resume(struct core *core);

/* A profile now; the caller releases it. */
MUST_CHECK bool core_profile(
	struct core *core, struct captured_profile *capture, struct error *err);

struct core_agent {
	int64_t started_ms; /* since 1970; of an agent that was attached: the attach */
	bool is_attached;
};

/*
 * Adds the last line of a profile, which says what took the samples and since when. Needs no core:
 * also for the profile of the exit.
 */
void core_note_sampling(struct allocator *allocator, const struct core_activation *activation,
	const struct core_agent *agent, struct captured_profile *capture);

/* `lg_sample` and `force` as in allocator_reset. */
MUST_CHECK bool core_reset(struct core *core, int lg_sample, bool force, struct error *err);

/* As allocator_write, and records what it changes for runs and the status. */
MUST_CHECK bool core_mallctl_write(struct core *core, const char *name, enum mallctl_type type,
	const char *text, bool force, struct error *err);

struct core_run_request {
	int64_t duration_ms;
	bool keep_active; /* where sampling is on already, the run leaves it on */
	int lg_sample;	  /* for the run; ALLOCATOR_LG_SAMPLE_KEEP: as it is. Discards all samples,
			     before the run and after it */
};

/*
 * Starts a run, or finds one on. ERROR_STATE when sampling is on already, unless it is to be kept.
 * Copies the run to *run.
 */
MUST_CHECK bool core_run_start(struct core *core, const struct core_run_request *request,
	struct run *run, bool *already_running, struct error *err);

/*
 * Ends the run now. ERROR_STATE when there is none. A failure at its end is in the run.
 */
MUST_CHECK bool core_run_stop(struct core *core, struct run *run, struct error *err);

/* The run of that id, current or kept. */
MUST_CHECK bool core_run_find(struct core *core, int64_t id, struct run *run, struct error *err);

/* The id of the newest run, current or kept; 0 when there is none. */
int64_t core_newest_run(struct core *core);

/* All runs, oldest first: calls `visit` with each. */
void core_run_list(
	struct core *core, void (*visit)(void *context, const struct run *run), void *context);

MUST_CHECK bool core_run_open(struct core *core, int64_t id, enum run_store_profile which,
	struct descriptor *file, uint64_t *size_bytes, struct error *err);
MUST_CHECK bool core_run_remove(struct core *core, int64_t id, struct error *err);

/* Whether a run is on. */
bool core_is_running(const struct core *core);
int64_t core_remaining_ms(const struct core *core, const struct run *run);

/* Ends the run or the pause when its deadline has passed. */
void core_tick(struct core *core);

/* Milliseconds until core_tick has something to do; -1: nothing is planned. */
int64_t core_wait_ms(const struct core *core);

/*
 * The Status object of docs/protocol.md, as the allocator is now; what cannot be read is left at
 * zero or null (agent/core_status.c).
 */
void core_write_status(struct core *core, struct json_writer *json);
