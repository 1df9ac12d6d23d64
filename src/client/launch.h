/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a program has to be started so that it can be profiled: which libraries to preload, which
 * options to give to jemalloc, which programs get an agent. Decides and explains; starting is the
 * caller's.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/string_pool.h"
#include "client/program.h"

/* The user's options; every pointer may be NULL. */
struct launch_request {
	const char *command;  /* argv[0] of the program */
	const char *conf;     /* --conf, several joined by ',' */
	const char *exes;     /* --exe, several joined by ':' */
	bool wants_jemalloc;  /* --jemalloc: preload one */
	const char *jemalloc; /* this one; NULL: the machine's */
	bool wants_mapped;    /* --mapped: memory that the program maps itself is sampled */
	const char *agent_library;
	const char *final_prefix; /* sample from the start and dump there at exit */
};

/* One variable of the environment to set. */
struct launch_variable {
	const char *name;
	const char *value;
};

enum { LAUNCH_VARIABLES = 7 };

struct launch_plan {
	struct program program; /* the one that will be profiled */
	struct launch_variable variables[LAUNCH_VARIABLES];
	size_t variable_count;
	const char *jemalloc; /* preloaded besides the agent; NULL for none */
	/* Messages for the user, in the order of the decisions. */
	const char *notes[16];
	size_t note_count;
	struct string_pool strings; /* owns all of the above */
};

/*
 * Makes the plan from the program and the environment. Fails, with the reason and a
 * way out, for what cannot work: setuid, static, scripts whose program is unknown, sanitizers.
 */
MUST_CHECK bool launch_plan_make(
	const struct launch_request *request, struct launch_plan *plan, struct error *err);
void launch_plan_deinit(struct launch_plan *plan);

/*
 * The option string for jemalloc: the defaults that let heapctl in, then what was in the
 * environment, then what the user passed now, so that the later wins. Adds notes to the plan.
 * ERROR_USAGE when `request->conf` is malformed; a malformed inherited text is only noted.
 */
MUST_CHECK bool launch_conf(struct launch_plan *plan, const struct launch_request *request,
	const char *inherited, const char *misnamed, const char **value, struct error *err);
