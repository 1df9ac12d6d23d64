/* SPDX-License-Identifier: Apache-2.0 */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

bool file_map_fd(int fd, const char *name, struct file_map *map, struct error *err)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return error_system(err, errno, "%s", name);
	if (S_ISDIR(status.st_mode))
		return error_system(err, EISDIR, "%s", name);
	if (!S_ISREG(status.st_mode))
		return error_set(err, ERROR_INPUT, "%s: not a regular file", name);
	if (status.st_size == 0) {
		*map = (struct file_map){ 0 };
		return true;
	}

	const size_t size = (size_t)status.st_size;
	void *const data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (data == MAP_FAILED)
		return error_system(err, errno, "%s: mapping", name);
	*map = (struct file_map){ .data = data, .size = size };
	return true;
}

bool file_map(const char *path, struct file_map *map, struct error *err)
{
	/* Without O_NONBLOCK a named pipe would block until another process writes to it. */
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

	if (fd < 0)
		return error_system(err, errno, "%s", path);
	return file_map_fd(fd, path, map, err);
}

void file_unmap(struct file_map *map)
{
	if (map->data != NULL)
		munmap((void *)(uintptr_t)map->data, map->size);
	*map = (struct file_map){ 0 };
}

bool file_open_failed(const char *path, int errnum, struct error *err)
{
	char folder[PATH_MAX];

	error_system(err, errnum, "%s", path);
	switch (errnum) {
	case ENOENT:
	case ENOTDIR:
		if (path[0] == '/' || getcwd(folder, sizeof folder) == NULL)
			return error_hint(err, "check the name");
		return error_hint(err, "check the name; the working folder is %s", folder);
	case EACCES:
		return error_hint(err, "run heapctl as a user that may read it, or as root");
	default:
		return false;
	}
}

static size_t room_in(const struct buffer *buffer)
{
	const size_t end = buffer->capacity < buffer->limit ? buffer->capacity : buffer->limit;

	return buffer->size < end ? end - buffer->size : 0;
}

bool file_read_until(
	int fd, const char *name, size_t enough_bytes, struct buffer *out, struct error *err)
{
	while (out->size < enough_bytes) {
		/* The last read, which finds the end, needs no more memory. */
		if (room_in(out) < 4096 && !buffer_reserve(out, 16384)) {
			if (out->limit - out->size < 16384)
				return error_set(err, ERROR_INPUT, "%s: more than %zu bytes", name,
					out->limit);
			return error_set(err, ERROR_MEMORY, "%s: no memory to read it", name);
		}
		const ssize_t got = read(fd, out->data + out->size, room_in(out));
		if (got == 0)
			return true;
		if (got > 0)
			out->size += (size_t)got;
		else if (errno != EINTR)
			return error_system(err, errno, "%s", name);
	}
	return true;
}

bool file_read_fd(int fd, const char *name, struct buffer *out, struct error *err)
{
	return file_read_until(fd, name, SIZE_MAX, out, err);
}

bool file_read(const char *path, struct buffer *out, struct error *err)
{
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return error_system(err, errno, "%s", path);
	return file_read_fd(fd, path, out, err);
}

bool file_read_own_maps(struct buffer *out, struct error *err)
{
	const size_t before = out->size;

	return (file_read("/proc/self/maps", out, err) && out->size > before) ||
	       file_read("/proc/thread-self/maps", out, err);
}

bool file_try_read(struct buffer *text, const char *format, ...)
{
	char path[PATH_MAX];
	struct error ignored;
	va_list arguments;

	va_start(arguments, format);
	const int size = vsnprintf(path, sizeof path, format, arguments);
	va_end(arguments);
	buffer_clear(text);
	return size < PATH_MAX && file_read(path, text, &ignored);
}

static const char hint_full[] = "make room there, or write to another disk";

bool file_write_failed(const char *name, int errnum, struct error *err)
{
	error_system(err, errnum, "%s", name);
	if (errnum == ENOSPC || errnum == EDQUOT)
		return error_hint(err, "%s", hint_full);
	return false;
}

bool file_write_fd(int fd, const char *name, const void *data, size_t size, struct error *err)
{
	const char *at = data;

	while (size > 0) {
		const ssize_t written = write(fd, at, size);
		if (written < 0 && errno == EINTR)
			continue;
		if (written < 0)
			return file_write_failed(name, errno, err);
		at += written;
		size -= (size_t)written;
	}
	return true;
}

bool file_copy_fd(int from, const char *from_name, int to, const char *to_name, struct error *err)
{
	char block[8192];
	off_t offset = 0;

	for (;;) {
		const ssize_t got = pread(from, block, sizeof block, offset);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_system(err, errno, "%s", from_name);
		if (got == 0)
			return true;
		if (!file_write_fd(to, to_name, block, (size_t)got, err))
			return false;
		offset += got;
	}
}

