/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/result_cache.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/xalloc.h"

struct blob *blob_take(struct buffer *contents)
{
	struct blob *const blob = xmalloc(sizeof *blob);
	const size_t size = contents->size;
	char *const data = buffer_take(contents);

	*blob = (struct blob){
		.references = 1,
		.fd = -1,
		.size = data == NULL ? 0 : size,
		.data = data == NULL ? xstrdup("") : data,
	};
	return blob;
}

bool blob_take_fd(int fd, struct blob **blob_ret, struct error *err)
{
	struct file_map map;

	if (!file_map_fd(fd, "a scratch file", &map, err)) {
		close(fd);
		return false;
	}
	struct blob *const blob = xmalloc(sizeof *blob);
	*blob = (struct blob){
		.references = 1,
		.fd = fd,
		.size = map.size,
		.data = map.data,
	};
	*blob_ret = blob;
	return true;
}

static const char *scratch_folder(void)
{
	const char *const folder = getenv("TMPDIR");

	return folder != NULL && *folder != '\0' ? folder : "/var/tmp";
}

bool blob_open_scratch(int *fd_ret, struct error *err)
{
	int fd = open(scratch_folder(), O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		fd = memfd_create("heapctl", MFD_CLOEXEC);
	if (fd < 0)
		return error_system(err, errno, "making a scratch file");
	*fd_ret = fd;
	return true;
}

struct byte_budget blob_scratch_budget = { .limit = BLOB_SCRATCH_BYTES };

bool blob_scratch_take(uint64_t *held, uint64_t bytes, struct error *err)
{
	if (byte_budget_take(&blob_scratch_budget, *held, bytes)) {
		*held += bytes;
		return true;
	}
	error_set(err, ERROR_TIMEOUT, "the profiles that are being sent need too much space");
	return error_hint(err, "try again in a moment; fewer downloads at a time need less");
}

bool blob_take_scratch(int fd, uint64_t held, struct blob **blob, struct error *err)
{
	if (!blob_take_fd(fd, blob, err)) {
		byte_budget_give(&blob_scratch_budget, held);
		return false;
	}
	(*blob)->budget = &blob_scratch_budget;
	(*blob)->budget_bytes = held;
	return true;
}

const char *blob_scratch_place(void)
{
	return access(scratch_folder(), W_OK) == 0 ? scratch_folder() : "in memory";
}

struct blob *blob_share(struct blob *blob)
{
	__atomic_add_fetch(&blob->references, 1, __ATOMIC_RELAXED);
	return blob;
}

static void release_data(struct blob *blob)
{
	struct file_map map = { .data = blob->data, .size = blob->size };

	if (blob->fd < 0) {
		/* The text came from a buffer and is ours. */
		free((void *)(uintptr_t)blob->data);
		return;
	}
	file_unmap(&map);
	close(blob->fd);
}

void blob_drop(struct blob *blob)
{
	if (blob == NULL || __atomic_sub_fetch(&blob->references, 1, __ATOMIC_ACQ_REL) != 0)
		return;
	release_data(blob);
	if (blob->budget != NULL)
		byte_budget_give(blob->budget, blob->budget_bytes);
	free(blob);
}

struct cached_result {
	struct cached_result *older, *newer;
	char *key;
	uid_t owner;
	struct blob *blob; /* NULL until it is made */
	bool is_done;
	bool is_kept;			/* for later requests */
	unsigned users;			/* threads that make it or wait for it */
	struct waiting_clients clients; /* of those threads */
	struct error err;
};

void result_cache_init(struct result_cache *cache, size_t kept_limit_bytes)
{
	*cache = (struct result_cache){ .kept_limit_bytes = kept_limit_bytes };
	pthread_mutex_init(&cache->mutex, NULL);
	pthread_cond_init(&cache->changed, NULL);
}

static void link_newest(struct result_cache *cache, struct cached_result *result)
{
	result->older = cache->newest;
	result->newer = NULL;
	if (cache->newest != NULL)
		cache->newest->newer = result;
	cache->newest = result;
}

static void unlink_result(struct result_cache *cache, struct cached_result *result)
{
	if (result->newer != NULL)
		result->newer->older = result->older;
	else
		cache->newest = result->older;
	if (result->older != NULL)
		result->older->newer = result->newer;
}

/* The result must be unlinked and unused. */
static void free_result(struct result_cache *cache, struct cached_result *result)
{
	if (result->blob != NULL)
		cache->kept_bytes -= result->blob->size;
	blob_drop(result->blob);
	waiting_clients_deinit(&result->clients);
	free(result->key);
	free(result);
}

void result_cache_deinit(struct result_cache *cache)
{
	while (cache->newest != NULL) {
		struct cached_result *const result = cache->newest;
		unlink_result(cache, result);
		free_result(cache, result);
	}
	pthread_cond_destroy(&cache->changed);
	pthread_mutex_destroy(&cache->mutex);
}

/* Whether it is of use to one more client. */
static bool is_usable(struct cached_result *result, int client_fd)
{
	return result->is_done ? result->is_kept : waiting_clients_add(&result->clients, client_fd);
}

static struct cached_result *find(struct result_cache *cache, const char *key, int client_fd)
{
	struct cached_result *result = cache->newest;

	while (result != NULL && (strcmp(result->key, key) != 0 || !is_usable(result, client_fd)))
		result = result->older;
	return result;
}

static struct cached_result *add_result(
	struct result_cache *cache, const char *key, uid_t owner, int client_fd)
{
	struct cached_result *const result = xcalloc(1, sizeof *result);

	result->key = xstrdup(key);
	result->owner = owner;
	result->users = 1;
	result->clients = WAITING_CLIENTS_NONE;
	waiting_clients_add(&result->clients, client_fd);
	link_newest(cache, result);
	return result;
}

/* What a user's results take. */
struct user_share {
	uid_t owner;
	size_t bytes, count;
	struct cached_result *oldest; /* that no thread uses; NULL for none */
};

static struct user_share *find_share(struct user_share *shares, size_t *count, uid_t owner)
{
	for (size_t i = 0; i < *count; i++) {
		if (shares[i].owner == owner)
			return &shares[i];
	}
	shares[*count] = (struct user_share){ .owner = owner };
	return &shares[(*count)++];
}

/*
 * The least recently used result of the user whose results take the most bytes, or of the one with
 * the most results where there are too many. NULL when all are in use.
 */
static struct cached_result *find_surplus(struct result_cache *cache, size_t count, bool by_bytes)
{
	CLEANUP(free_cleanup) struct user_share *shares = xcalloc(count, sizeof *shares);
	const struct user_share *largest = NULL;
	size_t share_count = 0;

	for (struct cached_result *result = cache->newest; result != NULL; result = result->older) {
		struct user_share *const share = find_share(shares, &share_count, result->owner);
		share->bytes += result->blob == NULL ? 0 : result->blob->size;
		share->count++;
		if (result->users == 0)
			share->oldest = result;
	}
	for (size_t i = 0; i < share_count; i++) {
		const struct user_share *const share = &shares[i];
		if (share->oldest != NULL &&
			(largest == NULL || (by_bytes ? share->bytes > largest->bytes
						      : share->count > largest->count)))
			largest = share;
	}
	return largest == NULL ? NULL : largest->oldest;
}

static size_t count_results(const struct result_cache *cache)
{
	size_t count = 0;

	for (const struct cached_result *result = cache->newest; result != NULL;
		result = result->older)
		count++;
	return count;
}

static void trim(struct result_cache *cache)
{
	for (size_t count = count_results(cache);
		cache->kept_bytes > cache->kept_limit_bytes || count > RESULT_CACHE_ENTRIES_MAX;
		count--) {
		struct cached_result *const result =
			find_surplus(cache, count, cache->kept_bytes > cache->kept_limit_bytes);
		if (result == NULL)
			return;
		unlink_result(cache, result);
		free_result(cache, result);
	}
}

/* With the mutex held, which is released meanwhile. */
static void make_result(struct result_cache *cache, struct cached_result *result, bool keep,
	result_cache_make *make, void *context)
{
	struct blob *blob = NULL;

	pthread_mutex_unlock(&cache->mutex);
	const bool ok = make(context, &result->clients, &blob, &result->err);
	pthread_mutex_lock(&cache->mutex);
	if (ok) {
		result->blob = blob;
		cache->kept_bytes += blob->size;
		cache->made++;
	} else {
		cache->failed++;
	}
	result->is_kept = ok && keep && !blob->is_partial;
	result->is_done = true;
	pthread_cond_broadcast(&cache->changed);
}

static void await_result(struct result_cache *cache, struct cached_result *result)
{
	cache->shared++;
	while (!result->is_done)
		pthread_cond_wait(&cache->changed, &cache->mutex);
}

/* With the mutex held. */
static bool return_result(struct result_cache *cache, struct cached_result *result,
	struct blob **blob, struct error *err)
{
	const bool ok = result->blob != NULL;

	if (ok)
		*blob = blob_share(result->blob);
	else
		*err = result->err;
	unlink_result(cache, result);
	if (--result->users == 0 && !result->is_kept) {
		free_result(cache, result);
		return ok;
	}
	link_newest(cache, result);
	trim(cache);
	return ok;
}

bool result_cache_get(struct result_cache *cache, const char *key, uid_t owner, bool keep,
	int client_fd, result_cache_make *make, void *context, struct blob **blob,
	struct error *err)
{
	pthread_mutex_lock(&cache->mutex);
	struct cached_result *result = find(cache, key, client_fd);
	if (result != NULL) {
		result->users++;
		await_result(cache, result);
	} else {
		result = add_result(cache, key, owner, client_fd);
		make_result(cache, result, keep, make, context);
	}
	const bool ok = return_result(cache, result, blob, err);
	pthread_mutex_unlock(&cache->mutex);
	return ok;
}
