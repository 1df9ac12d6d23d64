/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/run_store_files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/run.h"
#include "base/file.h"

static const char record_suffix[] = "run";
static const char *const profile_suffixes[] = {
	[RUN_STORE_START] = "start",
	[RUN_STORE_END] = "profile",
};

void run_store_files_program_name(const char *program, char *name, size_t size)
{
	size_t length = 0;

	for (; program[length] != '\0' && length + 1 < size; length++) {
		const char c = program[length];
		const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
				   (c >= '0' && c <= '9') || c == '-' || c == '_';
		name[length] = plain ? c : '_';
	}
	name[length] = '\0';
	if (length == 0)
		snprintf(name, size, "unknown");
}

static void file_name(
	char file[FOLDER_NAME_MAX], const char *name, const struct run *run, const char *suffix)
{
	snprintf(
		file, FOLDER_NAME_MAX, "%s.%d.%lld.%s", name, run->pid, (long long)run->id, suffix);
}

/*
 * A file that is being written, under a temporary name. The descriptor with the lock, which may be
 * kept, is for reading only: one for writing would keep the file system from being remounted
 * read-only.
 */
struct draft {
	int folder_fd;
	int fd; /* for writing */
	int lock_fd;
	char name[FOLDER_NAME_MAX];
};

#define DRAFT_NONE ((struct draft){ .folder_fd = -1, .fd = -1, .lock_fd = -1 })

