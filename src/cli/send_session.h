/* SPDX-License-Identifier: Apache-2.0 */
/* heapctl send: finds the profiles of operands, resolves their symbols and sends them. */
#pragma once

#include "cli/fleet_store.h"
#include "store/identity.h"

enum { SEND_LEFT_OUT = 64 };

struct send_options {
	struct fleet_store_options store;
	struct snapshot_identity identity; /* what options say */
	const char *lib_prefixes;
	const char *debuginfod; /* NULL: never ask */
	bool no_cache;
	int64_t retry_ms;
	bool follows;	   /* folders of snapshots, until a signal or a failure ends it */
	int64_t gather_ms; /* what comes within so long is one batch */
	int report_fd;	   /* for heapctl serve (cli/send_report.h); -1: none */
	int64_t left_out[SEND_LEFT_OUT]; /* snapshots that ended an earlier process */
	size_t left_out_count;
	char *const *operands;
	size_t operand_count;
};

/* Prints how many snapshots were sent. */
MUST_CHECK bool send_session_run(const struct send_options *options, struct error *err);
