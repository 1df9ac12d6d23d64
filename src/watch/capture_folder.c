/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/capture_folder.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/byte_size.h"
#include "base/clock.h"
#include "base/xalloc.h"
#include "watch/capture_catalogue.h"

struct capture_folder {
	char path[3000];
	int fd; /* of the folder, locked */

	pthread_mutex_t mutex; /* of what follows */
	struct capture_limits limits;
	struct capture_catalogue catalogue;
};

static void unlock(pthread_mutex_t **mutex)
{
	pthread_mutex_unlock(*mutex);
}

static pthread_mutex_t *lock(struct capture_folder *folder)
{
	pthread_mutex_lock(&folder->mutex);
	return &folder->mutex;
}

/* Until the end of the scope. */
#define HOLD(folder) CLEANUP(unlock) __attribute__((unused)) pthread_mutex_t *held_ = lock(folder)

void capture_folder_limit(struct capture_folder *folder, const struct capture_limits *limits)
{
	HOLD(folder);
	folder->limits = *limits;
}

static bool open_locked(struct capture_folder *folder, struct error *err)
{
	if (!file_make_folder(folder->path, 0700, err))
		return false;
	CLEANUP(fd_cleanup) int fd = open(folder->path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_system(err, errno, "%s", folder->path);
	if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
		fd_cleanup(&folder->fd);
		folder->fd = TAKE_FD(fd);
		return true;
	}
	error_set(err, ERROR_STATE, "%s is in use by another heapctl watch", folder->path);
	return error_hint(err, "give each its own folder with --keep");
}

/* After somebody removed the folder, or put another in its place. Numbers go on. */
static bool return_to_path(struct capture_folder *folder, struct error *err)
{
	struct stat opened, there;

	if (fstat(folder->fd, &opened) == 0 && stat(folder->path, &there) == 0 &&
		opened.st_dev == there.st_dev && opened.st_ino == there.st_ino)
		return true;
	if (!open_locked(folder, err))
		return false;
	return capture_catalogue_read(&folder->catalogue, folder->path, folder->fd, err);
}

bool capture_folder_open(const char *path, const struct capture_limits *limits,
	struct capture_folder **ret, struct error *err)
{
	CLEANUP(capture_folder_cleanup)
	struct capture_folder *folder = xcalloc(1, sizeof *folder);

	folder->fd = -1;
	folder->limits = *limits;
	pthread_mutex_init(&folder->mutex, NULL);
	if ((size_t)snprintf(folder->path, sizeof folder->path, "%s", path) >= sizeof folder->path)
		return error_system(err, ENAMETOOLONG, "%.100s...", path);
	if (!open_locked(folder, err) ||
		!capture_catalogue_read(&folder->catalogue, folder->path, folder->fd, err))
		return false;
	*ret = TAKE(folder);
	return true;
}

void capture_folder_close(struct capture_folder *folder)
{
	if (folder == NULL)
		return;
	capture_catalogue_deinit(&folder->catalogue);
	if (folder->fd >= 0)
		close(folder->fd);
	pthread_mutex_destroy(&folder->mutex);
	free(folder);
}

static uint64_t free_bytes(const struct capture_folder *folder)
{
	struct statvfs disk;

	return fstatvfs(folder->fd, &disk) == 0 ? (uint64_t)disk.f_bavail * disk.f_frsize
						: UINT64_MAX;
}

static bool remove_oldest(struct capture_folder *folder)
{
	if (unlinkat(folder->fd, folder->catalogue.items[0].name, 0) != 0 && errno != ENOENT)
		return false;
	capture_catalogue_forget_first(&folder->catalogue);
	return true;
}

/* The newest is never removed: it is the last good one. */
static bool make_room(struct capture_folder *folder, uint64_t needed_bytes)
{
	while (free_bytes(folder) < needed_bytes) {
		if (folder->catalogue.count <= 1 || !remove_oldest(folder))
			return false;
	}
	return true;
}

/*
 * Whether the disk would have so much free without the captures, but for `kept_bytes` of them. Else
 * somebody else is filling it, and removing them would not help.
 */
static bool can_free(
	const struct capture_folder *folder, uint64_t wanted_bytes, uint64_t kept_bytes)
{
	uint64_t possible;

	return __builtin_add_overflow(
		       free_bytes(folder), folder->catalogue.bytes - kept_bytes, &possible) ||
	       possible >= wanted_bytes;
}

static uint64_t newest_bytes(const struct capture_folder *folder)
{
	return folder->catalogue.count == 0
		       ? 0
		       : folder->catalogue.items[folder->catalogue.count - 1].bytes;
}

static void drop_surplus(struct capture_folder *folder)
{
	const struct capture_limits *const limits = &folder->limits;

	while (folder->catalogue.count > 1 && (folder->catalogue.count > limits->count ||
						      folder->catalogue.bytes > limits->bytes)) {
		if (!remove_oldest(folder))
			return;
	}
	if (can_free(folder, limits->free_bytes, newest_bytes(folder)))
		(void)make_room(folder, limits->free_bytes);
}

