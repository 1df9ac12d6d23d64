/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/capture.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/folder.h"
#include "agent/thread.h"
#include "base/buffer.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/loaded_module.h"
#include "base/loader_use.h"
#include "base/memory.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* Where vm.memfd_noexec is 2 it must be one that cannot be executed; before Linux 6.3 none is. */
static int make_memory(void)
{
	const int fd = memfd_create("heapctl-profile", MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	return fd < 0 && errno == EINVAL ? memfd_create("heapctl-profile", MFD_CLOEXEC) : fd;
}

/* Dumps into memory that is a file. ERROR_NOT_FOUND when another way may work. */
static bool dump_to_memory(struct allocator *allocator, int *fd, struct error *err)
{
	CLEANUP(fd_cleanup) int memory = make_memory();

	if (memory < 0) {
		/* Missing or forbidden, as against used up. */
		const bool missing = errno == ENOSYS || errno == EPERM || errno == EACCES;
		error_system(err, errno, "creating a file in memory for the profile");
		if (missing)
			err->kind = ERROR_NOT_FOUND;
		return false;
	}
	if (!allocator_dump_fd(allocator, memory, err))
		return false;
	*fd = TAKE_FD(memory);
	return true;
}

static bool dump_to_name(struct allocator *allocator, const struct folder *folder, int folder_fd,
	const char *name, int *fd, struct error *err)
{
	char path[sizeof folder->path + FOLDER_NAME_MAX];
	CLEANUP(fd_cleanup)
	int file =
		openat(folder_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (file < 0)
		return error_system(err, errno, "a file in %s", folder->path);
	/* Where files cannot be locked, other agents remove none. */
	(void)file_lock_open(file);
	snprintf(path, sizeof path, "%s/%s", folder->path, name);
	if (!allocator_dump_path(allocator, path, err))
		return false;
	*fd = TAKE_FD(file);
	return true;
}

/* Dumps into a file of a private folder, which is unlinked at once. */
static bool dump_to_folder(
	struct allocator *allocator, const struct folder *folder, int *fd, struct error *err)
{
	char name[FOLDER_NAME_MAX];
	CLEANUP(fd_cleanup) int folder_fd = -1;

	if (!folder_open(folder, false, &folder_fd, err))
		return false;
	folder_random_name(name);
	const bool done = dump_to_name(allocator, folder, folder_fd, name, fd, err);
	unlinkat(folder_fd, name, 0);
	return done;
}

/*
 * After chroot() neither /proc nor the agent's folder may exist: then a private folder is made for
 * this dump, wherever that is possible.
 */
static bool dump_to_temporary(struct allocator *allocator, int *fd, struct error *err)
{
	static const char *const places[] = { "/tmp", "/var/tmp", "/dev/shm", ".", "" };
	char name[FOLDER_NAME_MAX];
	struct folder folder;

	folder_random_name(name);
	for (size_t i = 0; i < sizeof places / sizeof places[0]; i++) {
		snprintf(folder.path, sizeof folder.path, "%s/%s", places[i], name);
		if (mkdir(folder.path, 0700) != 0)
			continue;
		const bool done = dump_to_folder(allocator, &folder, fd, err);
		rmdir(folder.path);
		if (done)
			return true;
	}
	return error_set(err, ERROR_SYSTEM, "there is neither /proc nor a folder for the profile");
}

/* Names the limit of the process that was met. Returns false. */
static bool hint_limit(struct error *err)
{
	if (err->errnum == EFBIG)
		error_hint(err, "raise the process's RLIMIT_FSIZE with prlimit --fsize");
	else if (err->errnum == EMFILE)
		error_hint(err, "raise the process's RLIMIT_NOFILE with prlimit --nofile");
	else if (err->errnum == ENFILE)
		error_hint(err, "raise the system's limit of open files, /proc/sys/fs/file-max");
	return false;
}

/*
 * jemalloc takes a short write for a success: at the limit on the size of files, or when the disk
 * becomes full in the last block.
 */
static bool check_is_whole(uint64_t size, bool ends_a_line, struct error *err)
{
	struct rlimit limit = { .rlim_cur = RLIM_INFINITY };

	if (size == 0)
		return error_set(err, ERROR_SYSTEM, "jemalloc wrote an empty profile");
	if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
		size >= limit.rlim_cur) {
		error_system(err, EFBIG, "the profile ends at %llu bytes",
			(unsigned long long)limit.rlim_cur);
		return hint_limit(err);
	}
	return ends_a_line ||
	       error_set(err, ERROR_SYSTEM, "the profile was cut short at %llu bytes",
		       (unsigned long long)size);
}

static const char mappings_title[] = "MAPPED_LIBRARIES:\n";

struct counts {
	uint64_t stacks, size;
	uint64_t mappings_at; /* where their title begins; the size when there is none */
	bool is_heap_profile; /* begins as jemalloc's do */
};

static bool begins_heap_profile(const char *block, size_t size)
{
	static const char beginning[] = "heap_v";

	return size >= sizeof beginning - 1 && memcmp(block, beginning, sizeof beginning - 1) == 0;
}

/* Each stack of the profile is a line that begins with '@'; only the mappings' title with 'M'. */
static bool count_lines(int fd, struct counts *counts, struct error *err)
{
	char block[8192];
	bool at_line_start = true;

	*counts = (struct counts){ .mappings_at = UINT64_MAX };
	for (;;) {
		const ssize_t got = pread(fd, block, sizeof block, (off_t)counts->size);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return error_system(err, errno, "reading the profile");
		if (got == 0)
			break;
		const char *at = block;
		const char *const end = block + got;
		if (counts->size == 0)
			counts->is_heap_profile = begins_heap_profile(block, (size_t)got);
		while (at < end) {
			counts->stacks += at_line_start && *at == '@';
			if (at_line_start && *at == mappings_title[0])
				counts->mappings_at = counts->size + (uint64_t)(at - block);
			const char *const newline = memchr(at, '\n', (size_t)(end - at));
			at_line_start = newline != NULL;
			at = newline == NULL ? end : newline + 1;
		}
		counts->size += (uint64_t)got;
	}
	if (counts->mappings_at > counts->size)
		counts->mappings_at = counts->size;
	return check_is_whole(counts->size, at_line_start, err);
}

/* Whether /proc shows this pid namespace, so that /proc/PID is this process. */
static bool is_proc_ours(void)
{
	char link[16], own[16];
	const ssize_t size = readlink("/proc/self", link, sizeof link);

	return size == snprintf(own, sizeof own, "%d", getpid()) &&
	       memcmp(link, own, (size_t)size) == 0;
}

static bool append(int fd, uint64_t *size, const char *text, size_t left)
{
	while (left > 0) {
		const ssize_t done = pwrite(fd, text, left, (off_t)*size);
		if (done <= 0)
			return false;
		text += done;
		left -= (size_t)done;
		*size += (uint64_t)done;
	}
	return true;
}

static bool append_file(int fd, uint64_t *size, int from)
{
	char block[4096];
	ssize_t got;

	while ((got = read(from, block, sizeof block)) > 0) {
		if (!append(fd, size, block, (size_t)got))
			return false;
	}
	return got == 0;
}

static char program_path[PATH_MAX];

void capture_learn_program(void)
{
	const ssize_t size = readlink("/proc/self/exe", program_path, sizeof program_path - 1);

	program_path[size > 0 ? size : 0] = '\0';
}

static char flag(const ElfW(Phdr) * segment, unsigned bit, char letter)
{
	return (segment->p_flags & bit) != 0 ? letter : '-';
}

/* An object's segments as lines of /proc/PID/maps. */
static int add_object(struct dl_phdr_info *info, size_t size, void *context)
{
	struct buffer *const text = context;
	const char *const path = info->dlpi_name[0] == '\0' ? program_path : info->dlpi_name;
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	(void)size;
	if (!loaded_module_has_headers(info))
		return 0;
	for (unsigned i = 0; path[0] == '/' && i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *const segment = &info->dlpi_phdr[i];
		const uint64_t begin = info->dlpi_addr + segment->p_vaddr;
		const uint64_t end = (begin + segment->p_memsz + page - 1) & -page;
		if (segment->p_type == PT_LOAD)
			buffer_printf(text,
				"%" PRIx64 "-%" PRIx64 " %c%c%cp %08" PRIx64 " 00:00 0 %s\n",
				begin & -page, end, flag(segment, PF_R, 'r'),
				flag(segment, PF_W, 'w'), flag(segment, PF_X, 'x'),
				(uint64_t)segment->p_offset & -page, path);
	}
	return 0;
}

/* The mappings from the loader's list, where there is no /proc. */
static bool append_loaded(int fd, uint64_t *size)
{
	CLEANUP(buffer_deinit) struct buffer text = { 0 };

	buffer_init(&text, &memory_private);
	loader_iterate(add_object, &text);
	return !text.failed && append(fd, size, text.data, text.size);
}

/*
 * jemalloc copies /proc/PID/maps, which is missing after chroot() or without a free descriptor,
 * empty when the main thread has ended alone, and another process' where /proc belongs to another
 * pid namespace. Without its mappings no address of a stack has a name. Where they cannot be
 * written, the profile stays as it was, without those of another process.
 */
static void correct_mappings(int fd, struct counts *counts)
{
	static const size_t title_size = sizeof mappings_title - 1;
	const uint64_t end = counts->mappings_at;
	const bool has_mappings = counts->size > end + title_size;

	if (has_mappings ? is_proc_ours() : !counts->is_heap_profile)
		return;
	CLEANUP(fd_cleanup) const int maps = open("/proc/thread-self/maps", O_RDONLY | O_CLOEXEC);
	if (ftruncate(fd, (off_t)end) != 0)
		return;
	counts->size = end;
	const bool has_title = append(fd, &counts->size, mappings_title, title_size);
	if ((!has_title || !(maps < 0 ? append_loaded(fd, &counts->size)
				      : append_file(fd, &counts->size, maps))) &&
		ftruncate(fd, (off_t)end) == 0)
		counts->size = end;
}

static bool dump(
	struct allocator *allocator, const struct folder *folder, int *fd, struct error *err)
{
	struct error other;

	if (dump_to_memory(allocator, fd, err))
		return true;
	/* When all ways fail, the error is that of the first. */
	return err->kind == ERROR_NOT_FOUND && (dump_to_folder(allocator, folder, fd, &other) ||
						       dump_to_temporary(allocator, fd, &other));
}

bool capture_take(struct allocator *allocator, const struct folder *folder,
	struct captured_profile *capture, struct error *err)
{
	CLEANUP(fd_cleanup) int fd = -1;
	struct captured_profile taken = { .time_ms = clock_realtime_ms() };
	struct counts counts;
	const int64_t begin = clock_monotonic_ns();

	if (!allocator_available(allocator, err))
		return false;
	if (!dump(allocator, folder, &fd, err))
		return hint_limit(err);
	taken.duration_ms = (clock_monotonic_ns() - begin + 500000) / 1000000;
	if (!count_lines(fd, &counts, err))
		return false;
	correct_mappings(fd, &counts);
	taken.stack_count = counts.stacks;
	taken.size_bytes = counts.size;
	taken.has_mappings = counts.is_heap_profile && counts.mappings_at < counts.size;
	if (!descriptor_own(TAKE_FD(fd), &taken.file, err))
		return false;
	*capture = taken;
	return true;
}

void capture_append(struct captured_profile *capture, const char *line)
{
	uint64_t size = capture->size_bytes;

	if (append(capture->file.fd, &size, line, strlen(line)))
		capture->size_bytes = size;
	else if (ftruncate(capture->file.fd, (off_t)capture->size_bytes) != 0)
		capture->size_bytes = size;
}

static bool copy(const struct descriptor *file, int fd, const char *name, struct error *err)
{
	struct held_signals signals;

	if (!descriptor_is_ours(file))
		return error_set(err, ERROR_STATE, "the program closed the profile's file");
	held_signals_begin(&signals);
	const bool done = file_copy_fd(file->fd, "reading the profile", fd, name, err);
	held_signals_end(&signals);
	return done;
}

bool capture_copy_to_fd(const struct descriptor *file, int fd, struct error *err)
{
	char name[40];

	snprintf(name, sizeof name, "descriptor %d", fd);
	return copy(file, fd, name, err);
}

static bool write_into(const struct descriptor *file, const char *open_path, int flags,
	const char *path, struct error *err)
{
	CLEANUP(fd_cleanup) const int fd = open(open_path, O_WRONLY | O_CLOEXEC | flags, 0600);

	if (fd < 0)
		return error_system(err, errno, "%s", path);
	return copy(file, fd, path, err);
}

bool capture_copy_to_path(const struct descriptor *file, const char *path, struct error *err)
{
	char random[FOLDER_NAME_MAX];
	char temporary[4096];
	struct stat status;

	if (stat(path, &status) == 0 && !S_ISREG(status.st_mode))
		return write_into(file, path, 0, path, err);
	folder_random_name(random);
	if ((size_t)snprintf(temporary, sizeof temporary, "%s%s", path, random) >= sizeof temporary)
		return error_system(err, ENAMETOOLONG, "%s", path);
	if (write_into(file, temporary, O_CREAT | O_EXCL | O_NOFOLLOW, path, err)) {
		if (rename(temporary, path) == 0)
			return true;
		error_system(err, errno, "%s", path);
	}
	unlink(temporary);
	return false;
}
