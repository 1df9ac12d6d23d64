/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `heapctl run --listen`: a gateway for the program that is about to be started. The address is
 * taken before the program runs, so that what is wrong with it is said in time; the gateway is no
 * child of the program, which may count its own, and ends with it.
 */
#pragma once

#include <sys/types.h>

#include "base/error.h"

/* ERROR_DENIED for an address that other machines reach: that takes a token, and heapctl serve. */
MUST_CHECK bool run_gateway_open(const char *address, int *fd, struct error *err);

/* Starts the gateway for that process on the socket, which is closed here; -1: nothing to do. */
MUST_CHECK bool run_gateway_start(int fd, pid_t pid, struct error *err);

/* Undoes what heapctl changed about signals, for a program that is about to be started. */
void run_restore_signals(void);
