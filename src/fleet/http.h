/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests to a server of a fleet, by libcurl. The server is not trusted: an answer has a limit,
 * redirections and proxies are not followed. For one thread at a time.
 */
#pragma once

#include "base/buffer.h"
#include "base/cleanup.h"
#include "base/error.h"

/* A kind of URL: SCHEME://[USER@]HOST[:PORT][/PATH], and SCHEMEs:// with TLS. */
struct fleet_scheme {
	const char *plain, *with_tls; /* "clickhouse://", "clickhouses://" */
	const char *port, *tls_port;  /* where the URL has none; NULL: it has to have one */
	const char *user; /* where the URL has none; NULL: the password is a bearer token */
	const char *hint; /* how such a URL is written */
};

bool fleet_scheme_detect(const struct fleet_scheme *scheme, const char *url);

struct fleet_http_options {
	const struct fleet_scheme *scheme;
	const char *url;
	const char *password;	 /* NULL: none */
	const char *authorities; /* a PEM file; NULL: those of the system */
};

struct fleet_http;

/* Does not connect. ERROR_USAGE for a URL that is not one, or has a password in it. */
MUST_CHECK bool fleet_http_open(
	const struct fleet_http_options *options, struct fleet_http **ret, struct error *err);
void fleet_http_close(struct fleet_http *http);

DEFINE_CLEANUP(fleet_http_cleanup, struct fleet_http *, fleet_http_close)

/* From then on requests fail with ERROR_STATE within a second after this is true. NULL: never. */
void fleet_http_set_cancel(struct fleet_http *http, bool (*is_cancelled)(void));

/* ERROR_USAGE, with the scheme's hint. */
bool fleet_http_refuse_url(const struct fleet_scheme *scheme, const char *why, struct error *err);

/* Whether the password crosses a network unencrypted. */
bool fleet_http_is_exposed(const struct fleet_http *http);

/* For messages: "db:8123", or what was set. */
const char *fleet_http_name(const struct fleet_http *http);
void fleet_http_set_name(struct fleet_http *http, const char *name);

/* Of the URL, decoded, "" or "/...". */
const char *fleet_http_path(const struct fleet_http *http);

/* Encoded for a URL; free with free(). */
char *fleet_http_escape(struct fleet_http *http, const char *text);

struct fleet_http_request {
	const char *path;	    /* and query, encoded, from "/" on */
	const char *const *headers; /* "Name: value", ends with NULL */
	const void *body;
	size_t size;
	bool is_fresh; /* on a new connection: libcurl repeats requests on used ones */
	long seconds;
	size_t limit; /* of the answer */
};

/*
 * POST. Sets the status whatever it is. ERROR_STATE and ERROR_TIMEOUT when the server cannot be
 * reached, ERROR_DENIED for its certificate.
 */
MUST_CHECK bool fleet_http_post(struct fleet_http *http, const struct fleet_http_request *request,
	long *status, struct error *err);

/* The body of the last answer. */
struct buffer *fleet_http_answer(struct fleet_http *http);

/* Whether the same request may succeed later: no connection, no memory, too much to do. */
bool fleet_http_is_temporary(const struct error *err);

struct fleet_retry {
	int64_t limit_ms;    /* tried again for so long; 0: never */
	int64_t max_wait_ms; /* between two attempts */
	/* Called before a wait; the reason is that of the last attempt. NULL: not called. */
	void (*waits)(void *context, int64_t wait_ms, const struct error *why);
	void *context;
};

/* Until it is done, fails for good, or has failed for too long. */
MUST_CHECK bool fleet_retry_run(const struct fleet_retry *retry,
	bool (*attempt)(void *context, struct error *err), void *context, struct error *err);
