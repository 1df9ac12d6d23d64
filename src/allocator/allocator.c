/* SPDX-License-Identifier: Apache-2.0 */
#include "allocator/allocator.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const char *const allocator_capability_names[] = {
	"prof.active",
	"prof.dump",
	"prof.gdump",
	"prof.reset",
	"prof.lg_sample",
	"prof.interval",
	"prof.thread_active_init",
	"prof.prefix",
	"prof.log_start",
	"thread.prof.active",
	"thread.prof.name",
	"opt.prof_bt_max",
	"opt.prof_pid_namespace",
	"opt.prof_unbias",
	"experimental.hooks.prof_backtrace",
	"experimental.hooks.prof_dump",
	"experimental.hooks.prof_sample",
	"experimental.prof_recent.alloc_max",
	"approximate_stats.active",
	"epoch",
	"stats.allocated",
	"stats.resident",
	"stats.retained",
	"arenas.dirty_decay_ms",
	"background_thread",
	"thread.idle",
	"thread.peak.read",
	NULL,
};

bool allocator_available(const struct allocator *allocator, struct error *err)
{
	if (allocator->unavailable.kind == ERROR_NONE)
		return true;
	*err = allocator->unavailable;
	return false;
}

bool allocator_active_get(struct allocator *allocator, bool *active, struct error *err)
{
	return allocator_available(allocator, err) &&
	       allocator->operations->active_get(allocator, active, err);
}

bool allocator_active_set(
	struct allocator *allocator, bool active, bool *was_active, struct error *err)
{
	bool before = false;

	if (!allocator_available(allocator, err) ||
		!allocator->operations->active_set(allocator, active, &before, err))
		return false;
	if (was_active != NULL)
		*was_active = before;
	return true;
}

bool allocator_thread_sampling_off(struct allocator *allocator, struct error *err)
{
	return allocator->unavailable.kind != ERROR_NONE ||
	       allocator->operations->thread_sampling_off(allocator, err);
}

/* What a system call says about the place where a dump failed; 0 when it has no complaint. */
static int errno_of_path(const char *path)
{
	static const char block[4096];
	CLEANUP(fd_cleanup)
	const int fd = open(path, O_WRONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat status;

	if (fd < 0)
		return errno;
	if (fstat(fd, &status) != 0)
		return errno;
	const ssize_t written = pwrite(fd, block, sizeof block, status.st_size);
	const int reason = written < 0 ? errno : 0;
	if (S_ISREG(status.st_mode) && ftruncate(fd, status.st_size) != 0)
		return errno;
	return reason;
}

static int errno_of_folder(const char *path)
{
	char folder[ALLOCATOR_PATH_MAX];
	const char *const slash = strrchr(path, '/');
	const size_t length = slash == NULL ? 0 : (size_t)(slash - path);

	if (length >= sizeof folder)
		return ENAMETOOLONG;
	memcpy(folder, path, length);
	folder[length] = '\0';
	if (length == 0)
		memcpy(folder, slash == NULL ? "." : "/", 2);
	return faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) == 0 ? 0 : errno;
}

/* jemalloc answers EFAULT whatever went wrong with the file: find the reason out. */
static bool explain_dump_failure(const char *path, const char *name, struct error *err)
{
	if (err->kind != ERROR_SYSTEM || err->errnum != EFAULT)
		return false;
	int reason = errno_of_path(path);
	if (reason == ENOENT) {
		const int folder_reason = errno_of_folder(path);
		if (folder_reason != 0)
			reason = folder_reason;
	}
	if (reason != 0)
		return error_system(
			err, reason, "jemalloc could not write the profile to %s", name);
	error_set(err, ERROR_SYSTEM,
		"jemalloc could not write the profile to %s, which can be written now", name);
	err->errnum = EFAULT;
	return error_hint(err, "try again");
}

static bool refuse_blocking_file(mode_t mode, const char *name, struct error *err)
{
	if (!S_ISFIFO(mode) && !S_ISSOCK(mode))
		return true;
	error_set(err, ERROR_USAGE, "%s is a pipe or a socket", name);
	return error_hint(err, "jemalloc holds its locks while it writes: use a file");
}

bool allocator_dump_fd(struct allocator *allocator, int fd, struct error *err)
{
	char path[40];
	char name[40];
	struct stat status;

	if (!allocator_available(allocator, err))
		return false;
	/* Of this thread: the agent's may have a table of descriptors of its own. */
	snprintf(path, sizeof path, "/proc/thread-self/fd/%d", fd);
	snprintf(name, sizeof name, "descriptor %d", fd);
	if (fstat(fd, &status) != 0)
		return error_system(err, errno, "%s", name);
	if (!refuse_blocking_file(status.st_mode, name, err))
		return false;
	if (access(path, F_OK) != 0) {
		error_set(err, ERROR_NOT_FOUND, "%s cannot be reached: no /proc here", path);
		return error_hint(err, "mount /proc, or dump into a private folder");
	}
	return allocator->operations->dump_path(allocator, path, err) ||
	       explain_dump_failure(path, name, err);
}

bool allocator_dump_path(struct allocator *allocator, const char *path, struct error *err)
{
	struct stat status;

	if (!allocator_available(allocator, err))
		return false;
	if (path[0] == '\0')
		return error_set(err, ERROR_USAGE, "no file name given");
	if (stat(path, &status) == 0 && !refuse_blocking_file(status.st_mode, path, err))
		return false;
	return allocator->operations->dump_path(allocator, path, err) ||
	       explain_dump_failure(path, path, err);
}

