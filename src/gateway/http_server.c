/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/http_server.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/xalloc.h"
#include "gateway/connection_slots.h"
#include "gateway/router.h"
#include "gateway/tls_certificate.h"
#include "gateway/upload.h"

enum {
	THREAD_STACK_BYTES = 1024 * 1024,
	DISCARDED_BYTES_MAX = 16 * 1024 * 1024,
	/* Never reached: libmicrohttpd 0.9.75 keeps a lock forever at its own limit. */
	LIBRARY_CONNECTIONS_MAX = 2 * SERVER_CONNECTIONS_MAX,
};

/* TLS 1.2 and 1.3, with forward secrecy and authenticated encryption. */
#define TLS_PRIORITIES                                                                         \
	"NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2:-KX-ALL:+ECDHE-ECDSA:+ECDHE-RSA:+DHE-RSA:" \
	"-CIPHER-ALL:+AES-256-GCM:+CHACHA20-POLY1305:+AES-128-GCM:-MAC-ALL:+AEAD"

struct http_server {
	struct gateway *gateway;
	const struct listener *listener;
	struct MHD_Daemon *daemon;
	struct acceptor *acceptor;
	struct connection_slots *slots;
};

/* One request from its first byte to its last. */
struct exchange {
	char *target;
	struct buffer body;
	struct upload upload;
	bool is_upload; /* the body goes there */
	size_t body_limit;
	size_t body_size;
	bool has_begun;
	bool is_last; /* of its connection */
	bool is_too_large;
	size_t discarded;
};

static struct exchange *exchange_new(const char *target)
{
	struct exchange *const exchange = xmalloc(sizeof *exchange);

	*exchange = (struct exchange){ .target = xstrdup(target), .upload = UPLOAD_NONE };
	buffer_init(&exchange->body, &memory_or_exit);
	return exchange;
}

static void exchange_free(struct exchange *exchange)
{
	if (exchange == NULL)
		return;
	buffer_deinit(&exchange->body);
	upload_deinit(&exchange->upload);
	free(exchange->target);
	free(exchange);
}

/*
 * The library decodes the URL that it passes later; the router needs it as sent. The library also
 * puts each parameter of the query into the connection's memory, and closes the connection without
 * an answer when that is full. The router reads the parameters from the URL, so the query is cut
 * off here. The URL is in the connection's buffer, where the library itself ends it at the '?'
 * after this call.
 */
static void *begin_exchange(void *context, const char *uri, struct MHD_Connection *connection)
{
	struct exchange *const exchange = exchange_new(uri);
	char *const query = strchr(uri, '?');

	(void)context;
	(void)connection;
	if (query != NULL)
		query[1] = '\0';
	return exchange;
}

static struct connection_slot *slot_of(struct MHD_Connection *connection)
{
	return MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT)
		->socket_context;
}

static void enter(struct http_server *server, struct MHD_Connection *connection,
	enum connection_state state, struct blob *answer)
{
	connection_slot_enter(server->slots, slot_of(connection), state, answer);
}

static void end_exchange(void *context, struct MHD_Connection *connection, void **exchange,
	enum MHD_RequestTerminationCode why)
{
	(void)why;
	enter(context, connection, CONNECTION_REQUEST, NULL);
	exchange_free(*exchange);
	*exchange = NULL;
}

static const char *header(struct MHD_Connection *connection, const char *name)
{
	return MHD_lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

static void name_peer(const struct http_server *server, struct MHD_Connection *connection,
	char text[INET6_ADDRSTRLEN])
{
	const union MHD_ConnectionInfo *const info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);

	snprintf(text, INET6_ADDRSTRLEN, "%s", "a client");
	if (server->listener->is_unix)
		snprintf(text, INET6_ADDRSTRLEN, "%s", "a local client");
	else if (info != NULL && info->client_addr != NULL)
		getnameinfo(info->client_addr,
			info->client_addr->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6)
								 : sizeof(struct sockaddr_in),
			text, INET6_ADDRSTRLEN, NULL, 0, NI_NUMERICHOST);
}

