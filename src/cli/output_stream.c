/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output_stream.h"

#include <unistd.h>

static bool begin(struct output_stream *stream)
{
	stream->has_begun = true;
	return stream->path == NULL ||
	       file_draft_open(stream->path, 0666, &stream->draft, &stream->problem);
}

static bool take(void *context, const char *data, size_t size)
{
	struct output_stream *const stream = context;

	if (!stream->has_begun && !begin(stream))
		return false;
	const bool is_file = stream->path != NULL;
	return file_write_fd(is_file ? stream->draft.fd : STDOUT_FILENO,
		is_file ? stream->path : "standard output", data, size, &stream->problem);
}

void output_stream_begin(struct output_stream *stream, const char *path, struct buffer *out)
{
	*stream = (struct output_stream){
		.path = path,
		.drain = { take, stream },
		.draft = { .fd = -1 },
	};
	out->drain = &stream->drain;
}

bool output_stream_end(
	struct output_stream *stream, struct buffer *out, bool done, struct error *err)
{
	/* The first problem: what was made after it has others. */
	if (out->failed) {
		*err = stream->problem;
		done = false;
	}
	if (done && stream->path != NULL)
		done = file_write_fd(stream->draft.fd, stream->path, out->data, out->size, err) &&
		       file_draft_commit(&stream->draft, err);
	else if (done)
		done = file_write_fd(STDOUT_FILENO, "standard output", out->data, out->size, err);
	if (!done)
		file_draft_discard(&stream->draft);
	return done;
}
