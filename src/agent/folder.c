/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/folder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "agent/descriptor.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"

static bool check_directory(int fd, const char *path, struct error *err)
{
	struct stat status;

	if (fstat(fd, &status) != 0)
		return error_system(err, errno, "%s", path);
	return private_folder_check(path, &status, geteuid(), err);
}

bool folder_explain_denial(const char *path, int mode, struct error *err)
{
	/* Landlock denies what is done to a file, not the question whether it may be done. */
	if (err->errnum == EACCES && faccessat(AT_FDCWD, path, mode, AT_EACCESS) == 0)
		error_hint(err,
			"it may be in a sandbox (Landlock) that lets it make no file or "
			"socket there: set HEAPCTL_DIR to a folder where it may, or profile "
			"it without the sandbox");
	return false;
}

static bool make_directory(const char *path, struct error *err)
{
	char parent[SETTINGS_PATH_MAX + 32];

	if (mkdir(path, 0700) == 0 || errno == EEXIST)
		return true;
	error_system(err, errno, "making %s", path);
	snprintf(parent, sizeof parent, "%.*s/", (int)(path_base_name(path) - path), path);
	return folder_explain_denial(parent, W_OK | X_OK, err);
}

bool folder_open(const struct folder *folder, bool make, int *fd, struct error *err)
{
	if (make && !make_directory(folder->path, err))
		return false;

	CLEANUP(fd_cleanup)
	int opened = open(folder->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (opened < 0) {
		error_system(err, errno, "%s", folder->path);
		return folder_explain_denial(folder->path, R_OK | X_OK, err);
	}
	if (!check_directory(opened, folder->path, err))
		return false;
	*fd = TAKE_FD(opened);
	return true;
}

static bool try_folder(const char *path, struct folder *folder, struct error *err)
{
	struct folder candidate;
	CLEANUP(fd_cleanup) int fd = -1;

	if (path[0] != '/') {
		error_set(err, ERROR_USAGE, "HEAPCTL_DIR, '%s', is not an absolute path", path);
		return error_hint(err, "begin it with /");
	}
	snprintf(candidate.path, sizeof candidate.path, "%s", path);
	if (!folder_open(&candidate, true, &fd, err))
		return false;
	if (faccessat(fd, ".", W_OK, AT_EACCESS) != 0)
		return error_system(err, errno, "%s", path);
	*folder = candidate;
	return true;
}

/* The folder before those that are made where it cannot be used; "" when there is none. */
static const char *first_choice(const struct settings *settings, char path[SETTINGS_PATH_MAX + 32])
{
	if (settings->folder[0] != '\0')
		return settings->folder;
	if (geteuid() == 0)
		return "/run/heapctl";
	if (settings->runtime[0] == '\0')
		return "";
	snprintf(path, SETTINGS_PATH_MAX + 32, "%s/heapctl", settings->runtime);
	return path;
}

bool folder_choose(const struct settings *settings, struct folder *folder, struct error *err)
{
	char path[SETTINGS_PATH_MAX + 32];
	const char *const first = first_choice(settings, path);

	if (first[0] != '\0' && try_folder(first, folder, err))
		return true;
	/* After setuid the folder of before cannot be entered, or is not ours. */
	if (settings->folder[0] != '\0' && err->kind != ERROR_DENIED && err->errnum != EACCES &&
		err->errnum != EPERM)
		return false;
	snprintf(path, sizeof path, "/tmp/heapctl-%u", geteuid());
	if (try_folder(path, folder, err))
		return true;
	/* A container whose root is read-only has this one nevertheless. */
	struct error ignored;
	snprintf(path, sizeof path, "/dev/shm/heapctl-%u", geteuid());
	return try_folder(path, folder, &ignored);
}

bool folder_has_socket_of_parent(const struct settings *settings)
{
	char path[SETTINGS_PATH_MAX + 32], name[SETTINGS_PATH_MAX + 64];
	const char *const first = first_choice(settings, path);

	snprintf(name, sizeof name, "%s/%d.sock", first, getppid());
	return first[0] != '\0' && access(name, F_OK) == 0;
}

void folder_random_name(char name[FOLDER_NAME_MAX])
{
	uint64_t random = 0;

	/* Without random numbers (early boot) a name only has to be new: the folder is private. */
	if (getrandom(&random, sizeof random, GRND_NONBLOCK) != sizeof random)
		random = (uint64_t)clock_monotonic_ns();
	snprintf(name, FOLDER_NAME_MAX, ".%d.%016llx", getpid(), (unsigned long long)random);
}

pid_t folder_pid_of_random_name(const char *name)
{
	enum { RANDOM_DIGITS = 16 };
	long long pid = 0;
	const char *c = name + 1;

	if (name[0] != '.')
		return 0;
	for (; *c >= '0' && *c <= '9' && pid < INT32_MAX; c++)
		pid = pid * 10 + (*c - '0');
	const bool is_ours = *c == '.' && pid <= INT32_MAX &&
			     strspn(c + 1, "0123456789abcdef") == RANDOM_DIGITS &&
			     c[1 + RANDOM_DIGITS] == '\0';
	return is_ours ? (pid_t)pid : 0;
}

bool folder_lock(int fd)
{
	for (int waited_ms = 0; flock(fd, LOCK_EX | LOCK_NB) != 0; waited_ms++) {
		if ((errno != EWOULDBLOCK && errno != EINTR) || waited_ms == FOLDER_LOCK_MS)
			return false;
		poll(NULL, 0, 1);
	}
	return true;
}

/* Not left to close(): a child that another thread has forked meanwhile shares the lock. */
void folder_unlock(int fd)
{
	flock(fd, LOCK_UN);
}

bool folder_rename_new(int fd, const char *from, const char *to, struct error *err)
{
	enum { NOREPLACE = 1 }; /* RENAME_NOREPLACE */
	struct stat status;

	if (syscall(SYS_renameat2, fd, from, fd, to, NOREPLACE) == 0)
		return true;
	if (errno != EINVAL && errno != ENOSYS)
		return error_system(err, errno, "naming %s", to);
	/* The file system cannot do it in one step. */
	if (fstatat(fd, to, &status, AT_SYMLINK_NOFOLLOW) == 0)
		return error_system(err, EEXIST, "naming %s", to);
	return renameat(fd, from, fd, to) == 0 || error_system(err, errno, "naming %s", to);
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

enum { PAGE_BYTES = 4096 };

bool file_lock_open(int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) == 0;
}

bool file_lock_keep(int fd, struct file_lock *lock)
{
	void *const page = mmap(NULL, PAGE_BYTES, PROT_NONE, MAP_SHARED, fd, 0);

	if (page == MAP_FAILED)
		return false;
	if (madvise(page, PAGE_BYTES, MADV_DONTFORK) != 0) {
		munmap(page, PAGE_BYTES);
		return false;
	}
	file_lock_release(lock);
	lock->page = page;
	return true;
}

void file_lock_release(struct file_lock *lock)
{
	if (lock->page != NULL)
		munmap(lock->page, PAGE_BYTES);
	lock->page = NULL;
}

bool file_lock_is_held(int folder_fd, const char *name)
{
	CLEANUP(fd_cleanup)
	const int fd = openat(folder_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return errno != ENOENT;
	/* Shared: two agents that check at the same time do not take each other for its owner. */
	return flock(fd, LOCK_SH | LOCK_NB) != 0;
}

enum { SPARE_INSTANCES = 16 };

/* Whether a few more instances could be made, by making them. */
static bool has_spare_instances(void)
{
	int fds[SPARE_INSTANCES];
	int count = 0;

	while (count < SPARE_INSTANCES && (fds[count] = inotify_init1(IN_CLOEXEC)) >= 0)
		count++;
	for (int i = 0; i < count; i++)
		close(fds[i]);
	return count == SPARE_INSTANCES;
}

/*
 * fstat cannot distinguish inotify descriptors; /proc shows what they watch. In a
 * shared_watch table the program may have closed the number and use it itself.
 */
static bool watch_is_ours(const struct folder_watch *watch)
{
	char path[64], wanted[40], text[2048];

	if (watch->fd < 0 || watch->has_own_files)
		return watch->fd >= 0;
	snprintf(path, sizeof path, "/proc/thread-self/fdinfo/%d", watch->fd);
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	const ssize_t size = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
	if (size < 0)
		return false;
	text[size] = '\0';
	snprintf(wanted, sizeof wanted, " ino:%" PRIx64 " ", watch->inode);
	return strstr(text, "\ninotify wd:") != NULL && strstr(text, wanted) != NULL;
}

/* The one in a shared table, which a forked child inherits. */
static struct folder_watch shared_watch = { .fd = -1 };

static void close_inotify(struct folder_watch *watch)
{
	if (watch->fd == shared_watch.fd)
		shared_watch = FOLDER_WATCH_NONE;
	if (watch_is_ours(watch))
		close(watch->fd);
	watch->fd = -1;
}

void folder_watch_close(struct folder_watch *watch)
{
	close_inotify(watch);
	descriptor_close(&watch->mounts);
	*watch = FOLDER_WATCH_NONE;
}

void folder_watch_close_inherited(const struct folder_watch *own)
{
	struct folder_watch inherited = shared_watch;

	if (inherited.fd >= 0 && inherited.fd != own->fd)
		close_inotify(&inherited);
}

static bool add_watches(int fd, const struct folder *folder, const char *name)
{
	char path[sizeof folder->path + FOLDER_NAME_MAX];

	snprintf(path, sizeof path, "%s/%s", folder->path, name);
	/* Removing a name changes the link count, an attribute; the socket still exists. */
	return inotify_add_watch(fd, path, IN_ATTRIB | IN_MOVE_SELF | IN_DONT_FOLLOW) >= 0 &&
	       inotify_add_watch(fd, folder->path, IN_MOVE_SELF | IN_DONT_FOLLOW | IN_ONLYDIR) >= 0;
}

static void open_inotify(struct folder_watch *watch, const struct folder *folder, const char *name)
{
	const int fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);

	if (fd < 0)
		return;
	if ((watch->has_own_files && !has_spare_instances()) || !add_watches(fd, folder, name)) {
		close(fd);
		return;
	}
	watch->fd = watch->has_own_files ? fd : descriptor_move_up(fd);
	if (!watch->has_own_files)
		shared_watch = *watch;
}

static void open_mounts(struct folder_watch *watch)
{
	struct error ignored;
	const int fd = open("/proc/thread-self/mountinfo", O_RDONLY | O_CLOEXEC);

	if (fd >= 0 && !descriptor_own(fd, &watch->mounts, &ignored))
		watch->mounts = DESCRIPTOR_NONE;
}

void folder_watch_open(struct folder_watch *watch, const struct folder *folder, const char *name,
	uint64_t inode, bool has_own_files)
{
	folder_watch_close(watch);
	watch->inode = inode;
	watch->has_own_files = has_own_files;
	open_inotify(watch, folder, name);
	open_mounts(watch);
}

bool folder_watch_is_open(const struct folder_watch *watch)
{
	return watch->fd >= 0 || watch->mounts.fd >= 0;
}

size_t folder_watch_poll_list(const struct folder_watch *watch, int64_t now_ms, struct pollfd *fds)
{
	size_t count = 0;

	if (watch->fd >= 0)
		fds[count++] = (struct pollfd){ .fd = watch->fd, .events = POLLIN };
	if (watch->mounts.fd >= 0 && now_ms >= watch->mounts_after_ms)
		fds[count++] = (struct pollfd){ .fd = watch->mounts.fd, .events = POLLPRI };
	return count;
}

int64_t folder_watch_wait_ms(const struct folder_watch *watch, int64_t now_ms)
{
	return watch->mounts.fd >= 0 && watch->mounts_after_ms > now_ms
		       ? watch->mounts_after_ms - now_ms
		       : -1;
}

bool folder_watch_has(const struct folder_watch *watch, int fd)
{
	return fd >= 0 && (fd == watch->fd || fd == watch->mounts.fd);
}

static bool drain_inotify(struct folder_watch *watch)
{
	_Alignas(struct inotify_event) char events[1024];

	if (!watch_is_ours(watch)) {
		close_inotify(watch);
		return false;
	}
	while (read(watch->fd, events, sizeof events) > 0)
		continue;
	return true;
}

bool folder_watch_drain(struct folder_watch *watch, int fd, int64_t now_ms)
{
	if (fd == watch->fd)
		return drain_inotify(watch);
	if (!descriptor_is_ours(&watch->mounts)) {
		descriptor_close(&watch->mounts);
		return false;
	}
	watch->mounts_after_ms = now_ms + FOLDER_WATCH_PAUSE_MS;
	return true;
}