bool allocator_stats(
	struct allocator *allocator, const char *options, struct buffer *out, struct error *err)
{
	const char *const wanted = options == NULL ? "Jabl" : options;

	if (wanted[strspn(wanted, "Jgmdablxehw")] != '\0')
		return error_set(err, ERROR_USAGE, "statistics have no option '%c'",
			wanted[strspn(wanted, "Jgmdablxehw")]);
	const size_t before = out->size;
	if (!allocator->operations->stats(allocator, wanted, out, err))
		return false;
	if (!out->failed)
		return true;
	out->size = before;
	if (out->limit == SIZE_MAX)
		return error_set(err, ERROR_MEMORY, "no memory for the statistics");
	error_set(err, ERROR_INPUT, "the statistics are larger than %zu bytes", out->limit);
	return error_hint(err, "leave sections out: the option a omits the table of each arena");
}

bool allocator_memory(struct allocator *allocator, struct allocator_memory *ret, struct error *err)
{
	return allocator->operations->memory(allocator, ret, err);
}

bool allocator_reset(struct allocator *allocator, int lg_sample, bool force, struct error *err)
{
	if (!allocator_available(allocator, err))
		return false;
	if (lg_sample != ALLOCATOR_LG_SAMPLE_KEEP &&
		(lg_sample < 0 || lg_sample > ALLOCATOR_LG_SAMPLE_MAX))
		return error_set(err, ERROR_USAGE, "lg_sample %d is not between 0 and %d",
			lg_sample, ALLOCATOR_LG_SAMPLE_MAX);
	if (lg_sample != ALLOCATOR_LG_SAMPLE_KEEP && lg_sample < ALLOCATOR_LG_SAMPLE_LOW &&
		!force) {
		error_set(err, ERROR_DENIED,
			"lg_sample %d takes a sample every %d bytes, which slows the process "
			"and inflates its memory",
			lg_sample, 1 << lg_sample);
		return error_hint(err, "use %d or more, or force=true", ALLOCATOR_LG_SAMPLE_LOW);
	}
	return allocator->operations->reset(allocator, lg_sample, err);
}

bool allocator_lg_sample(struct allocator *allocator, unsigned *lg_sample, struct error *err)
{
	return allocator_available(allocator, err) &&
	       allocator->operations->lg_sample(allocator, lg_sample, err);
}

static bool resolve_type(const char *name, enum mallctl_type *type, struct error *err)
{
	const enum mallctl_type known = mallctl_name_type(name);

	if (known == MALLCTL_UNKNOWN && *type == MALLCTL_UNKNOWN) {
		error_set(err, ERROR_USAGE, "the type of %s is not known", name);
		return error_hint(err, "give type=bool, u32, u64, size, ssize, string or unit");
	}
	/* A pointer cannot be distinguished from a number; a wrong guess would read there. */
	if (known == MALLCTL_UNKNOWN && *type == MALLCTL_STRING)
		return error_set(err, ERROR_DENIED,
			"%s is not known to be text, and reading text would crash the process if "
			"it is not",
			name);
	if (known != MALLCTL_UNKNOWN && *type != MALLCTL_UNKNOWN && *type != known)
		return error_set(err, ERROR_USAGE, "%s is a %s, not a %s", name,
			mallctl_type_name(known), mallctl_type_name(*type));
	if (known != MALLCTL_UNKNOWN)
		*type = known;
	return true;
}

bool allocator_read(struct allocator *allocator, const char *name, enum mallctl_type type,
	struct mallctl_value *value, struct error *err)
{
	struct mallctl_value got = { 0 };

	if (!mallctl_check_read(name, err) || !resolve_type(name, &type, err))
		return false;
	if (type == MALLCTL_UNIT) {
		error_set(err, ERROR_USAGE, "%s is an action and has no value to read", name);
		return error_hint(err, "run it by a POST with value=");
	}
	got.type = type;
	if (!allocator->operations->read(allocator, name, &got, err))
		return false;
	*value = got;
	return true;
}

bool allocator_write(struct allocator *allocator, const char *name, enum mallctl_type type,
	const char *text, bool force, struct error *err)
{
	struct mallctl_value value;

	return mallctl_check_write(name, force, err) && resolve_type(name, &type, err) &&
	       mallctl_value_parse(type, text, &value, err) &&
	       allocator->operations->write(allocator, name, &value, err);
}

bool allocator_has(const struct allocator *allocator, const char *name)
{
	return allocator->operations->has(allocator, name);
}

int64_t allocator_maintain(struct allocator *allocator)
{
	return allocator->operations->maintain == NULL ? -1
						       : allocator->operations->maintain(allocator);
}

bool allocator_has_other_sampler(const struct allocator *allocator)
{
	return allocator->operations->sampler != NULL;
}

bool allocator_sampler(struct allocator *allocator, struct allocator_sampler *ret)
{
	if (!allocator_has_other_sampler(allocator))
		return false;
	allocator->operations->sampler(allocator, ret);
	return true;
}

void allocator_release(struct allocator *allocator)
{
	if (allocator->operations->release != NULL)
		allocator->operations->release(allocator);
}

bool allocator_backtrace_get(
	struct allocator *allocator, allocator_backtrace **function, struct error *err)
{
	return allocator_available(allocator, err) &&
	       allocator->operations->backtrace_get(allocator, function, err);
}

bool allocator_backtrace_set(
	struct allocator *allocator, allocator_backtrace *function, struct error *err)
{
	return allocator_available(allocator, err) &&
	       allocator->operations->backtrace_set(allocator, function, err);
}
