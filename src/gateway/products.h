/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Things that cost something to make and that several people want: rendered profiles, profiles of
 * runs. Whoever asks first makes it, the others wait for the same one; what may be kept is kept,
 * the least recently used goes first. Any thread.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "gateway/blob.h"

enum { PRODUCTS_KEPT_MAX = 512 };

struct product;

struct products {
	size_t kept_limit_bytes;

	pthread_mutex_t mutex; /* of what follows */
	pthread_cond_t changed;
	struct product *newest; /* a list by last use */
	size_t kept_bytes;
	uint64_t made, shared, failed; /* for the metrics */
};

void products_init(struct products *products, size_t kept_limit_bytes);
void products_deinit(struct products *products);

typedef bool product_make(void *context, struct blob **blob, struct error *err);

/*
 * The product of that key: kept, being made, or made now by make(context). `keep`: later requests
 * may have it, too. Drop the reference. An error of make goes to everybody who waits, and is
 * forgotten then.
 */
MUST_CHECK bool products_get(struct products *products, const char *key, bool keep,
	product_make *make, void *context, struct blob **blob, struct error *err);
