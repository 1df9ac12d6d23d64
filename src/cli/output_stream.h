/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file or standard output that takes a long output while it is being made, so that only a piece
 * of it is in memory: the drain of a buffer (base/buffer.h). Nothing is opened before the first
 * piece. A file gets its name once all of it is written; standard output may get a part of an
 * output that fails.
 */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/file.h"

struct output_stream {
	const char *path; /* NULL: standard output */
	bool has_begun;	  /* a piece was written, or was to be */

	/* Private. */
	struct buffer_drain drain;
	struct file_draft draft;
	struct error problem;
};

/* From now on the buffer's contents go to `path`, which is borrowed. Neither struct may move. */
void output_stream_begin(struct output_stream *stream, const char *path, struct buffer *out);

/*
 * Writes what is left in the buffer, once the stream has begun. `done` is whether the output was
 * made without an error, which is in `err` otherwise; then a file is discarded.
 */
MUST_CHECK bool output_stream_end(
	struct output_stream *stream, struct buffer *out, bool done, struct error *err);
