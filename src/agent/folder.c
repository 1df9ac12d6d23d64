/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"

static bool check_directory(int fd, const char *path, struct error *err)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return error_system(err, errno, "%s", path);
	if (status.st_uid != geteuid()) {
		error_set(err, ERROR_DENIED, "%s belongs to uid %u, not to uid %u of this process",
			path, status.st_uid, geteuid());
		return error_hint(err, "set HEAPCTL_DIR to a folder of its own");
	}
	if ((status.st_mode & 077) != 0) {
		error_set(err, ERROR_USAGE, "%s is open to other users (mode %04o)", path,
			status.st_mode & 07777);
		return error_hint(err, "chmod 700 %s", path);
	}
	return true;
}

bool folder_open(const struct folder *folder, bool make, int *fd, struct error *err)
{
	if (make && mkdir(folder->path, 0700) != 0 && errno != EEXIST)
		return error_system(err, errno, "making %s", folder->path);

	CLEANUP(fd_cleanup)
	int opened = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (opened < 0)
		return error_system(err, errno, "%s", folder->path);
	if (!check_directory(opened, folder->path, err))
		return false;
	*fd = TAKE_FD(opened);
	return true;
}

static bool try_folder(const char *path, struct folder *folder, struct error *err)
{
	struct folder candidate;
	CLEANUP(fd_cleanup) int fd = -1;

	if (path[0] != '/')
		return error_set(err, ERROR_USAGE, "'%s' is not an absolute path", path);
	snprintf(candidate.path, sizeof candidate.path, "%s", path);
	if (!folder_open(&candidate, true, &fd, err))
		return false;
	if (faccessat(fd, ".", W_OK, AT_EACCESS) != 0)
		return error_system(err, errno, "%s", path);
	*folder = candidate;
	return true;
}

bool folder_choose(const struct settings *settings, struct folder *folder, struct error *err)
{
	char path[SETTINGS_PATH_MAX + 32];

	if (settings->folder[0] != '\0') {
		if (try_folder(settings->folder, folder, err))
			return true;
		/* After setuid the folder of before cannot be entered, or is not ours. */
		if (err->kind != ERROR_DENIED && err->errnum != EACCES && err->errnum != EPERM)
			return false;
	} else if (geteuid() == 0) {
		if (try_folder("/run/heapctl", folder, err))
			return true;
	} else if (settings->runtime[0] != '\0') {
		snprintf(path, sizeof path, "%s/heapctl", settings->runtime);
		if (try_folder(path, folder, err))
			return true;
	}
	snprintf(path, sizeof path, "/tmp/heapctl-%u", geteuid());
	return try_folder(path, folder, err);
}

void folder_random_name(char name[FOLDER_NAME_MAX])
{
	uint64_t random = 0;

	/* Without random numbers (early boot) a name only has to be new: the folder is private. */
	if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
		random = (uint64_t)clock_monotonic_ns();
	snprintf(name, FOLDER_NAME_MAX, ".%d.%016llx", getpid(), (unsigned long long)random);
}

/* What getdents64 writes; readdir() would take memory from the heap. */
struct directory_entry {
	uint64_t inode;
	int64_t offset;
	uint16_t size;
	uint8_t type;
	char name[];
};

bool folder_list(
	int fd, bool (*visit)(void *context, const char *name), void *context, struct error *err)
{
	_Alignas(struct directory_entry) char entries[4096];

	if (lseek(fd, 0, SEEK_SET) != 0)
		return error_system(err, errno, "reading the folder");
	for (;;) {
		const long got = syscall(SYS_getdents64, fd, entries, sizeof entries);
		if (got < 0)
			return error_system(err, errno, "reading the folder");
		if (got == 0)
			return true;
		for (long at = 0; at < got;) {
			const struct directory_entry *const entry =
				(const struct directory_entry *)(entries + at);
			at += entry->size;
			if (strcmp(entry->name, ".") == 0 || strcmp(entry->name, "..") == 0)
				continue;
			if (!visit(context, entry->name))
				return true;
		}
	}
}
