/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of results that are expensive to make: rendered profiles, profiles of runs. Requests for
 * a result that is being made wait for it. The least recently used is dropped first. Any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gateway/blob.h"

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

typedef bool result_cache_make(void *context, struct blob **blob, struct error *err);

/*
 * The result of that key: from the cache, of another request that is making it, or made now by
 * make(context). `keep`: it stays in the cache. Drop the reference. An error of make goes to all
 * requests that wait, and is not cached.
 */
MUST_CHECK bool result_cache_get(struct result_cache *cache, const char *key, bool keep,
	result_cache_make *make, void *context, struct blob **blob, struct error *err);
