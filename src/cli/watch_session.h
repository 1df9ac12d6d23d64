/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapctl watch until it is stopped: polls a watcher and finds its target again after a restart.
 * Prints the path of each capture on stdout, and events on stderr.
 */
#pragma once

#include "watch/settings.h"

struct watch_options {
	const char *operand;		/* TARGET */
	struct watch_settings settings; /* no folder: one is named after the target */
	int64_t captures;		/* end after this number; 0: never */
};

/* Until an interrupt, the wanted number of captures, or the end of a process named by its pid. */
MUST_CHECK bool watch_session_run(const struct watch_options *options, struct error *err);