/* Whatever a process may be called, it is one part of a path. */
static void clean_name(char *name)
{
	for (; *name != '\0'; name++) {
		if (!isalnum((unsigned char)*name) && strchr("._-+@", *name) == NULL)
			*name = '_';
	}
}

static void make_name(struct capture_folder *folder, const char *tag, const char *stem,
	char name[CAPTURE_NAME_BYTES])
{
	const time_t now = (time_t)(clock_realtime_ms() / 1000);
	char moment[32];
	struct tm parts;

	gmtime_r(&now, &parts);
	strftime(moment, sizeof moment, "%Y%m%dT%H%M%SZ", &parts);
	snprintf(name, CAPTURE_NAME_BYTES, "%0*" PRIu64 "-%s-%.40s-%.120s.heap",
		CAPTURE_NUMBER_DIGITS, ++folder->catalogue.last_number, moment, tag, stem);
	clean_name(name);
}

/*
 * Whether there is, or could be made, room for a capture like the last one that leaves the disk as
 * much as it shall keep.
 */
static bool may_have_room(const struct capture_folder *folder, struct error *err)
{
	uint64_t wanted_bytes;
	char floor[BYTE_SIZE_TEXT_BYTES];

	if (!__builtin_add_overflow(
		    folder->limits.free_bytes, newest_bytes(folder), &wanted_bytes) &&
		can_free(folder, wanted_bytes, 0))
		return true;
	if (folder->limits.free_bytes == 0) {
		error_set(err, ERROR_STATE, "%s: its disk has no room for a capture", folder->path);
		return error_hint(err, "make room");
	}
	byte_size_format(folder->limits.free_bytes, floor);
	error_set(err, ERROR_STATE, "%s: less than %s would stay free on its disk", folder->path,
		floor);
	return error_hint(err, "make room, or allow less with keep-free");
}

bool capture_folder_check(struct capture_folder *folder, struct error *err)
{
	HOLD(folder);
	return may_have_room(folder, err);
}

bool capture_folder_begin(struct capture_folder *folder, const char *tag, const char *stem,
	struct file_draft *draft, struct error *err)
{
	char name[CAPTURE_NAME_BYTES], path[4096];
	HOLD(folder);

	if (!return_to_path(folder, err) || !may_have_room(folder, err))
		return false;
	/*
	 * Only as far as the disk is full without that: the rest waits until the new one is safe.
	 */
	if (!make_room(folder, newest_bytes(folder)))
		return error_system(err, ENOSPC, "%s", folder->path);
	make_name(folder, tag, stem, name);
	snprintf(path, sizeof path, "%s/%s", folder->path, name);
	return file_draft_open(path, 0600, draft, err);
}

/* Once the file has its name, and so is safe. */
static void catalogue(struct capture_folder *folder, const char *path, json_t *details)
{
	const char *const name = strrchr(path, '/') + 1;
	struct stat status = { 0 };
	HOLD(folder);

	(void)fsync(folder->fd);
	(void)fstatat(folder->fd, name, &status, 0);
	json_object_set_new(details, "file", json_string(name));
	json_object_set_new(details, "bytes", json_integer(status.st_size));
	capture_catalogue_add(&folder->catalogue, name, (uint64_t)status.st_size, details);
	drop_surplus(folder);
	capture_catalogue_write(&folder->catalogue, folder->path);
}

bool capture_folder_commit(
	struct capture_folder *folder, struct file_draft *draft, json_t *details, struct error *err)
{
	if (fsync(draft->fd) != 0) {
		error_system(err, errno, "%s", draft->path);
		json_decref(details);
		return false;
	}
	if (!file_draft_commit(draft, err)) {
		json_decref(details);
		return false;
	}
	catalogue(folder, draft->path, details);
	return true;
}

static bool name_next(struct capture_folder *folder, const char *tag, const char *stem,
	char path[4096], struct error *err)
{
	char name[CAPTURE_NAME_BYTES];
	HOLD(folder);

	if (!return_to_path(folder, err))
		return false;
	make_name(folder, tag, stem, name);
	snprintf(path, 4096, "%s/%s", folder->path, name);
	return true;
}

bool capture_folder_take(struct capture_folder *folder, const char *path, int fd, const char *tag,
	const char *stem, json_t *details, char kept[4096], struct error *err)
{
	struct file_draft draft = { .fd = -1 };

	if (!name_next(folder, tag, stem, kept, err)) {
		json_decref(details);
		return false;
	}
	if (fsync(fd) == 0 && rename(path, kept) == 0) {
		catalogue(folder, kept, details);
		return true;
	}
	if (errno != EXDEV) {
		json_decref(details);
		return error_system(err, errno, "%s", path);
	}
	if (!capture_folder_begin(folder, tag, stem, &draft, err) ||
		!file_copy_fd(fd, path, draft.fd, draft.path, err)) {
		file_draft_discard(&draft);
		json_decref(details);
		return false;
	}
	strcpy(kept, draft.path);
	if (!capture_folder_commit(folder, &draft, details, err)) {
		file_draft_discard(&draft);
		return false;
	}
	unlink(path);
	return true;
}
