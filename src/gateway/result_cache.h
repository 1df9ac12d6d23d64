/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of results that are expensive to make: rendered profiles, profiles of runs. Requests for
 * a result that is being made wait for it. When it is full, the user whose results take the most is
 * the one who loses the least recently used, so that one user's do not displace the others'. Any
 * thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/memory.h"
#include "gateway/waiting_clients.h"

/*
 * Bytes that several answers share: a profile, a render, a document. Immutable; counted references,
 * any thread.
 */

struct blob {
	unsigned references;
	int fd; /* of the file that data maps, for another process to read; -1 for none */
	size_t size;
	const char *data;
	struct byte_budget *budget; /* gets budget_bytes back when it is freed; NULL: none */
	uint64_t budget_bytes;
	bool is_partial; /* made again, there may be more of it */
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

/*
 * Of the scratch files that are made from profiles: clients that read slowly keep them. Profiles of
 * targets have a budget of their own, so that such clients do not stop the history.
 */
#define BLOB_SCRATCH_BYTES (UINT64_C(2) << 30)
extern struct byte_budget blob_scratch_budget;

/*
 * Takes `bytes` more of blob_scratch_budget for a file that has `*held` of it, and adds them to
 * `*held`. ERROR_TIMEOUT when there are not as many.
 */
MUST_CHECK bool blob_scratch_take(uint64_t *held, uint64_t bytes, struct error *err);

/* blob_take_fd of a scratch file that has `held` bytes of the budget; the blob gives them back. */
MUST_CHECK bool blob_take_scratch(int fd, uint64_t held, struct blob **blob, struct error *err);

/* Where scratch files are, for display. */
const char *blob_scratch_place(void);

/* One more reference; returns `blob`. */
struct blob *blob_share(struct blob *blob);

/* One reference less; NULL is fine. */
void blob_drop(struct blob *blob);

DEFINE_CLEANUP(blob_cleanup, struct blob *, blob_drop)

enum { RESULT_CACHE_ENTRIES_MAX = 512 };

struct cached_result;

struct result_cache {
	size_t kept_limit_bytes;

	pthread_mutex_t mutex; /* of what follows */
	pthread_cond_t changed;
	struct cached_result *newest; /* a list by last use */
	size_t kept_bytes;
	uint64_t made, shared, failed; /* for the metrics */
};

void result_cache_init(struct result_cache *cache, size_t kept_limit_bytes);
void result_cache_deinit(struct result_cache *cache);

/* May end early, with any error, once the clients have left. */
typedef bool result_cache_make(
	void *context, struct waiting_clients *clients, struct blob **blob, struct error *err);

/*
 * `owner` is the user whose process is profiled; USER_ANY where that is not known.
 *
 * The result of that key: from the cache, of another request that is making it, or made now by
 * make(context). `keep`: it stays in the cache, unless it is partial. Drop the reference. An error
 * of make goes to all requests that wait, and is not cached. `client_fd` is the socket of the
 * client that waits, or -1: make is told when all of them have left.
 */
MUST_CHECK bool result_cache_get(struct result_cache *cache, const char *key, uid_t owner,
	bool keep, int client_fd, result_cache_make *make, void *context, struct blob **blob,
	struct error *err);
