/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapctl serve: the gateway as one call. It answers HTTP for the agents of this machine until
 * SIGINT or SIGTERM, and keeps every network matter out of the servers themselves.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct serve_options {
	const char *const *addresses; /* see listener.h; none: 127.0.0.1:7070 or systemd's */
	size_t address_count;
	const char *token_file;			 /* NULL for none */
	const char *certificate_file, *key_file; /* PEM; both or neither */
	const char *const *targets;		 /* none: every target that can be seen */
	size_t target_count;
	/* A fleet's database (docs/fleet.md); NULL: nothing is sent. More arguments of heapctl
	   send; end with NULL. Needs a history. */
	const char *send_url;
	const char *const *send_arguments;
	/* The database that the page's view of the fleet is from; NULL: there is none. */
	const char *store_url, *store_password_file;
	int64_t until_exit;	    /* end with the process of this pid; 0 for none */
	const char *history_folder; /* NULL: keep no history */
	int64_t history_every_ms, history_keep_ms;
	uint64_t history_bytes, history_free_bytes;
	bool shows_disasm;	    /* assembly of the targets' programs */
	const char *debuginfod;	    /* for names and sources; NULL: no server is asked */
	const char *source_root;    /* sources may be read below this folder; NULL: none at all */
	const char *symbols_folder; /* with .build-id/ in it; NULL: serve no symbols */
	const char *watch_file;	    /* NULL: watch nothing; read again on SIGHUP */
	/* One line without a newline; any thread. */
	void (*log)(const char *line);
};

/*
 * Serves until SIGINT, SIGTERM or the end of `until_exit`. ERROR_DENIED when an address that other
 * machines can reach has no token. These signals (with a watch file also SIGHUP and SIGUSR1) must
 * not be handled elsewhere; no other thread may run yet.
 */
MUST_CHECK bool serve_run(const struct serve_options *options, struct error *err);
