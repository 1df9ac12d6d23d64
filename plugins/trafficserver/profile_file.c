/* SPDX-License-Identifier: Apache-2.0 */
#include "trafficserver/profile_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail(struct heapctl_error *err, int errnum, const char *message, const char *hint)
{
	*err = (struct heapctl_error){ .code = HEAPCTL_SYSTEM, .errnum = errnum };
	snprintf(err->message, sizeof err->message, "%s", message);
	snprintf(err->hint, sizeof err->hint, "%s", hint);
	return false;
}

static bool fail_errno(struct heapctl_error *err, int errnum)
{
	const char *hint = "";

	switch (errnum) {
	case ENOSPC:
	case EDQUOT:
		hint = "free some space, or start Traffic Server with another prof_prefix";
		break;
	case EACCES:
	case EPERM:
	case EROFS:
	case ENOENT:
	case ENOTDIR:
		hint = "start Traffic Server with MALLOC_CONF=...,prof_prefix:PATH in a folder "
		       "that its user can write to";
		break;
	default:
		break;
	}
	return fail(err, errnum, strerror(errnum), hint);
}

/* Splits a prefix into its folder, absolute, and the start of the files' names. */
static bool split(
	const char *prefix, char folder[PATH_MAX], const char **start, struct heapctl_error *err)
{
	char given[PATH_MAX];
	const char *const slash = strrchr(prefix, '/');
	const size_t length = slash == NULL ? 0 : (size_t)(slash - prefix);

	if (prefix[0] == '\0')
		return fail(err, 0, "prof_prefix is empty",
			"start Traffic Server with MALLOC_CONF=...,prof_prefix:PATH");
	if (length >= sizeof given)
		return fail_errno(err, ENAMETOOLONG);
	memcpy(given, prefix, length);
	given[length] = '\0';
	const char *const wanted = length > 0 ? given : slash == NULL ? "." : "/";
	*start = slash == NULL ? prefix : slash + 1;
	if (realpath(wanted, folder) != NULL)
		return true;
	/* Say at least which folder it would have been. */
	snprintf(folder, PATH_MAX, "%s", wanted);
	return fail_errno(err, errno);
}

static bool join(char path[PATH_MAX], const char *folder, const char *start, const char *rest)
{
	const char *const slash = strcmp(folder, "/") == 0 ? "" : "/";

	return snprintf(path, PATH_MAX, "%s%s%s%s", folder, slash, start, rest) < PATH_MAX;
}

bool profile_file_check(const char *prefix, char path[PATH_MAX], struct heapctl_error *err)
{
	char folder[PATH_MAX] = "";
	const char *start = prefix;

	const bool found = split(prefix, folder, &start, err);
	if (!join(path, folder, start, ""))
		return fail_errno(err, ENAMETOOLONG);
	if (!found)
		return false;
	return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0 || fail_errno(err, errno);
}

struct naming {
	struct profile_files *files;
	char folder[PATH_MAX];
	const char *start;
	char *path;
};

static bool make_path(const struct naming *naming, unsigned sequence)
{
	char rest[80];

	/* jemalloc's letters are f, i, m and u; it creates its next file over one that is there. */
	snprintf(rest, sizeof rest, ".%d.%u.h%u.heap", (int)getpid(), sequence, sequence);
	return join(naming->path, naming->folder, naming->start, rest);
}

/* Calls `try` with one name after another until one is free. */
static bool find_name(const struct naming *naming, int fd, int (*try)(int fd, const char *path),
	int *result, struct heapctl_error *err)
{
	for (;;) {
		const unsigned sequence = naming->files->next;
		if (!make_path(naming, sequence))
			return fail_errno(err, ENAMETOOLONG);
		*result = try(fd, naming->path);
		if (*result < 0 && errno != EEXIST)
			return fail_errno(err, errno);
		if (*result < 0 && sequence + 1 == 0)
			return fail_errno(err, EEXIST);
		naming->files->next = sequence + 1;
		if (*result >= 0)
			return true;
	}
}

static int try_create(int fd, const char *path)
{
	(void)fd;
	return open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
}

static int try_link(int fd, const char *path)
{
	char descriptor[40];

	snprintf(descriptor, sizeof descriptor, "/proc/self/fd/%d", fd);
	return linkat(AT_FDCWD, descriptor, AT_FDCWD, path, AT_SYMLINK_FOLLOW);
}

static bool fill(int fd, const struct profile_source *source, uint64_t *size_bytes,
	struct heapctl_error *err)
{
	static const char writing[] = "descriptor ";
	struct stat status;

	if (source->write(source->run_id, fd, err) != HEAPCTL_OK) {
		/* The path is known here. */
		if (err->errnum != 0 && strncmp(err->message, writing, strlen(writing)) == 0)
			fail_errno(err, err->errnum);
		return false;
	}
	if (fstat(fd, &status) != 0)
		return fail_errno(err, errno);
	*size_bytes = (uint64_t)status.st_size;
	return true;
}

/* Some file systems report a full disk only here. */
static bool close_file(int fd, bool good, struct heapctl_error *err)
{
	return close(fd) == 0 || !good || fail_errno(err, errno);
}

/* A file without a name, which gets one when it is complete. */
static bool write_unnamed(const struct naming *naming, int fd, const struct profile_source *source,
	uint64_t *size_bytes, struct heapctl_error *err)
{
	int linked = 0;
	const bool done =
		fill(fd, source, size_bytes, err) && find_name(naming, fd, try_link, &linked, err);

	return close_file(fd, done, err) && done;
}

static bool write_named(const struct naming *naming, const struct profile_source *source,
	uint64_t *size_bytes, struct heapctl_error *err)
{
	int fd = -1;

	if (!find_name(naming, -1, try_create, &fd, err))
		return false;
	const bool filled = fill(fd, source, size_bytes, err);
	const bool done = close_file(fd, filled, err) && filled;
	if (!done)
		unlink(naming->path);
	return done;
}

/* -1 with EOPNOTSUPP where that does not exist. */
static int open_unnamed(const char *folder)
{
	/* A name is given through /proc. */
	if (access("/proc/self/fd", X_OK) != 0) {
		errno = EOPNOTSUPP;
		return -1;
	}
	const int fd = open(folder, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
	if (fd < 0 && (errno == EISDIR || errno == EINVAL))
		errno = EOPNOTSUPP;
	return fd;
}

bool profile_file_write(struct profile_files *files, const char *prefix,
	const struct profile_source *source, char path[PATH_MAX], uint64_t *size_bytes,
	struct heapctl_error *err)
{
	struct naming naming = { .files = files, .start = prefix, .path = path };

	snprintf(path, PATH_MAX, "%s", prefix);
	if (!split(prefix, naming.folder, &naming.start, err) ||
		(!make_path(&naming, files->next) && !fail_errno(err, ENAMETOOLONG)))
		return false;
	const int fd = open_unnamed(naming.folder);
	if (fd >= 0)
		return write_unnamed(&naming, fd, source, size_bytes, err);
	if (errno != EOPNOTSUPP)
		return fail_errno(err, errno);
	return write_named(&naming, source, size_bytes, err);
}
