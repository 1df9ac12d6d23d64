/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's settings: from the environment (HEAPCTL_...) or from the program that embeds it.
 * Read once; a child after fork has the same. Never fails: an invalid value leaves the default and
 * is named in `problem`, which status shows.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	SETTINGS_PATH_MAX = 256,
	SETTINGS_EXES_MAX = 1024,
	SETTINGS_KEEP_MAX = 32, /* each may need two descriptors */
	SETTINGS_IDENTITY_MAX = 2048,
};

enum settings_children {
	SETTINGS_CHILDREN_DEFAULT,
	SETTINGS_CHILDREN_NO,
	SETTINGS_CHILDREN_ON_DEMAND,
	SETTINGS_CHILDREN_THREAD,
};

struct settings {
	char folder[SETTINGS_PATH_MAX];	 /* HEAPCTL_DIR; "" for the usual place */
	char runtime[SETTINGS_PATH_MAX]; /* XDG_RUNTIME_DIR; "" */
	char exes[SETTINGS_EXES_MAX];	 /* HEAPCTL_EXE; "" for any */
	unsigned keep;			 /* HEAPCTL_KEEP: finished runs, 1..32 */
	uint64_t keep_bytes;		 /* HEAPCTL_KEEP_BYTES */
	bool disabled;			 /* HEAPCTL_DISABLE=1 */
	bool on_demand;			 /* HEAPCTL_THREAD=on-demand */
	bool jemalloc_stacks;		 /* HEAPCTL_UNWINDER=jemalloc */
	bool no_sampler;		 /* HEAPCTL_SAMPLER=no: jemalloc's profiler or none */
	enum settings_children children; /* HEAPCTL_CHILDREN=no, on-demand or thread */
	bool log_to_stderr;		 /* HEAPCTL_LOG=stderr */
	bool activate;			 /* HEAPCTL_ACTIVATE=1: heapctl's sampler is on at once */
	bool mapped;			 /* HEAPCTL_MAPPED=1: it samples mmap, too */
	char final[SETTINGS_PATH_MAX];	 /* HEAPCTL_FINAL: PREFIX of a profile at the exit; "" */
	unsigned lg_sample;		 /* HEAPCTL_SAMPLE in bytes, as a power of two */
	bool attached;	   /* loaded into a running process by `heapctl attach`: can be detached */
	bool with_entries; /* and that patches the functions of the allocator */
	/* Of identity_variables.h what is set and fits: "NAME=VALUE" and NUL each, and NUL. */
	char identity[SETTINGS_IDENTITY_MAX];
	char problem[128]; /* "" when all are valid */
};

/* `get` is secure_getenv, or a test's own. */
void settings_read(struct settings *settings, char *(*get)(const char *name));
