/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The body of a request as a nameless file, for bodies that are too large for memory. It counts
 * towards the budget of scratch files, and is gone with the request.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gateway/result_cache.h"

struct upload {
	int fd;	       /* -1 until the first byte */
	uint64_t held; /* of blob_scratch_budget */
	bool has_failed;
	struct error err; /* why */
};

#define UPLOAD_NONE ((struct upload){ .fd = -1 })

void upload_deinit(struct upload *upload);

/* After a failure the rest is ignored. */
void upload_append(struct upload *upload, const void *data, size_t size);

/* All of it as a blob; an empty upload is ERROR_USAGE. */
MUST_CHECK bool upload_take(struct upload *upload, struct blob **blob, struct error *err);

/* The first `size` bytes, and those behind them, each as a blob with a file of its own. */
MUST_CHECK bool upload_split(struct blob *whole, uint64_t size, struct blob **first,
	struct blob **second, struct error *err);
