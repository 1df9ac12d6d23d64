/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection as a stream of bytes: a unix socket, TCP, or TLS over TCP.
 *
 * Calls block, but never forever: each waits `idle_ms` at most for the other side, and all end at
 * `deadline_ms` or once `cancel_fd` is readable. Descriptors are close-on-exec. One
 * thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct stream_tls;

/* False, with the reason, when there is no use in waiting any longer. */
typedef bool stream_check_function(void *context, struct error *err);

struct stream {
	int fd;
	struct stream_tls *tls; /* NULL for a plain one */
	int64_t idle_ms;
	int64_t deadline_ms; /* clock_monotonic_ms */
	int cancel_fd;	     /* -1: none */
	/* Called every check_ms while the other side is silent. NULL: never. */
	stream_check_function *check;
	void *check_context;
	int64_t check_ms;
	char peer[256]; /* for messages: path or host:port */
};

/* Limits for the operations that follow; connecting counts as one. */
void stream_init(struct stream *stream, int64_t idle_ms, int64_t total_ms);
void stream_close(struct stream *stream);

/*
 * Connects to the socket at `path`, of any length. ERROR_NOT_FOUND when no process listens there:
 * errnum is ENOENT (no such file) or ECONNREFUSED (left behind by a process that has ended).
 */
MUST_CHECK bool stream_connect_unix(struct stream *stream, const char *path, struct error *err);

/* The same with another effective user of this thread meanwhile; USER_ANY: its own. */
MUST_CHECK bool stream_connect_unix_as(
	struct stream *stream, const char *path, uid_t user, struct error *err);

/*
 * Tries every address of the host and reports the failure of the last one. ERROR_NOT_FOUND when the
 * name is unknown.
 */
MUST_CHECK bool stream_connect_tcp(
	struct stream *stream, const char *host, const char *port, struct error *err);

/*
 * Goes over to TLS and checks the server's certificate for `host` against the system's
 * authorities, or those of the PEM file `authorities` when that is not NULL.
 */
MUST_CHECK bool stream_start_tls(
	struct stream *stream, const char *host, const char *authorities, struct error *err);

/* All of it. A reader that has disconnected is an error, never a signal. */
MUST_CHECK bool stream_write(
	struct stream *stream, const void *data, size_t size, struct error *err);

/* At least one byte, or *got == 0 at the end. */
MUST_CHECK bool stream_read(
	struct stream *stream, void *data, size_t size, size_t *got, struct error *err);