static int client_fd(struct MHD_Connection *connection)
{
	const union MHD_ConnectionInfo *const info =
		MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);

	return info == NULL ? -1 : info->connect_fd;
}

static void release_blob(void *blob)
{
	blob_drop(blob);
}

static struct MHD_Response *make_response(const struct reply *reply)
{
	struct blob *const body = blob_share(reply->body);

	/* The library takes a pointer that is not const, and does not write through it. */
	return MHD_create_response_from_buffer_with_free_callback_cls(
		body->size, (void *)(uintptr_t)body->data, release_blob, body);
}

static void add_headers(struct MHD_Response *response, const struct reply *reply)
{
	static const char *const always[][2] = {
		{ "X-Content-Type-Options", "nosniff" },
		{ "Cross-Origin-Resource-Policy", "same-origin" },
		{ "Referrer-Policy", "same-origin" },
		{ "Heapctl-Protocol", "1" },
	};

	for (size_t i = 0; i < sizeof always / sizeof always[0]; i++)
		MHD_add_response_header(response, always[i][0], always[i][1]);
	MHD_add_response_header(response, "Content-Type", reply->media_type);
	MHD_add_response_header(
		response, "Cache-Control", reply->may_be_cached ? "no-cache" : "no-store");
	MHD_add_response_header(response, "Content-Security-Policy",
		reply->policy != NULL ? reply->policy
				      : "default-src 'none'; frame-ancestors 'none'; sandbox");
	for (unsigned i = 0; i < reply->header_count; i++)
		MHD_add_response_header(response, reply->headers[i].name, reply->headers[i].value);
}

static enum MHD_Result send_reply(
	const struct http_server *server, struct MHD_Connection *connection, struct reply *reply)
{
	struct gateway_counters *const counters = &server->gateway->counters;
	const int class = reply->status / 100 % GATEWAY_STATUS_CLASSES;

	if (reply->body == NULL)
		reply_text(reply, 500, "the gateway has no answer\n");
	__atomic_add_fetch(&counters->answers[class], 1, __ATOMIC_RELAXED);
	struct MHD_Response *const response = make_response(reply);
	if (response == NULL)
		return MHD_NO;
	add_headers(response, reply);
	/* The handler's time is not the client's idle time: restart the timeout. */
	MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, SERVER_IDLE_SECONDS);
	const enum MHD_Result result =
		MHD_queue_response(connection, (unsigned)reply->status, response);
	MHD_destroy_response(response);
	return result;
}

static struct incoming incoming_of(const struct http_server *server,
	struct MHD_Connection *connection, const char *method, const struct exchange *exchange)
{
	return (struct incoming){
		.method = method,
		.target = exchange->target,
		.policy = {
			.host = header(connection, "Host"),
			.origin = header(connection, "Origin"),
			.referer = header(connection, "Referer"),
			.fetch_site = header(connection, "Sec-Fetch-Site"),
			.fetch_mode = header(connection, "Sec-Fetch-Mode"),
			.authorization = header(connection, "Authorization"),
		},
		.accept = header(connection, "Accept"),
		.content_type = header(connection, "Content-Type"),
		.if_none_match = header(connection, "If-None-Match"),
		.is_private = server->listener->is_unix && server->listener->is_private,
		.client_fd = client_fd(connection),
	};
}

/* The upload as a blob, if there is one; a failure is replied. */
static bool take_upload(struct exchange *exchange, struct blob **upload, struct reply *reply)
{
	struct error err = { 0 };

	if (!exchange->is_upload || exchange->is_too_large ||
		upload_take(&exchange->upload, upload, &err))
		return true;
	reply_error(reply, &err);
	return false;
}

