/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything on this machine that heapctl can reach, could reach if it had been started
 * otherwise, or finds left behind: what `heapctl ps` lists.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <jansson.h>

#include "client/target.h"

enum survey_kind {
	SURVEY_REACHABLE, /* an agent answered */
	SURVEY_ASLEEP,	  /* an agent on demand: target_connect wakes it */
	SURVEY_SILENT,	  /* an agent is there but did not answer, or may not be asked */
	SURVEY_NO_AGENT,  /* jemalloc without an agent */
	SURVEY_STALE,	  /* a socket whose process has ended, and that we may not remove */
};

struct survey_entry {
	enum survey_kind kind;
	struct target
		target;	    /* process is filled where it is known; for a stale one only the path */
	json_t *status;	    /* the agent's answer when it is reachable */
	char jemalloc[256]; /* for one without agent, or asleep: the library, or "in the program" */
	const char *agent_hint; /* for one without: what brings it into the program */
	struct error problem;	/* of a silent one */
};

struct survey {
	struct survey_entry *entries;
	size_t count, capacity;
};

/*
 * Asks every agent for its status when `with_status`, all at the same time and each for two seconds
 * at most. Removes the names of sockets that are left over.
 */
MUST_CHECK bool survey_make(bool with_status, struct survey *survey, struct error *err);
void survey_deinit(struct survey *survey);
