/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The TLS side of a stream, on GnuTLS. Nothing here blocks: an operation that cannot
 * continue returns what to wait for, and is repeated afterwards.
 */
#pragma once

#include <stddef.h>

#include "base/error.h"

struct stream_tls;

enum stream_tls_result {
	STREAM_TLS_DONE,
	STREAM_TLS_WANTS_READ,
	STREAM_TLS_WANTS_WRITE,
	STREAM_TLS_FAILED,
};

/* NULL on failure. `host` is what the certificate must be for; `authorities` may be NULL. */
struct stream_tls *stream_tls_new(
	int fd, const char *host, const char *authorities, struct error *err);
void stream_tls_free(struct stream_tls *tls);

enum stream_tls_result stream_tls_handshake(struct stream_tls *tls, struct error *err);
enum stream_tls_result stream_tls_send(
	struct stream_tls *tls, const void *data, size_t size, size_t *sent, struct error *err);

/* *got == 0 is the end of the stream, announced by the other side. */
enum stream_tls_result stream_tls_receive(
	struct stream_tls *tls, void *data, size_t size, size_t *got, struct error *err);
