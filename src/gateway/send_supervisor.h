/* SPDX-License-Identifier: Apache-2.0 */
/*
 * heapctl serve --send: a thread that runs `heapctl send --follow` for the history in a process of
 * its own. The libraries of HTTP clients stay out of the gateway, and a profile that ends the
 * process ends nothing else. The process is started again after it ended, later after each failure:
 * between a second and a quarter of an hour, at random times. A snapshot that ended it twice is
 * left out. It ends with the gateway, however that ends.
 */
#pragma once

#include "gateway/gateway.h"

struct send_supervisor;

struct send_settings {
	const char *url;
	const char *const *arguments; /* more of heapctl send; ends with NULL */
	const char *folder;
	int64_t gather_ms;
};

/* The gateway, with its stop_fd and store, must outlive it; so must the settings. */
MUST_CHECK bool send_supervisor_start(struct gateway *gateway, const struct send_settings *settings,
	struct send_supervisor **ret, struct error *err);

/* After stop_fd became readable: waits for its end. NULL is fine. */
void send_supervisor_join(struct send_supervisor *supervisor);

struct send_state {
	uint64_t sent, known; /* by this gateway; known: they were there already */
	uint64_t left_out;    /* could not be read */
	uint64_t unsent;
	int64_t oldest_unsent_ms; /* 0: there is none */
	int64_t last_sent_ms;	  /* 0: none yet */
	int64_t next_attempt_ms;  /* after a failure; else 0 */
	uint64_t restarts;	  /* of the process */
	struct error problem;	  /* ERROR_NONE: the last attempt succeeded */
};

/* Any thread. */
void send_supervisor_read(struct send_supervisor *supervisor, struct send_state *state);

/* Where to. */
const char *send_supervisor_url(const struct send_supervisor *supervisor);