static enum MHD_Result answer(struct http_server *server, struct MHD_Connection *connection,
	const char *method, struct exchange *exchange)
{
	CLEANUP(blob_cleanup) struct blob *upload = NULL;
	char peer[INET6_ADDRSTRLEN];
	struct reply reply;
	struct incoming incoming = incoming_of(server, connection, method, exchange);

	incoming.protocol_peer = peer;
	incoming.body = buffer_string(&exchange->body);
	incoming.body_size = exchange->body.size;
	incoming.body_too_large = exchange->is_too_large;
	name_peer(server, connection, peer);
	MHD_set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT, 0);
	reply_init(&reply);
	__atomic_add_fetch(&server->gateway->counters.active, 1, __ATOMIC_RELAXED);
	enter(server, connection, CONNECTION_WORK, NULL);
	if (take_upload(exchange, &upload, &reply)) {
		incoming.upload = upload;
		router_answer(server->gateway, &incoming, &reply);
	}
	if (exchange->is_last)
		reply_header(&reply, "Connection", "close");
	enter(server, connection, CONNECTION_ANSWER, reply.body);
	const enum MHD_Result result = send_reply(server, connection, &reply);
	__atomic_sub_fetch(&server->gateway->counters.active, 1, __ATOMIC_RELAXED);
	reply_deinit(&reply);
	return result;
}

static void take_upload_part(struct http_server *server, struct MHD_Connection *connection,
	struct upload *upload, const char *data, size_t size)
{
	upload_append(upload, data, size);
	connection_slot_hold(
		server->slots, slot_of(connection), &blob_scratch_budget, upload->held);
}

/* Collects the body; MHD_NO closes the connection of a client that keeps sending too much. */
static enum MHD_Result take_body(struct http_server *server, struct MHD_Connection *connection,
	struct exchange *exchange, const char *data, size_t *size)
{
	if (exchange->body_size + *size > exchange->body_limit)
		exchange->is_too_large = true;
	if (exchange->is_too_large)
		exchange->discarded += *size;
	else if (exchange->is_upload)
		take_upload_part(server, connection, &exchange->upload, data, *size);
	else
		buffer_append(&exchange->body, data, *size);
	exchange->body_size += *size;
	*size = 0;
	return exchange->discarded > DISCARDED_BYTES_MAX ? MHD_NO : MHD_YES;
}

/* Parts of a request's head that two parsers may read differently (request smuggling). */
struct head {
	bool has_odd_field; /* a name that is no token, a bare CR or NUL, a second line */
	bool has_repeated_field;
	unsigned seen;	   /* of `single`, one bit each */
	unsigned framings; /* that say where the body ends */
	bool has_unknown_coding;
	uint64_t length; /* of the body; 0 when it is not said */
};

/* Fields that decide what a request may do: another parser may use the other one of two. */
enum { SEEN_HOST = 1 << 0 };
static const char *const single[] = { "Host", "Origin", "Referer", "Sec-Fetch-Site",
	"Sec-Fetch-Mode", "Authorization", NULL };

/* RFC 9110, 5.6.2. "Content-Length " is another field to the library, but not to all proxies. */
static bool is_token(const char *name, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		const unsigned char c = (unsigned char)name[i];
		if (!isalnum(c) && (c == '\0' || strchr("!#$%&'*+-.^_`|~", c) == NULL))
			return false;
	}
	return size > 0;
}

static bool is_field_value(const char *value, size_t size)
{
	for (size_t i = 0; i < size; i++) {
		if (value[i] == '\0' || value[i] == '\r' || value[i] == '\n')
			return false;
	}
	return true;
}

/*
 * To the library, "Content-Length:\r\n 5" is a field "Content-Length5" without a value: it copies
 * the name out of the request, where the value follows it, and appends the next line to that.
 */
static bool is_continued(const char *name, const char *value)
{
	return (uintptr_t)value < (uintptr_t)name;
}

