/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/watch_folders.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

struct watch_folder {
	struct watch_folder *next;
	char *path;
	struct store *store;
	unsigned users;
};

void watch_folders_init(struct watch_folders *folders)
{
	*folders = (struct watch_folders){ 0 };
	pthread_mutex_init(&folders->mutex, NULL);
}

void watch_folders_deinit(struct watch_folders *folders)
{
	pthread_mutex_destroy(&folders->mutex);
}

/* With the mutex held. */
static bool take(struct watch_folders *folders, const char *path, const struct store_limits *limits,
	struct store **store, struct error *err)
{
	struct store *opened = NULL;

	for (struct watch_folder *item = folders->items; item != NULL; item = item->next) {
		if (strcmp(item->path, path) == 0) {
			item->users++;
			store_set_limits(item->store, limits);
			*store = item->store;
			return true;
		}
	}
	if (!store_open(path, STORE_CAPTURES, limits, &opened, err))
		return false;
	struct watch_folder *const item = xcalloc(1, sizeof *item);
	*item = (struct watch_folder){ folders->items, xstrdup(path), opened, 1 };
	folders->items = item;
	*store = opened;
	return true;
}

bool watch_folders_take(struct watch_folders *folders, const char *path,
	const struct store_limits *limits, struct store **store, struct error *err)
{
	pthread_mutex_lock(&folders->mutex);
	const bool ok = take(folders, path, limits, store, err);
	pthread_mutex_unlock(&folders->mutex);
	return ok;
}

void watch_folders_give(struct watch_folders *folders, struct store *store)
{
	if (store == NULL)
		return;
	pthread_mutex_lock(&folders->mutex);
	struct watch_folder **place = &folders->items;
	while ((*place)->store != store)
		place = &(*place)->next;
	struct watch_folder *const item = *place;
	if (--item->users == 0) {
		*place = item->next;
		store_close(item->store);
		free(item->path);
		free(item);
	}
	pthread_mutex_unlock(&folders->mutex);
}
