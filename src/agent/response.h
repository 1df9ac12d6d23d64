/* SPDX-License-Identifier: Apache-2.0 */
/* An answer before it is written: bytes, or a file to send from. */
#pragma once

#include "agent/descriptor.h"
#include "base/buffer.h"

struct response {
	int status;
	const char *content_type; /* a constant */
	const char *allow;	  /* header Allow of a 405, a constant; NULL: none */
	struct buffer body;	  /* unless `file` is open */
	struct descriptor file;	  /* owned */
	uint64_t file_size;
	int64_t dump_ms; /* header Heapctl-Dump-Ms; -1: none */
	int64_t time_ms; /* header Heapctl-Time-Ms; -1: none */
};

static inline void response_init(struct response *response, const struct memory *memory)
{
	*response = (struct response){ .status = 200,
		.content_type = "application/json",
		.file = DESCRIPTOR_NONE,
		.dump_ms = -1,
		.time_ms = -1 };
	buffer_init(&response->body, memory);
}

static inline void response_deinit(struct response *response)
{
	buffer_deinit(&response->body);
	descriptor_close(&response->file);
}

static inline uint64_t response_size(const struct response *response)
{
	return response->file.fd >= 0 ? response->file_size : response->body.size;
}

/* The error body of docs/protocol.md and its status; whatever was there is dropped. */
void response_set_error(struct response *response, const struct error *err);

/* The same with a status of HTTP's own (405, 408, 413...). */
void response_set_status_error(struct response *response, int status, const struct error *err);

/*
 * Appends the head: status line, headers, empty line. `keep_alive` false adds Connection: close.
 */
void response_write_head(const struct response *response, bool keep_alive, struct buffer *out);
