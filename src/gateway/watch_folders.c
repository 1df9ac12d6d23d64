/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/watch_folders.h"

#include <stdlib.h>
#include <string.h>

#include "base/xalloc.h"

struct watch_folder {
	struct watch_folder *next;
	char *path;
	struct capture_folder *folder;
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
static bool take(struct watch_folders *folders, const char *path,
	const struct capture_limits *limits, struct capture_folder **folder, struct error *err)
{
	struct capture_folder *opened = NULL;

	for (struct watch_folder *item = folders->items; item != NULL; item = item->next) {
		if (strcmp(item->path, path) == 0) {
			item->users++;
			capture_folder_limit(item->folder, limits);
			*folder = item->folder;
			return true;
		}
	}
	if (!capture_folder_open(path, limits, &opened, err))
		return false;
	struct watch_folder *const item = xcalloc(1, sizeof *item);
	*item = (struct watch_folder){ folders->items, xstrdup(path), opened, 1 };
	folders->items = item;
	*folder = opened;
	return true;
}

bool watch_folders_take(struct watch_folders *folders, const char *path,
	const struct capture_limits *limits, struct capture_folder **folder, struct error *err)
{
	pthread_mutex_lock(&folders->mutex);
	const bool ok = take(folders, path, limits, folder, err);
	pthread_mutex_unlock(&folders->mutex);
	return ok;
}

void watch_folders_give(struct watch_folders *folders, struct capture_folder *folder)
{
	if (folder == NULL)
		return;
	pthread_mutex_lock(&folders->mutex);
	struct watch_folder **place = &folders->items;
	while ((*place)->folder != folder)
		place = &(*place)->next;
	struct watch_folder *const item = *place;
	if (--item->users == 0) {
		*place = item->next;
		capture_folder_close(item->folder);
		free(item->path);
		free(item);
	}
	pthread_mutex_unlock(&folders->mutex);
}