static enum MHD_Result check_field(void *context, enum MHD_ValueKind kind, const char *name,
	size_t name_size, const char *value, size_t value_size)
{
	struct head *const head = context;

	(void)kind;
	if (!is_token(name, name_size) || (value != NULL && (!is_field_value(value, value_size) ||
								    is_continued(name, value))))
		head->has_odd_field = true;
	if (value == NULL)
		return MHD_YES;
	for (unsigned i = 0; single[i] != NULL; i++) {
		if (strcasecmp(name, single[i]) != 0)
			continue;
		head->has_repeated_field |= (head->seen & 1U << i) != 0;
		head->seen |= 1U << i;
	}
	if (strcasecmp(name, "Content-Length") == 0) {
		head->framings++;
		head->length = strtoull(value, NULL, 10);
	}
	if (strcasecmp(name, "Transfer-Encoding") == 0) {
		head->framings++;
		head->has_unknown_coding |= strcasecmp(value, "chunked") != 0;
	}
	return MHD_YES;
}

/* RFC 9112, 3.2: a request without Host is answered with 400, but for those of HTTP/1.0. */
static bool misses_host(const struct head *head, const char *version)
{
	return (head->seen & SEEN_HOST) == 0 && strcmp(version, "HTTP/1.0") != 0;
}

static void explain_head(const struct head *head, const char *version, struct error *err)
{
	if (misses_host(head, version) && !head->has_odd_field) {
		error_set(err, ERROR_USAGE, "the request has no Host");
		error_hint(err, "every request of HTTP/1.1 needs one: send Host: localhost");
		return;
	}
	error_set(err, ERROR_USAGE, "ambiguous request headers");
	error_hint(err,
		"send Host, Origin, Referer and Authorization once at most, one Content-Length or "
		"Transfer-Encoding: chunked, each field in one line, no blank before a ':', no "
		"bare CR and no NUL");
}

/* Refuses some requests before their body is read. */
static enum MHD_Result check_head(const struct http_server *server,
	struct MHD_Connection *connection, const char *version, struct exchange *exchange)
{
	struct head head = { 0 };
	struct error err = { 0 };
	struct reply reply;

	MHD_get_connection_values_n(connection, MHD_HEADER_KIND, check_field, &head);
	const bool is_clear = !head.has_odd_field && !head.has_repeated_field &&
			      head.framings <= 1 && !head.has_unknown_coding &&
			      !misses_host(&head, version);
	/*
	 * The library cuts a value at a NUL, so a proxy may still see another end of the body.
	 * Closing the connection keeps the rest from being read as a request.
	 */
	exchange->is_last = head.framings > 0;
	if (is_clear && head.length <= exchange->body_limit + DISCARDED_BYTES_MAX)
		return MHD_YES;
	reply_init(&reply);
	if (is_clear) {
		reply_text(&reply, 413, "the request's body is too large\n");
	} else {
		explain_head(&head, version, &err);
		reply_error(&reply, &err);
	}
	/* The rest may be the body to another parser. */
	reply_header(&reply, "Connection", "close");
	const enum MHD_Result result = send_reply(server, connection, &reply);
	reply_deinit(&reply);
	return result;
}

/* Clients without the right to it fill no files. */
static enum MHD_Result begin_upload(struct http_server *server, struct MHD_Connection *connection,
	const char *method, const char *version, struct exchange *exchange)
{
	const struct incoming incoming = incoming_of(server, connection, method, exchange);
	struct reply reply;

	reply_init(&reply);
	if (router_admits(server->gateway, &incoming, &reply)) {
		reply_deinit(&reply);
		exchange->is_upload = true;
		enter(server, connection, CONNECTION_UPLOAD, NULL);
		return check_head(server, connection, version, exchange);
	}
	reply_header(&reply, "Connection", "close");
	const enum MHD_Result result = send_reply(server, connection, &reply);
	reply_deinit(&reply);
	return result;
}

