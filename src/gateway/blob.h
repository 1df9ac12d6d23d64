/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes that several answers share: a profile, a render, a document. Immutable; counted references,
 * any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "base/error.h"

struct blob {
	unsigned references;
	int fd; /* of the file that data maps, for another process to read; -1 for none */
	size_t size;
	const char *data;
	struct byte_budget *budget; /* gets budget_bytes back when it is freed; NULL: none */
	uint64_t budget_bytes;
};

/* Moves the buffer's contents into a blob with one reference. The buffer is empty afterwards. */
struct blob *blob_take(struct buffer *contents);

/* Takes over the descriptor of a file that is not written to any more. */
MUST_CHECK bool blob_take_fd(int fd, struct blob **blob, struct error *err);

/*
 * A nameless file for large data, or for data that another process reads: in TMPDIR, else in
 * /var/tmp, else in memory.
 */
MUST_CHECK bool blob_open_scratch(int *fd, struct error *err);

/* Where scratch files are, for display. */
const char *blob_scratch_place(void);

/* One more reference; returns `blob`. */
struct blob *blob_share(struct blob *blob);

/* One reference less; NULL is fine. */
void blob_drop(struct blob *blob);

static inline void blob_cleanup(struct blob **blob)
{
	blob_drop(*blob);
}
