/* SPDX-License-Identifier: Apache-2.0 */
#include "watch/capture_folder.h"

#include <ctype.h>
#include <dirent.h>
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

#include "base/clock.h"
#include "base/xalloc.h"

enum { NUMBER_DIGITS = 8, NAME_BYTES = 256 };

struct capture {
	char name[NAME_BYTES];
	uint64_t number;
	uint64_t bytes;
	json_t *details; /* NULL when the catalogue had nothing about it */
};

struct capture_folder {
	char path[3000];
	int fd; /* of the folder, locked */

	pthread_mutex_t mutex; /* of what follows */
	struct capture_limits limits;
	struct capture *captures; /* oldest first */
	size_t count, capacity;
	uint64_t bytes;
	uint64_t last_number;
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

/* "NNNNNNNN-....heap": a capture; with 16 more digits behind: one that was never finished. */
static bool is_capture_name(const char *name, bool *is_unfinished)
{
	const char *const end = strstr(name, ".heap");

	if (strspn(name, "0123456789") < NUMBER_DIGITS || name[strspn(name, "0123456789")] != '-' ||
		end == NULL || strlen(name) >= NAME_BYTES)
		return false;
	*is_unfinished =
		end[5] == '.' && strlen(end) == 22 && strspn(end + 6, "0123456789abcdef") == 16;
	return end[5] == '\0' || *is_unfinished;
}

static void add_capture(
	struct capture_folder *folder, const char *name, uint64_t bytes, json_t *details)
{
	folder->captures = xgrow(
		folder->captures, &folder->capacity, folder->count + 1, sizeof *folder->captures);
	struct capture *const capture = &folder->captures[folder->count++];
	*capture = (struct capture){
		.number = strtoull(name, NULL, 10), .bytes = bytes, .details = details
	};
	snprintf(capture->name, sizeof capture->name, "%s", name);
	folder->bytes += bytes;
	if (capture->number > folder->last_number)
		folder->last_number = capture->number;
}

static int compare_numbers(const void *a, const void *b)
{
	const struct capture *const x = a, *const y = b;

	return (x->number > y->number) - (x->number < y->number);
}

static bool read_names(struct capture_folder *folder, struct error *err)
{
	DIR *const stream = opendir(folder->path);

	if (stream == NULL)
		return error_system(err, errno, "%s", folder->path);
	for (struct dirent *entry; (entry = readdir(stream)) != NULL;) {
		struct stat status;
		bool is_unfinished = false;
		if (!is_capture_name(entry->d_name, &is_unfinished) ||
			fstatat(folder->fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
			!S_ISREG(status.st_mode))
			continue;
		if (is_unfinished)
			unlinkat(folder->fd, entry->d_name, 0);
		else
			add_capture(folder, entry->d_name, (uint64_t)status.st_size, NULL);
	}
	closedir(stream);
	if (folder->count > 0)
		qsort(folder->captures, folder->count, sizeof *folder->captures, compare_numbers);
	return true;
}

/* What the catalogue says of the files that are there; a damaged line is none. */
static void read_catalogue(struct capture_folder *folder)
{
	CLEANUP(buffer_cleanup) struct buffer text;
	char path[4096];
	struct error err;

	buffer_init(&text, &memory_or_exit);
	snprintf(path, sizeof path, "%s/%s", folder->path, CAPTURE_CATALOGUE);
	if (!file_read(path, &text, &err))
		return;
	for (const char *line = buffer_string(&text); *line != '\0';) {
		const size_t size = strcspn(line, "\n");
		json_t *const details = json_loadb(line, size, 0, NULL);
		const char *const name = json_string_value(json_object_get(details, "file"));
		for (size_t i = 0; name != NULL && i < folder->count; i++) {
			struct capture *const capture = &folder->captures[i];
			if (capture->details == NULL && strcmp(capture->name, name) == 0)
				capture->details = json_incref(details);
		}
		json_decref(details);
		line += size + (line[size] == '\n');
	}
}

static bool write_catalogue(const struct capture_folder *folder, struct error *err)
{
	CLEANUP(buffer_cleanup) struct buffer text;
	char path[4096];

	buffer_init(&text, &memory_or_exit);
	for (size_t i = 0; i < folder->count; i++) {
		const struct capture *const capture = &folder->captures[i];
		if (capture->details == NULL)
			continue;
		char *const line = json_dumps(capture->details, JSON_COMPACT);
		buffer_append_string(&text, line == NULL ? "{}" : line);
		buffer_append_char(&text, '\n');
		free(line);
	}
	snprintf(path, sizeof path, "%s/%s", folder->path, CAPTURE_CATALOGUE);
	return file_write(path, text.data, text.size, 0600, err);
}

/* A kill, or a full disk, came between a capture and its line. Its file tells the rest. */
static void complete_catalogue(struct capture_folder *folder)
{
	struct error unwritten;
	bool is_complete = true;

	for (size_t i = 0; i < folder->count; i++) {
		struct capture *const capture = &folder->captures[i];
		struct stat status;
		if (capture->details != NULL || fstatat(folder->fd, capture->name, &status, 0) != 0)
			continue;
		capture->details = json_pack("{s:s, s:I, s:s, s:I}", "reason", "not known",
			"time_ms",
			(json_int_t)status.st_mtim.tv_sec * 1000 + status.st_mtim.tv_nsec / 1000000,
			"file", capture->name, "bytes", (json_int_t)capture->bytes);
		is_complete = false;
	}
	if (!is_complete)
		(void)write_catalogue(folder, &unwritten);
}

static bool open_locked(struct capture_folder *folder, struct error *err)
{
	if (mkdir(folder->path, 0700) != 0 && errno != EEXIST)
		return error_system(err, errno, "making the folder %s", folder->path);
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

static bool read_all(struct capture_folder *folder, struct error *err)
{
	if (!read_names(folder, err))
		return false;
	read_catalogue(folder);
	complete_catalogue(folder);
	return true;
}

static void forget_all(struct capture_folder *folder)
{
	for (size_t i = 0; i < folder->count; i++)
		json_decref(folder->captures[i].details);
	folder->count = 0;
	folder->bytes = 0;
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
	forget_all(folder);
	return read_all(folder, err);
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
	if (!open_locked(folder, err) || !read_all(folder, err))
		return false;
	*ret = TAKE(folder);
	return true;
}

void capture_folder_close(struct capture_folder *folder)
{
	if (folder == NULL)
		return;
	forget_all(folder);
	free(folder->captures);
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
	struct capture *const oldest = &folder->captures[0];

	if (unlinkat(folder->fd, oldest->name, 0) != 0 && errno != ENOENT)
		return false;
	folder->bytes -= oldest->bytes;
	json_decref(oldest->details);
	folder->count--;
	memmove(oldest, oldest + 1, folder->count * sizeof *oldest);
	return true;
}

/* The newest is never removed: it is the last good one. */
static bool make_room(struct capture_folder *folder, uint64_t needed_bytes)
{
	while (free_bytes(folder) < needed_bytes) {
		if (folder->count <= 1 || !remove_oldest(folder))
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

	return __builtin_add_overflow(free_bytes(folder), folder->bytes - kept_bytes, &possible) ||
	       possible >= wanted_bytes;
}

static uint64_t newest_bytes(const struct capture_folder *folder)
{
	return folder->count == 0 ? 0 : folder->captures[folder->count - 1].bytes;
}

static void drop_surplus(struct capture_folder *folder)
{
	const struct capture_limits *const limits = &folder->limits;

	while (folder->count > 1 &&
		(folder->count > limits->count || folder->bytes > limits->bytes)) {
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

static void make_name(
	struct capture_folder *folder, const char *tag, const char *stem, char name[NAME_BYTES])
{
	const time_t now = (time_t)(clock_realtime_ms() / 1000);
	char moment[32];
	struct tm parts;

	gmtime_r(&now, &parts);
	strftime(moment, sizeof moment, "%Y%m%dT%H%M%SZ", &parts);
	snprintf(name, NAME_BYTES, "%0*" PRIu64 "-%s-%.40s-%.120s.heap", NUMBER_DIGITS,
		++folder->last_number, moment, tag, stem);
	clean_name(name);
}

/*
 * Whether there is, or could be made, room for a capture like the last one that leaves the disk as
 * much as it shall keep.
 */
static bool may_have_room(const struct capture_folder *folder, struct error *err)
{
	uint64_t wanted_bytes;

	if (!__builtin_add_overflow(
		    folder->limits.free_bytes, newest_bytes(folder), &wanted_bytes) &&
		can_free(folder, wanted_bytes, 0))
		return true;
	error_set(err, ERROR_STATE, "%s: less than %" PRIu64 " MiB would stay free on its disk",
		folder->path, folder->limits.free_bytes >> 20);
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
	char name[NAME_BYTES], path[4096];
	HOLD(folder);

	if (!return_to_path(folder, err) || !may_have_room(folder, err))
		return false;
	/* Only as far as the disk is full without that: the rest waits until the new one is safe.
	 */
	if (!make_room(folder, newest_bytes(folder)))
		return error_system(err, ENOSPC, "%s", folder->path);
	make_name(folder, tag, stem, name);
	snprintf(path, sizeof path, "%s/%s", folder->path, name);
	return file_draft_open(path, 0600, draft, err);
}

/*
 * Once the file has its name. A catalogue that cannot be written (the disk may be full) is written
 * with the next capture; this one is safe.
 */
static void catalogue(struct capture_folder *folder, const char *path, json_t *details)
{
	const char *const name = strrchr(path, '/') + 1;
	struct stat status = { 0 };
	struct error unwritten;
	HOLD(folder);

	(void)fsync(folder->fd);
	(void)fstatat(folder->fd, name, &status, 0);
	json_object_set_new(details, "file", json_string(name));
	json_object_set_new(details, "bytes", json_integer(status.st_size));
	add_capture(folder, name, (uint64_t)status.st_size, details);
	drop_surplus(folder);
	(void)write_catalogue(folder, &unwritten);
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
	char name[NAME_BYTES];
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
