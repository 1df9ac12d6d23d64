/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/products.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

struct product {
	struct product *older, *newer;
	char *key;
	struct blob *blob; /* NULL until it is made */
	bool is_done;
	bool is_kept;	/* for those who ask after it was done */
	unsigned users; /* threads that make it or wait for it */
	struct error err;
};

void products_init(struct products *products, size_t kept_limit_bytes)
{
	*products = (struct products){ .kept_limit_bytes = kept_limit_bytes };
	pthread_mutex_init(&products->mutex, NULL);
	pthread_cond_init(&products->changed, NULL);
}

static void link_newest(struct products *products, struct product *product)
{
	product->older = products->newest;
	product->newer = NULL;
	if (products->newest != NULL)
		products->newest->newer = product;
	products->newest = product;
}

static void unlink_product(struct products *products, struct product *product)
{
	if (product->newer != NULL)
		product->newer->older = product->older;
	else
		products->newest = product->older;
	if (product->older != NULL)
		product->older->newer = product->newer;
}

/* The product must be unlinked and unused. */
static void free_product(struct products *products, struct product *product)
{
	if (product->blob != NULL)
		products->kept_bytes -= product->blob->size;
	blob_drop(product->blob);
	free(product->key);
	free(product);
}

void products_deinit(struct products *products)
{
	while (products->newest != NULL) {
		struct product *const product = products->newest;
		unlink_product(products, product);
		free_product(products, product);
	}
	pthread_cond_destroy(&products->changed);
	pthread_mutex_destroy(&products->mutex);
}

static struct product *find(struct products *products, const char *key)
{
	struct product *product = products->newest;

	while (product != NULL &&
		((product->is_done && !product->is_kept) || strcmp(product->key, key) != 0))
		product = product->older;
	return product;
}

/* Forgets the least recently used ones until the rest fits. */
static void trim(struct products *products)
{
	struct product *product = products->newest, *oldest = NULL;
	size_t count = 0;

	for (; product != NULL; product = product->older) {
		oldest = product;
		count++;
	}
	for (product = oldest;
		product != NULL &&
		(products->kept_bytes > products->kept_limit_bytes || count > PRODUCTS_KEPT_MAX);) {
		struct product *const next = product->newer;
		if (product->users == 0) {
			unlink_product(products, product);
			free_product(products, product);
			count--;
		}
		product = next;
	}
}

/* With the mutex held, which is let go meanwhile. */
static void make_product(struct products *products, struct product *product, bool keep,
	product_make *make, void *context)
{
	struct blob *blob = NULL;

	pthread_mutex_unlock(&products->mutex);
	const bool ok = make(context, &blob, &product->err);
	pthread_mutex_lock(&products->mutex);
	if (ok) {
		product->blob = blob;
		products->kept_bytes += blob->size;
		products->made++;
	} else {
		products->failed++;
	}
	product->is_kept = ok && keep;
	product->is_done = true;
	pthread_cond_broadcast(&products->changed);
}

static void await_product(struct products *products, struct product *product)
{
	products->shared++;
	while (!product->is_done)
		pthread_cond_wait(&products->changed, &products->mutex);
}

/* With the mutex held. */
static bool hand_out(
	struct products *products, struct product *product, struct blob **blob, struct error *err)
{
	const bool ok = product->blob != NULL;

	if (ok)
		*blob = blob_share(product->blob);
	else
		*err = product->err;
	unlink_product(products, product);
	if (--product->users == 0 && !product->is_kept) {
		free_product(products, product);
		return ok;
	}
	link_newest(products, product);
	trim(products);
	return ok;
}

bool products_get(struct products *products, const char *key, bool keep, product_make *make,
	void *context, struct blob **blob, struct error *err)
{
	pthread_mutex_lock(&products->mutex);
	struct product *product = find(products, key);
	if (product != NULL) {
		product->users++;
		await_product(products, product);
	} else {
		product = xcalloc(1, sizeof *product);
		product->key = xstrdup(key);
		product->users = 1;
		link_newest(products, product);
		make_product(products, product, keep, make, context);
	}
	const bool ok = hand_out(products, product, blob, err);
	pthread_mutex_unlock(&products->mutex);
	return ok;
}
