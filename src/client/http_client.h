/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request and its answer over a connected stream, and the URL of a gateway to connect to.
 *
 * The body goes into a buffer, up to its limit, or into a descriptor. The body of an error answer
 * always goes into the buffer.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/memory.h"
#include "client/stream.h"
#include "wire/http_message.h"

/* http://host:port, or of a target behind it, http://host:port/targets/NAME. */
struct gateway_url {
	bool use_tls;
	char host[256];
	char port[8];
	char prefix[512]; /* "" or "/targets/NAME", encoded as typed */
};

/* Whether the text is meant as a URL: it begins with http:// or https://. */
bool gateway_url_detect(const char *text);

/* ERROR_USAGE when it is not that of a gateway or a target. */
MUST_CHECK bool gateway_url_parse(const char *text, struct gateway_url *url, struct error *err);

struct http_answer;

/* Bytes of the answer have arrived, and it is not whole yet. */
typedef void http_progress_function(void *context, const struct http_answer *answer);

struct http_call {
	const char *method; /* GET, HEAD, POST */
	const char *target; /* path and query, encoded */
	const char *host;
	const struct http_field *fields; /* ends with a NULL name; may be NULL */
	const char *body;		 /* NULL for none */
	size_t body_size;
	int out_fd;	      /* where a good answer's body goes when out_name is set */
	const char *out_name; /* for errors; NULL: into the answer's buffer */
	uint64_t limit;	      /* a longer body is an error, at once where its length is announced */
	/* How the Content-Type of a good answer begins, and its body; NULL: anything. */
	const char *type, *beginning;
	struct byte_budget *budget;	     /* shared with other calls; NULL for none */
	http_progress_function *on_progress; /* NULL for none */
	void *progress_context;
};

struct http_answer {
	int status;
	uint64_t body_bytes;	    /* of the whole body, wherever it went */
	struct byte_budget *budget; /* has these bytes of it; given back with the answer */
	uint64_t budget_bytes;
	bool output_failed; /* the call did, because the body could not be written */
	bool is_refused;    /* not of the call's type, or begins otherwise: not read to its end */
	struct buffer body;
	struct http_parser parser; /* holds the head */
};

void http_answer_init(struct http_answer *answer);
void http_answer_deinit(struct http_answer *answer);

/* The bytes that the answer has of its budget are the caller's to give back. */
uint64_t http_answer_take_budget(struct http_answer *answer);

/* The first field of that name, any case; NULL when there is none. */
const char *http_answer_field(const struct http_answer *answer, const char *name);

/*
 * Sends the call and receives the whole answer, unless that is refused. True for any status: the
 * caller checks it.
 * ERROR_INPUT for an answer that is no HTTP, is cut off (then errnum is ECONNABORTED) or exceeds
 * the limit.
 */
MUST_CHECK bool http_call(struct stream *stream, const struct http_call *call,
	struct http_answer *answer, struct error *err);
