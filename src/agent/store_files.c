/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/store_files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/run_record.h"
#include "base/file.h"

static const char record_suffix[] = "run";
static const char *const profile_suffixes[] = {
	[STORE_START] = "start",
	[STORE_END] = "profile",
};

void store_files_program_name(const char *program, char *name, size_t size)
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

static bool write_temporary(int folder_fd, const char *temporary, int from, const void *data,
	size_t size, struct error *err)
{
	CLEANUP(fd_cleanup)
	const int fd = openat(
		folder_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return error_system(err, errno, "keeping the profile");
	if (from >= 0)
		return file_copy_fd(from, "reading the profile", fd, "keeping the profile", err);
	return file_write_fd(fd, "keeping the run's record", data, size, err);
}

/* All of it or nothing: written under a name of its own, then renamed. */
static bool save(const struct folder *folder, const char *file, int from, const void *data,
	size_t size, struct error *err)
{
	char temporary[FOLDER_NAME_MAX];
	CLEANUP(fd_cleanup) int folder_fd = -1;

	if (!folder_open(folder, false, &folder_fd, err))
		return false;
	folder_random_name(temporary);
	if (write_temporary(folder_fd, temporary, from, data, size, err)) {
		if (renameat(folder_fd, temporary, folder_fd, file) == 0)
			return true;
		error_system(err, errno, "%s/%s", folder->path, file);
	}
	unlinkat(folder_fd, temporary, 0);
	return false;
}

bool store_files_save_profile(const struct folder *folder, const char *name, const struct run *run,
	enum store_profile which, const struct descriptor *profile, struct error *err)
{
	char file[FOLDER_NAME_MAX];

	if (!descriptor_is_ours(profile))
		return error_set(err, ERROR_STATE, "the program closed the profile's file");
	file_name(file, name, run, profile_suffixes[which]);
	return save(folder, file, profile->fd, NULL, 0, err);
}

void store_files_save_record(const struct folder *folder, const char *name,
	const struct memory *memory, const struct run *run)
{
	char file[FOLDER_NAME_MAX];
	struct buffer text;
	struct error ignored;

	buffer_init(&text, memory);
	run_record_write(&text, run);
	file_name(file, name, run, record_suffix);
	if (!text.failed && !save(folder, file, -1, text.data, text.size, &ignored)) {
		/* Then only this process knows of the run. */
	}
	buffer_deinit(&text);
}

bool store_files_open_profile(const struct folder *folder, const char *name, const struct run *run,
	enum store_profile which, struct descriptor *file, uint64_t *size_bytes, struct error *err)
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
		return error_set(err, ERROR_NOT_FOUND, "the profile of run %lld is gone: %s/%s",
			(long long)run->id, folder->path, path);
	if (fd < 0 || fstat(fd, &status) != 0)
		return error_system(err, errno, "%s/%s", folder->path, path);
	if (!S_ISREG(status.st_mode))
		return error_set(err, ERROR_SYSTEM, "%s/%s is no file", folder->path, path);
	if (!descriptor_own(TAKE_FD(fd), file, err))
		return false;
	*size_bytes = (uint64_t)status.st_size;
	return true;
}

static void remove_files(int folder_fd, const char *name, const struct run *run)
{
	const char *const suffixes[] = { profile_suffixes[STORE_START], profile_suffixes[STORE_END],
		record_suffix };

	for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
		char file[FOLDER_NAME_MAX];
		file_name(file, name, run, suffixes[i]);
		unlinkat(folder_fd, file, 0);
	}
}

void store_files_remove(const struct folder *folder, const char *name, const struct run *run)
{
	struct error ignored;
	CLEANUP(fd_cleanup) int folder_fd = -1;

	if (folder_open(folder, false, &folder_fd, &ignored))
		remove_files(folder_fd, name, run);
}

struct scan {
	int folder_fd;
	const char *name;
	const struct memory *memory;
	void (*visit)(void *context, const struct run *run);
	void *context;
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

/* Whether no other process has that pid. One with our own pid was an earlier one. */
static bool is_gone(int32_t pid)
{
	return pid == getpid() || (kill(pid, 0) != 0 && errno == ESRCH);
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

static bool visit_file(void *context, const char *file)
{
	const struct scan *const scan = context;
	struct run run = { 0 };
	int64_t pid = 0;
	const char *at = file + 1;

	if (file[0] == '.') {
		if (parse_number(&at, &pid) && *at == '.' && pid <= INT32_MAX && pid != getpid() &&
			is_gone((int32_t)pid))
			unlinkat(scan->folder_fd, file, 0);
		return true;
	}
	const char *const suffix = parse_file_name(file, scan->name, &run);
	if (suffix == NULL || !is_gone(run.pid))
		return true;
	if (strcmp(suffix, record_suffix) == 0)
		visit_record(scan, file, &run);
	else
		remove_remains(scan, file, &run);
	return true;
}

void store_files_scan(const struct folder *folder, const char *name, const struct memory *memory,
	void (*visit)(void *context, const struct run *run), void *context)
{
	struct scan scan = {
		.folder_fd = -1, .name = name, .memory = memory, .visit = visit, .context = context
	};
	struct error ignored;

	if (!folder_open(folder, false, &scan.folder_fd, &ignored))
		return;
	if (!folder_list(scan.folder_fd, visit_file, &scan, &ignored)) {
		/* What was read so far is as good as it gets. */
	}
	close(scan.folder_fd);
}