static enum MHD_Result begin_body(struct http_server *server, struct MHD_Connection *connection,
	const char *method, const char *version, struct exchange *exchange)
{
	const struct route *const routes = server->gateway->routes;
	const uint64_t upload_limit = router_upload_limit(routes, method, exchange->target);

	exchange->body_limit = upload_limit > 0
				       ? upload_limit
				       : router_body_limit(routes, method, exchange->target);
	return upload_limit > 0 ? begin_upload(server, connection, method, version, exchange)
				: check_head(server, connection, version, exchange);
}

static enum MHD_Result handle(void *context, struct MHD_Connection *connection, const char *url,
	const char *method, const char *version, const char *data, size_t *size, void **state)
{
	struct http_server *const server = context;
	struct exchange *const exchange = *state;

	(void)url;
	if (exchange == NULL)
		return MHD_NO;
	if (!exchange->has_begun) {
		exchange->has_begun = true;
		return begin_body(server, connection, method, version, exchange);
	}
	if (*size > 0)
		return take_body(server, connection, exchange, data, size);
	return answer(server, connection, method, exchange);
}

static void notice_connection(void *context, struct MHD_Connection *connection, void **state,
	enum MHD_ConnectionNotificationCode what)
{
	struct http_server *const server = context;

	if (what == MHD_CONNECTION_NOTIFY_STARTED)
		*state = connection_slot_attach(server->slots, client_fd(connection));
	else
		connection_slot_detach(server->slots, TAKE(*state));
}

static void ignore_log(void *context, const char *format, va_list arguments)
{
	(void)context;
	(void)format;
	(void)arguments;
}

bool http_server_start(struct gateway *gateway, const struct listener *listener,
	struct connection_slots *slots, bool has_certificate, struct http_server **server_ret,
	struct error *err)
{
	struct http_server *const server = xmalloc(sizeof *server);
	const struct MHD_OptionItem tls[] = {
		{ MHD_OPTION_HTTPS_CERT_CALLBACK, 0, (void *)(uintptr_t)tls_certificate_retrieve },
		{ MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)TLS_PRIORITIES },
		{ MHD_OPTION_END, 0, NULL },
	};
	const bool is_tls = has_certificate && !listener->is_unix;
	const unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION |
			       MHD_USE_POLL | MHD_USE_ITC | MHD_USE_ERROR_LOG |
			       MHD_USE_NO_LISTEN_SOCKET | (is_tls ? MHD_USE_TLS : 0);

	*server = (struct http_server){ .gateway = gateway, .listener = listener, .slots = slots };
	server->daemon = MHD_start_daemon(flags, 0, NULL, NULL, handle, server,
		MHD_OPTION_EXTERNAL_LOGGER, ignore_log, NULL, MHD_OPTION_CONNECTION_LIMIT,
		(unsigned)LIBRARY_CONNECTIONS_MAX, MHD_OPTION_NOTIFY_CONNECTION, notice_connection,
		server, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SERVER_IDLE_SECONDS,
		MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)SERVER_HEAD_BYTES,
		MHD_OPTION_THREAD_STACK_SIZE, (size_t)THREAD_STACK_BYTES,
		MHD_OPTION_URI_LOG_CALLBACK, begin_exchange, NULL, MHD_OPTION_NOTIFY_COMPLETED,
		end_exchange, server, MHD_OPTION_ARRAY, is_tls ? tls : tls + 2, MHD_OPTION_END);
	if (server->daemon == NULL) {
		const int failure = errno;
		http_server_stop(server);
		return error_system(err, failure, "starting the server");
	}
	if (!acceptor_start(
		    listener, server->daemon, slots, gateway->stop_fd, &server->acceptor, err)) {
		http_server_stop(server);
		return false;
	}
	*server_ret = server;
	return true;
}

void http_server_stop(struct http_server *server)
{
	acceptor_join(server->acceptor);
	if (server->daemon != NULL)
		MHD_stop_daemon(server->daemon);
	free(server);
}
