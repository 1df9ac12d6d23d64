/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP and TLS, by libmicrohttpd: one listening socket, a thread for each connection, so that a
 * slow client or a handler that waits delays no other client. What a request means is decided in
 * gateway/router.h.
 */
#pragma once

#include "base/error.h"
#include "gateway/connection_slots.h"
#include "gateway/gateway.h"
#include "gateway/listener.h"

struct http_server;

enum {
	SERVER_CONNECTIONS_MAX = 512, /* of all servers of the gateway */
	SERVER_IDLE_SECONDS = 30,
	SERVER_HEAD_BYTES = 32 * 1024,
};

/*
 * Starts answering; with TLS where there is a certificate and the listener is no unix
 * socket. Connections wait for a free slot; all servers of a gateway share the slots. The listener
 * and the slots stay the caller's and must outlive the server.
 */
MUST_CHECK bool http_server_start(struct gateway *gateway, const struct listener *listener,
	struct connection_slots *slots, bool has_certificate, struct http_server **server,
	struct error *err);

/* After the gateway's stop_fd became readable: waits for requests that are being answered. */
void http_server_stop(struct http_server *server);