static bool name_temporary(struct file_draft *draft, struct error *err)
{
	uint64_t random = 0;

	if (getrandom(&random, sizeof random, 0) != sizeof random)
		return error_system(err, errno, "%s: random name", draft->path);
	const int length = snprintf(draft->temporary, sizeof draft->temporary, "%s.%016llx",
		draft->path, (unsigned long long)random);
	if (length < 0 || (size_t)length >= sizeof draft->temporary)
		return error_system(err, ENAMETOOLONG, "%s", draft->path);
	return true;
}

/* Where `path` is: "." for a name alone. */
static void copy_folder(const char *path, char folder[PATH_MAX])
{
	const int size = (int)(path_base_name(path) - path);

	snprintf(folder, PATH_MAX, "%.*s", size > 0 ? size : 1, size > 0 ? path : ".");
}

/*
 * In the folder of `path`: a file without a name, which ends with this process, however that ends.
 * -1 where the file system has none, or without the /proc that gives it its name.
 */
static int open_nameless(const char *path, mode_t mode)
{
	char folder[PATH_MAX];

	if (access("/proc/self/fd", X_OK) != 0)
		return -1;
	copy_folder(path, folder);
	return open(folder, O_RDWR | O_TMPFILE | O_CLOEXEC, mode);
}

static int open_temporary(const struct file_draft *draft, mode_t mode)
{
	return open(draft->temporary, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
}

static void open_new(struct file_draft *draft, mode_t mode)
{
	draft->fd = open_nameless(draft->path, mode);
	draft->is_nameless = draft->fd >= 0;
	if (!draft->is_nameless)
		draft->fd = open_temporary(draft, mode);
}

/* Not its own at once, since linkat(2) replaces no file. */
static bool give_temporary_name(const struct file_draft *draft)
{
	char link[32];

	snprintf(link, sizeof link, "/proc/self/fd/%d", draft->fd);
	return linkat(AT_FDCWD, link, AT_FDCWD, draft->temporary, AT_SYMLINK_FOLLOW) == 0;
}

/* Where a security module or the file system allows no link. */
static bool copy_to_temporary(struct file_draft *draft, struct error *err)
{
	struct stat status;

	if (fstat(draft->fd, &status) != 0)
		return error_system(err, errno, "writing %s", draft->path);
	const int fd = open_temporary(draft, status.st_mode & 07777);
	if (fd < 0)
		return error_system(err, errno, "writing %s", draft->path);
	const bool is_copied = file_copy_fd(draft->fd, draft->path, fd, draft->path, err);
	close(draft->fd);
	draft->fd = fd;
	return is_copied;
}

/* Whether only its owner, or the folder's, may replace the file, as in /tmp. */
static bool is_of_another_user(const char *path)
{
	const uid_t user = geteuid();
	struct stat file, around;
	char folder[PATH_MAX];

	copy_folder(path, folder);
	return user != 0 && fstatat(AT_FDCWD, path, &file, AT_SYMLINK_NOFOLLOW) == 0 &&
	       stat(folder, &around) == 0 && (around.st_mode & S_ISVTX) != 0 &&
	       file.st_uid != user && around.st_uid != user;
}

/* Of a file that is to be written: what to do. Returns false. */
static bool hint_unwritable(const char *path, struct error *err)
{
	static const char elsewhere[] = "name a file in a folder that you may write to";
	const int size = (int)(path_base_name(path) - path);
	struct stat status;
	char folder[4096];

	snprintf(folder, sizeof folder, "%.*s", size > 1 ? size - 1 : size, path);
	switch (err->errnum) {
	case ENOENT:
	case ENOTDIR:
		/* There are folders of the kernel that take no files. */
		if (size == 0 || (stat(folder, &status) == 0 && S_ISDIR(status.st_mode)))
			return error_hint(err, "%s", elsewhere);
		return error_hint(
			err, "there is no folder %s: create it, or name another file", folder);
	case EISDIR:
		return error_hint(err, "it is a folder: name a file in it");
	case EPERM:
		if (is_of_another_user(path))
			return error_hint(err, "it belongs to another user: name another file");
		return error_hint(err, "%s", elsewhere);
	case EACCES:
	case EROFS:
		return error_hint(err, "%s", elsewhere);
	case ENOSPC:
	case EDQUOT:
		return error_hint(err, "%s", hint_full);
	default:
		return false;
	}
}

/* The descriptor of this process that is meant by a name of the system for it; -1: none. */
static int named_descriptor(const char *path)
{
	static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };

	if (strcmp(path, "/dev/stdout") == 0)
		return STDOUT_FILENO;
	if (strcmp(path, "/dev/stderr") == 0)
		return STDERR_FILENO;
	for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++) {
		const size_t size = strlen(folders[i]);
		char rest;
		int number;
		if (strncmp(path, folders[i], size) == 0 &&
			sscanf(path + size, "%9d%c", &number, &rest) == 1)
			return number;
	}
	return -1;
}

static bool is_below(const char *path, const char *folder)
{
	const size_t size = strlen(folder);

	return strncmp(path, folder, size) == 0 && (path[size] == '/' || path[size] == '\0');
}

