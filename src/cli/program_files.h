/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the other files of heapctl are: beside the binary in a build tree, in the library folders
 * when installed.
 *
 * The command is three binaries of one source: heapctl, which starts in two milliseconds;
 * heapctl-net, the same with TLS, the HTTP server and SQLite, whose libraries take longer to load
 * than most commands run; and heapctl-fleet, the same with libcurl as well, whose libraries take
 * longer again. heapctl becomes one of these, with the same arguments, when a command needs it.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* Keeps the program's arguments, which parsing reorders: call it first in main. */
void net_program_init(int argc, char **argv);

/* Whether an argument looks as if heapctl-net were needed: a URL with https. */
bool net_program_is_wanted(int argc, char **argv);

/*
 * Becomes heapctl-net from the beginning: call it before anything was done that must not be done
 * twice. Returns only on failure, with false.
 */
bool net_program_exec(struct error *err);

/* The same for heapctl-fleet. */
bool fleet_program_exec(struct error *err);

enum agent_library {
	AGENT_LIBRARY,	       /* libheapctl.so */
	AGENT_LIBRARY_PRELOAD, /* what loads it, from beside itself, where it shall be */
	AGENT_LIBRARY_MUSL,    /* for programs with musl */
	AGENT_LIBRARY_STATIC,  /* for static programs */
};

/* The path of one of heapctl's libraries. ERROR_NOT_FOUND. */
MUST_CHECK bool agent_library_find(enum agent_library library, char path[4096], struct error *err);
