/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The command is two binaries of one source: heapctl, which starts in two milliseconds, and
 * heapctl-net, the same with TLS, the HTTP server and SQLite, whose libraries take longer to load
 * than most commands run. heapctl becomes heapctl-net, with the same arguments, when a command
 * needs one of these.
 */
#pragma once

#include <stdbool.h>

#include "base/error.h"

/* Keeps the program's arguments, which parsing reorders: call it first in main. */
void net_program_init(int argc, char **argv);

/* Whether an argument says so already: a URL with https. */
bool net_program_is_needed(int argc, char **argv);

/*
 * Becomes heapctl-net from the beginning: call it before anything was done that must not be done
 * twice. Returns only on failure, with false.
 */
bool net_program_become(struct error *err);