/* Other programs rely on these links: a file in their place would harm the whole machine. */
static bool is_system_link(const char *path)
{
	char folder[PATH_MAX], resolved[PATH_MAX];
	struct stat status;

	if (fstatat(AT_FDCWD, path, &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISLNK(status.st_mode))
		return false;
	copy_folder(path, folder);
	return realpath(folder, resolved) != NULL &&
	       (is_below(resolved, "/proc") ||
		       (is_below(resolved, "/dev") && !is_below(resolved, "/dev/shm")));
}

/* Returns false. */
static bool refuse_system_link(const char *path, struct error *err)
{
	error_set(err, ERROR_USAGE, "writing %s: a link of the system is not replaced", path);
	return error_hint(err, "name the file that it leads to");
}

bool file_draft_open(const char *path, mode_t mode, struct file_draft *draft, struct error *err)
{
	const int descriptor = named_descriptor(path);
	struct stat status;

	draft->fd = -1;
	draft->is_nameless = false;
	const bool is_there = stat(path, &status) == 0;
	draft->in_place = descriptor >= 0 || (is_there && !S_ISREG(status.st_mode));
	if ((size_t)snprintf(draft->path, sizeof draft->path, "%s", path) >= sizeof draft->path)
		return error_system(err, ENAMETOOLONG, "%.100s...", path);
	if (!draft->in_place && is_system_link(path))
		return refuse_system_link(path, err);
	if (!draft->in_place && !name_temporary(draft, err))
		return false;
	/* To open it anew would lose its offset, and that it appends. */
	if (descriptor >= 0)
		draft->fd = fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
	else if (draft->in_place)
		draft->fd = open(path, O_WRONLY | O_CLOEXEC);
	else if (is_of_another_user(path))
		errno = EPERM;
	else
		open_new(draft, is_there ? mode & status.st_mode : mode);
	if (draft->fd >= 0)
		return true;
	error_system(err, errno, "writing %s", path);
	return hint_unwritable(path, err);
}

bool file_draft_commit(struct file_draft *draft, struct error *err)
{
	const bool has_name =
		!draft->is_nameless || give_temporary_name(draft) || copy_to_temporary(draft, err);
	const int closed = close(draft->fd);

	draft->fd = -1;
	if (has_name && closed == 0 &&
		(draft->in_place || rename(draft->temporary, draft->path) == 0))
		return true;
	if (has_name)
		error_system(err, errno, "writing %s", draft->path);
	if (!draft->in_place)
		unlink(draft->temporary);
	return hint_unwritable(draft->path, err);
}

void file_draft_discard(struct file_draft *draft)
{
	if (draft->path[0] == '\0' || draft->fd < 0)
		return;
	close(draft->fd);
	draft->fd = -1;
	if (!draft->in_place && !draft->is_nameless)
		unlink(draft->temporary);
}

bool file_write(const char *path, const void *data, size_t size, mode_t mode, struct error *err)
{
	struct file_draft draft = { .fd = -1 };

	if (!file_draft_open(path, mode, &draft, err))
		return false;
	if (file_write_fd(draft.fd, path, data, size, err) && file_draft_commit(&draft, err))
		return true;
	file_draft_discard(&draft);
	return false;
}

bool file_make_folder(const char *path, mode_t mode, struct error *err)
{
	char part[4096];
	struct stat status;

	if ((size_t)snprintf(part, sizeof part, "%s", path) >= sizeof part)
		return error_system(err, ENAMETOOLONG, "%.100s...", path);
	for (char *at = part + 1; part[0] != '\0'; at++) {
		const char was = *at;
		if (was != '/' && was != '\0')
			continue;
		*at = '\0';
		const int failure = mkdir(part, mode) == 0 ? 0 : errno;
		if (failure != 0 && failure != EEXIST &&
			(stat(part, &status) != 0 || !S_ISDIR(status.st_mode)))
			return error_system(err, failure, "making the folder %s", part);
		*at = was;
		if (was == '\0')
			break;
	}
	return true;
}

/* The mode of a folder with other uses, such as /tmp, must not be changed. */
static bool hint_mode(const char *path, mode_t mode, struct error *err)
{
	const char *const slash = strrchr(path, '/');

	if ((mode & S_ISVTX) == 0 && slash != NULL && strstr(slash, "heapctl") != NULL)
		return error_hint(err, "chmod 700 %s", path);
	return error_hint(err,
		"set HEAPCTL_DIR to a folder of its own, such as %s/heapctl; the agent makes it",
		path);
}

bool private_folder_check(
	const char *path, const struct stat *status, uid_t user, struct error *err)
{
	if (status->st_uid != user) {
		error_set(err, ERROR_DENIED,
			"%s belongs to uid %u, not to uid %u: the agent does not use it", path,
			status->st_uid, user);
		return error_hint(err, "set HEAPCTL_DIR to a folder of that user, mode 0700");
	}
	if ((status->st_mode & 077) != 0) {
		error_set(err, ERROR_USAGE,
			"%s is open to other users (mode %04o): the agent does not use it", path,
			status->st_mode & 07777);
		return hint_mode(path, status->st_mode, err);
	}
	return true;
}