/* Locked before another agent, which looks for what dead processes left, can find it. */
static bool create_locked(struct draft *draft, struct error *err)
{
	const bool has_folder = folder_lock(draft->folder_fd);

	draft->lock_fd = openat(draft->folder_fd, draft->name,
		O_RDONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	bool done = draft->lock_fd >= 0 && file_lock_open(draft->lock_fd);
	if (draft->lock_fd >= 0 && !done && errno == EBADF) {
		/* NFS locks what is open for writing. */
		close(draft->lock_fd);
		draft->lock_fd =
			openat(draft->folder_fd, draft->name, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
		done = draft->lock_fd >= 0 && file_lock_open(draft->lock_fd);
	}
	if (done)
		draft->fd =
			openat(draft->folder_fd, draft->name, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	const int errnum = errno;
	done = done && draft->fd >= 0;
	if (has_folder)
		folder_unlock(draft->folder_fd);
	return done || error_system(err, errnum, "keeping the profile");
}

static void draft_cleanup(struct draft *draft)
{
	if (draft->name[0] != '\0')
		unlinkat(draft->folder_fd, draft->name, 0);
	fd_cleanup(&draft->fd);
	fd_cleanup(&draft->lock_fd);
	fd_cleanup(&draft->folder_fd);
}

static bool draft_open(struct draft *draft, const struct folder *folder, struct error *err)
{
	if (!folder_open(folder, false, &draft->folder_fd, err))
		return false;
	folder_random_name(draft->name);
	return create_locked(draft, err);
}

bool run_store_files_save_profile(const struct folder *folder, const char *name,
	const struct run *run, enum run_store_profile which, const struct descriptor *profile,
	struct file_lock *lock, struct error *err)
{
	CLEANUP(draft_cleanup) struct draft draft = DRAFT_NONE;
	struct file_lock kept = { 0 };
	char file[FOLDER_NAME_MAX];

	if (!descriptor_is_ours(profile))
		return error_set(err, ERROR_STATE, "the program closed the profile's file");
	file_name(file, name, run, profile_suffixes[which]);
	if (!draft_open(&draft, folder, err) || !file_copy_fd(profile->fd, "reading the profile",
							draft.fd, "keeping the profile", err))
		return false;
	if (!file_lock_keep(draft.lock_fd, &kept))
		return error_system(err, errno, "locking the profile");
	if (!folder_rename_new(draft.folder_fd, draft.name, file, err)) {
		file_lock_release(&kept);
		return false;
	}
	draft.name[0] = '\0';
	*lock = kept;
	return true;
}

static bool save_record(
	const struct folder *folder, const char *file, const struct buffer *text, struct error *err)
{
	CLEANUP(draft_cleanup) struct draft draft = DRAFT_NONE;

	if (!draft_open(&draft, folder, err) ||
		!file_write_fd(draft.fd, "keeping the run's record", text->data, text->size, err))
		return false;
	if (renameat(draft.folder_fd, draft.name, draft.folder_fd, file) != 0)
		return error_system(err, errno, "%s/%s", folder->path, file);
	draft.name[0] = '\0';
	return true;
}

void run_store_files_save_record(const struct folder *folder, const char *name,
	const struct memory *memory, const struct run *run)
{
	char file[FOLDER_NAME_MAX];
	struct buffer text;
	struct error ignored;

	buffer_init(&text, memory);
	run_record_write(&text, run);
	file_name(file, name, run, record_suffix);
	if (!text.failed && !save_record(folder, file, &text, &ignored)) {
		/* Then the run is only in this process. */
	}
	buffer_deinit(&text);
}

bool run_store_files_open_profile(const struct folder *folder, const char *name,
	const struct run *run, enum run_store_profile which, struct descriptor *file,
	uint64_t *size_bytes, struct error *err)
{
	char path[FOLDER_NAME_MAX];
	struct stat status;
	CLEANUP(fd_cleanup) int folder_fd = -1;

	if (!folder_open(folder, false, &folder_fd, err))
		return false;
	file_name(path, name, run, profile_suffixes[which]);
	CLEANUP(fd_cleanup)
	int fd = openat(folder_fd, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0 && errno == ENOENT)
		return error_set(err, ERROR_NOT_FOUND, "the profile of run %lld was removed: %s/%s",
			(long long)run->id, folder->path, path);
	if (fd < 0 || fstat(fd, &status) != 0)
		return error_system(err, errno, "%s/%s", folder->path, path);
	if (!S_ISREG(status.st_mode))
		return error_set(err, ERROR_SYSTEM, "%s/%s is not a file", folder->path, path);
	if (!descriptor_own(TAKE_FD(fd), file, err))
		return false;
	*size_bytes = (uint64_t)status.st_size;
	return true;
}

static void remove_file(int folder_fd, const char *name, const struct run *run, const char *suffix)
{
	char file[FOLDER_NAME_MAX];

	file_name(file, name, run, suffix);
	unlinkat(folder_fd, file, 0);
}

void run_store_files_remove(const struct folder *folder, const char *name, const struct run *run,
	const bool profiles[2])
{
	struct error ignored;
	CLEANUP(fd_cleanup) int folder_fd = -1;

	if ((!profiles[RUN_STORE_START] && !profiles[RUN_STORE_END]) ||
		!folder_open(folder, false, &folder_fd, &ignored))
		return;
	for (int which = RUN_STORE_START; which <= RUN_STORE_END; which++) {
		if (profiles[which])
			remove_file(folder_fd, name, run, profile_suffixes[which]);
	}
	remove_file(folder_fd, name, run, record_suffix);
}

struct scan {
	int folder_fd;
	const char *name;
	const struct memory *memory;
	void (*visit)(void *context, const struct run *run);
	void *context;
	bool may_remove; /* no agent is just making a file */
};

static bool parse_number(const char **at, int64_t *number)
{
	const char *const start = *at;

	*number = 0;
	for (; **at >= '0' && **at <= '9' && *at - start < 18; (*at)++)
		*number = *number * 10 + (**at - '0');
	return *at > start;
}

/* Takes NAME.PID.ID.SUFFIX apart; the suffix, or NULL when it is another's file. */
static const char *parse_file_name(const char *file, const char *name, struct run *run)
{
	const size_t length = strlen(name);
	int64_t pid = 0;

	if (strncmp(file, name, length) != 0 || file[length] != '.')
		return NULL;
	file += length + 1;
	if (!parse_number(&file, &pid) || *file++ != '.' || pid > INT32_MAX)
		return NULL;
	if (!parse_number(&file, &run->id) || *file++ != '.')
		return NULL;
	run->pid = (int32_t)pid;
	return file;
}

/* Whether no other process that can be seen has that pid. One with our own pid was an earlier one.
 */
static bool is_pid_gone(int32_t pid)
{
	return pid == getpid() || (kill(pid, 0) != 0 && errno == ESRCH);
}

/* The pid may be one of another pid namespace, so the files' own locks count as well. */
static bool is_gone(int folder_fd, const char *name, const struct run *run)
{
	char start[FOLDER_NAME_MAX], end[FOLDER_NAME_MAX];

	file_name(start, name, run, profile_suffixes[RUN_STORE_START]);
	file_name(end, name, run, profile_suffixes[RUN_STORE_END]);
	return is_pid_gone(run->pid) && !file_lock_is_held(folder_fd, start) &&
	       !file_lock_is_held(folder_fd, end);
}

static void visit_record(const struct scan *scan, const char *file, const struct run *named)
{
	struct buffer text;
	struct run run = { 0 };
	struct error ignored;
	CLEANUP(fd_cleanup)
	const int fd =
		openat(scan->folder_fd, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	buffer_init(&text, scan->memory);
	text.limit = 32768;
	if (fd >= 0 && file_read_fd(fd, file, &text, &ignored) &&
		run_record_read(text.data, text.size, &run) && run.id == named->id &&
		run.pid == named->pid)
		scan->visit(scan->context, &run);
	buffer_deinit(&text);
}

/* A profile without a record, or a file that was being written when its process ended. */
static void remove_remains(const struct scan *scan, const char *file, const struct run *run)
{
	char record[FOLDER_NAME_MAX];

	file_name(record, scan->name, run, record_suffix);
	if (faccessat(scan->folder_fd, record, F_OK, 0) != 0 && errno == ENOENT)
		unlinkat(scan->folder_fd, file, 0);
}

static bool is_regular(int folder_fd, const char *file)
{
	struct stat status;

	return fstatat(folder_fd, file, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
	       S_ISREG(status.st_mode);
}

static bool visit_file(void *context, const char *file)
{
	const struct scan *const scan = context;
	struct run run = { 0 };
	const pid_t writer = folder_pid_of_random_name(file);

	if (writer > 0 && scan->may_remove && is_pid_gone(writer) &&
		is_regular(scan->folder_fd, file) && !file_lock_is_held(scan->folder_fd, file))
		unlinkat(scan->folder_fd, file, 0);
	if (file[0] == '.')
		return true;
	const char *const suffix = parse_file_name(file, scan->name, &run);
	if (suffix == NULL || !is_gone(scan->folder_fd, scan->name, &run))
		return true;
	if (strcmp(suffix, record_suffix) == 0)
		visit_record(scan, file, &run);
	else if (scan->may_remove)
		remove_remains(scan, file, &run);
	return true;
}

void run_store_files_scan(const struct folder *folder, const char *name,
	const struct memory *memory, void (*visit)(void *context, const struct run *run),
	void *context)
{
	CLEANUP(fd_cleanup) int folder_fd = -1;
	struct error ignored;

	if (!folder_open(folder, false, &folder_fd, &ignored))
		return;
	struct scan scan = { .folder_fd = folder_fd,
		.name = name,
		.memory = memory,
		.visit = visit,
		.context = context,
		.may_remove = folder_lock(folder_fd) };
	if (!folder_list(folder_fd, visit_file, &scan, &ignored)) {
		/* What was read so far is as good as it gets. */
	}
	if (scan.may_remove)
		folder_unlock(folder_fd);
}
