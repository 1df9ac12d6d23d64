/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why profiling fails here, or would give an empty profile, and what to do. Examines a process from
 * outside, through /proc, so that it works where no agent answers; where one does, its own report
 * comes first.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/string_pool.h"
#include "client/process.h"
#include "client/target.h"

enum finding_level {
	FINDING_GOOD,  /* in order */
	FINDING_NOTE,  /* information */
	FINDING_WRONG, /* profiling fails or misleads because of it */
};

struct finding {
	enum finding_level level;
	const char *code; /* a stable word for scripts, "prof-off"; may belong to the diagnosis */
	char message[500];
	char hint[400]; /* "" for none */
};

struct diagnosis {
	struct finding *items;
	size_t count, capacity;
	struct string_pool strings;
};

void diagnosis_init(struct diagnosis *diagnosis);
void diagnosis_deinit(struct diagnosis *diagnosis);

bool diagnosis_is_well(const struct diagnosis *diagnosis);

/* Adds a finding; `hint` may be "". */
void diagnosis_add(struct diagnosis *diagnosis, enum finding_level level, const char *code,
	const char *hint, const char *format, ...) PRINTF_FORMAT(5, 6);

/* Whether there is a finding of that code. */
bool diagnosis_has(const struct diagnosis *diagnosis, const char *code);

/* This machine. `agent_library` NULL: it was not found. */
void doctor_examine_host(struct diagnosis *diagnosis, const char *agent_library);

/* A process whose agent does not answer, or that has none; `why` is the error of the request. */
void doctor_examine_process(
	struct diagnosis *diagnosis, const struct process *process, const struct error *why);

/* A process whose agent answers, or a gateway's target: its status, in the order of urgency. */
MUST_CHECK bool doctor_examine_agent(
	struct diagnosis *diagnosis, const struct target *target, struct error *err);

/* What can be seen of a process from outside, agent or not: replaced files, sandbox, folder. */
void doctor_examine_surroundings(struct diagnosis *diagnosis, const struct process *process);

/* A folder of sockets and profiles, if it is there: kind, owner, mode, room. */
void doctor_examine_folder(struct diagnosis *diagnosis, const char *path, uid_t owner);

/*
 * The folder of a process whose agent answers: the one with its socket, or the one in its
 * HEAPCTL_DIR. Owner and mode may have changed since, or kept the agent out.
 */
void doctor_examine_used_folder(
	struct diagnosis *diagnosis, const char *path, bool has_socket, uid_t owner);

/* False when it is a folder; else this is a finding. `mode` is that of lstat(). */
bool doctor_examine_folder_kind(struct diagnosis *diagnosis, const char *path, mode_t mode);

/*
 * The path in HEAPCTL_DIR of a process of that user, which sees it below `root` ("" for our own).
 * True when a finding says that no agent can have its folder there.
 */
bool doctor_examine_named_folder(
	struct diagnosis *diagnosis, const char *root, const char *path, uid_t owner);

/* The same for the folder that an agent with this process' user and environment would use. */
void doctor_examine_own_folder(struct diagnosis *diagnosis);
