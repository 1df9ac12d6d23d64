/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a program into which the agent was preloaded shall have one. LD_PRELOAD is inherited by
 * everything that a server starts, and an agent in a shell or a compiler is of no use.
 *
 * HEAPCTL_EXE names the programs that shall (`heapctl run` sets it). Without it the first program
 * that is not a launcher (a shell, env, nohup, ...) does, and its descendants only when they are
 * that same program.
 */
#pragma once

#include <stdbool.h>

#include "agent/settings.h"

/* Loads the agent where it shall be: preloader.c. */
#define PRELOAD_LIBRARY "libheapctl-preload.so"

struct program_facts {
	char path[4096];      /* of the executable; "" without /proc */
	char started_as[256]; /* the path that was executed, or its end when that is long */
};

/* Finds out what this process runs. At its start: later the kernel's copy may be overwritten. */
void program_facts_read(struct program_facts *program);

enum preload_decision {
	PRELOAD_STAY_OUT,
	PRELOAD_START,
	PRELOAD_START_AND_NAME, /* and set HEAPCTL_EXE to this program */
};

/* What brought the agent into this process. */
struct preload_source {
	const char *own_path;	  /* the file that it was loaded from */
	const char *preload;	  /* LD_PRELOAD; "" */
	const char *preload_file; /* what is in /etc/ld.so.preload; "" where LD_PRELOAD has it */
};

/*
 * A program that is merely linked with the library decides for itself. One that got it from
 * /etc/ld.so.preload, as all programs of the machine did, has an agent only if it is listed.
 */
enum preload_decision preload_decide(const struct settings *settings,
	const struct program_facts *program, const struct preload_source *source);

/*
 * Whether HEAPCTL_EXE is enough to know that this process shall have none, as most of what a target
 * starts. By few instructions on few pages: a page fault costs such a process more than anything
 * else here. False: preload_decide() decides.
 */
bool preload_leaves_out(const char *exes);

/* Whether LD_PRELOAD, or such a text, has the file with the agent, or PRELOAD_LIBRARY. */
bool preload_names_library(const char *preload, const char *own_path);

/* Copies LD_PRELOAD without these entries; `kept` has room for it. */
void preload_remove_library(const char *preload, const char *own_path, char *kept);

/* The last part of the path it was started as: "redis-server". */
const char *program_facts_name(const struct program_facts *program);
