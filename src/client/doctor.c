/* SPDX-License-Identifier: Apache-2.0 */
#include "client/doctor.h"

#include <errno.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/file.h"
#include "base/malloc_conf.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "client/discovery.h"
#include "client/program.h"

void diagnosis_init(struct diagnosis *diagnosis)
{
	*diagnosis = (struct diagnosis){ 0 };
	string_pool_init(&diagnosis->strings);
}

void diagnosis_deinit(struct diagnosis *diagnosis)
{
	string_pool_deinit(&diagnosis->strings);
	free(diagnosis->items);
}

bool diagnosis_is_well(const struct diagnosis *diagnosis)
{
	for (size_t i = 0; i < diagnosis->count; i++) {
		if (diagnosis->items[i].level == FINDING_WRONG)
			return false;
	}
	return true;
}

void diagnosis_add(struct diagnosis *diagnosis, enum finding_level level, const char *code,
	const char *hint, const char *format, ...)
{
	va_list arguments;

	struct finding *const finding =
		XAPPEND(diagnosis->items, diagnosis->count, diagnosis->capacity);
	finding->level = level;
	finding->code = string_pool_add(&diagnosis->strings, code);
	snprintf(finding->hint, sizeof finding->hint, "%s", hint);
	va_start(arguments, format);
	vsnprintf(finding->message, sizeof finding->message, format, arguments);
	va_end(arguments);
}

bool diagnosis_has(const struct diagnosis *diagnosis, const char *code)
{
	for (size_t i = 0; i < diagnosis->count; i++) {
		if (strcmp(diagnosis->items[i].code, code) == 0)
			return true;
	}
	return false;
}

/* A profile of a million stacks keeps an agent busy for seconds. */
enum { PATIENCE_MS = 10 * 1000 };

static void examine_allocator(struct diagnosis *diagnosis, const json_t *status)
{
	const char *const sampler = json_text(status, "profiling.sampler");

	if (strcmp(sampler, "heapctl") == 0)
		diagnosis_add(diagnosis, FINDING_GOOD, "profiling-available", "",
			"%s can be profiled: heapctl samples what is allocated after sampling is "
			"switched on",
			json_text(status, "allocator.malloc_name"));
	else if (json_flag(status, "profiling.available"))
		diagnosis_add(diagnosis, FINDING_GOOD, "profiling-available", "",
			"%s %s can be profiled", json_text(status, "allocator.name"),
			json_text(status, "allocator.version"));
	else
		diagnosis_add(diagnosis, FINDING_WRONG, "profiling-unavailable",
			json_hint(json_at(status, "profiling")), "no profile can be taken: %s",
			json_text(status, "profiling.reason"));
}

static void examine_sampling(struct diagnosis *diagnosis, const json_t *status)
{
	if (!json_flag(status, "profiling.available"))
		return;
	if (json_flag(status, "profiling.active"))
		diagnosis_add(diagnosis, FINDING_GOOD, "sampling-on", "", "sampling is on");
	else
		diagnosis_add(diagnosis, FINDING_NOTE, "sampling-off",
			"heapctl record samples for a time; heapctl activate until it is switched "
			"off",
			"sampling is off: what is allocated now will not be in any profile, and a "
			"dump may be empty");
	if (strcmp(json_text(status, "profiling.activated_by"), "other") == 0)
		diagnosis_add(diagnosis, FINDING_NOTE, "sampling-by-other", "",
			"sampling was switched on by %s: heapctl record leaves it on and also "
			"saves the profile from its start; the URLs of Mesos are refused",
			json_flag(status, "profiling.active_at_start")
				? "the program's options at its start"
				: "the program or another tool");
}

/* The agent's own warnings; those that make a profile wrong have the level wrong. */
static void examine_warnings(struct diagnosis *diagnosis, const json_t *status)
{
	static const char *const grave[] = { "conf-malformed", "variable-ignored", "secure-start",
		"malloc-not-owned", "lg-sample-high", "threads-start-inactive", "prefix-empty",
		"version-off-on", "static-unwinder", "file-damaged" };
	size_t index;
	json_t *warning;

	json_array_foreach(json_at(status, "warnings"), index, warning)
	{
		const char *const code = json_text(warning, "code");
		enum finding_level level = FINDING_NOTE;

		for (size_t i = 0; i < sizeof grave / sizeof grave[0]; i++) {
			if (strcmp(code, grave[i]) == 0)
				level = FINDING_WRONG;
		}
		diagnosis_add(diagnosis, level, code, json_hint(warning), "%s",
			json_text(warning, "message"));
	}
}

bool doctor_examine_agent(
	struct diagnosis *diagnosis, const struct target *target, struct error *err)
{
	CLEANUP(json_cleanup) json_t *status = NULL;

	if (!agent_call_json_within(target, "GET", "/v1/status", PATIENCE_MS, &status, err))
		return false;
	diagnosis_add(diagnosis, FINDING_GOOD, "agent-answers", "", "the agent answers (%s)",
		json_text(status, "agent_version"));
	examine_allocator(diagnosis, status);
	examine_sampling(diagnosis, status);
	examine_warnings(diagnosis, status);
	if (strcmp(json_text(status, "profiling.unwinder"), "heapctl") == 0)
		diagnosis_add(diagnosis, FINDING_GOOD, "unwinder-safe", "",
			"the agent walks the stacks of samples");
	return true;
}

void doctor_examine_own_folder(struct diagnosis *diagnosis)
{
	const char *const own = getenv("HEAPCTL_DIR");
	const char *const runtime = getenv("XDG_RUNTIME_DIR");
	char path[4096];

	if (own != NULL && *own != '\0') {
		if (doctor_examine_named_folder(diagnosis, "", own, geteuid()))
			return;
		if (access(own, F_OK) != 0)
			diagnosis_add(diagnosis, FINDING_NOTE, "folder-missing", "",
				"HEAPCTL_DIR, %s, does not exist yet", own);
		doctor_examine_folder(diagnosis, own, geteuid());
		return;
	}
	if (geteuid() == 0)
		snprintf(path, sizeof path, "/run/heapctl");
	else if (runtime != NULL && runtime[0] == '/')
		snprintf(path, sizeof path, "%s/heapctl", runtime);
	else
		snprintf(path, sizeof path, "/tmp/heapctl-%u", geteuid());
	doctor_examine_folder(diagnosis, path, geteuid());
}

static void examine_conf(struct diagnosis *diagnosis, const char *name, const char *text)
{
	struct error problem;

	for (size_t i = 0; malloc_conf_problem(text, i, &problem); i++)
		diagnosis_add(diagnosis, FINDING_WRONG, "conf-malformed", problem.hint, "%s: %s",
			name, problem.message);
}

static void examine_environment(struct diagnosis *diagnosis)
{
	const char *const conf = getenv("MALLOC_CONF");
	char link[4096];

	if (conf != NULL)
		examine_conf(diagnosis, "MALLOC_CONF of this shell", conf);
	if (getenv("JEMALLOC_CONF") != NULL && conf == NULL)
		diagnosis_add(diagnosis, FINDING_NOTE, "variable-ignored",
			"set MALLOC_CONF instead (heapctl run adopts its value)",
			"JEMALLOC_CONF is set in this shell, which jemalloc does not read");
	const ssize_t size = readlink("/etc/malloc.conf", link, sizeof link - 1);
	if (size < 0)
		return;
	link[size] = '\0';
	examine_conf(diagnosis, "/etc/malloc.conf", link);
	diagnosis_add(diagnosis, FINDING_NOTE, "etc-malloc-conf", "",
		"/etc/malloc.conf sets '%s' for every program with jemalloc", link);
}

static long read_number(const char *path)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	struct error err;
	long number = -1;

	if (access(path, R_OK) == 0 && file_read(path, &text, &err))
		number = atol(buffer_string(&text));
	return number;
}

static void examine_kernel(struct diagnosis *diagnosis)
{
	CLEANUP(buffer_deinit) struct buffer mounts = BUFFER_OR_EXIT;
	struct error err;

	if (access("/proc/self/maps", R_OK) != 0) {
		diagnosis_add(diagnosis, FINDING_WRONG, "proc-missing", "mount -t proc proc /proc",
			"/proc is not mounted: targets cannot be found");
		return;
	}
	if (read_number("/proc/sys/vm/memfd_noexec") >= 2)
		diagnosis_add(diagnosis, FINDING_NOTE, "memfd-forbidden",
			"nothing, as long as HEAPCTL_DIR can be written",
			"vm.memfd_noexec is 2: profiles are written to HEAPCTL_DIR first");
	if (geteuid() != 0 && file_read("/proc/self/mounts", &mounts, &err) &&
		strstr(buffer_string(&mounts), "hidepid=") != NULL)
		diagnosis_add(diagnosis, FINDING_NOTE, "proc-hidden", "run heapctl as root",
			"/proc hides the processes of other users (hidepid)");
}

static void examine_libraries(struct diagnosis *diagnosis, const char *agent_library)
{
	char path[LIBRARY_PATH_BYTES];

	if (agent_library == NULL)
		diagnosis_add(diagnosis, FINDING_WRONG, "agent-missing",
			"install heapctl completely (Debian: apt install libheapctl0)",
			"libheapctl.so was not found, and heapctl run needs it");
	else
		diagnosis_add(diagnosis, FINDING_GOOD, "agent-found", "", "the agent is %s",
			agent_library);
	if (library_search("libjemalloc.so.2", "", NULL, path))
		diagnosis_add(diagnosis, FINDING_GOOD, "jemalloc-found", "",
			"heapctl run --jemalloc uses %s", path);
	else
		diagnosis_add(diagnosis, FINDING_NOTE, "jemalloc-missing",
			MALLOC_CONF_JEMALLOC_SOURCE,
			"there is no libjemalloc.so.2: heapctl run --jemalloc needs it");
}

void doctor_examine_host(struct diagnosis *diagnosis, const char *agent_library)
{
	examine_kernel(diagnosis);
	examine_libraries(diagnosis, agent_library);
	doctor_examine_own_folder(diagnosis);
	examine_environment(diagnosis);
}

/* ".4711.c0ffee0123456789" beside the folder in a socket's address. */
enum { ADDRESS_ROOM = 107 - 26 };

/* With less room the next profile may not fit. */
enum { ROOM_MIB = 64 };

static void examine_room(struct diagnosis *diagnosis, const char *path)
{
	struct statvfs room;

	if (statvfs(path, &room) != 0 || room.f_blocks == 0)
		return;
	const unsigned long long free_mib =
		(unsigned long long)room.f_bavail * room.f_frsize / (1024 * 1024);
	if (free_mib < ROOM_MIB)
		diagnosis_add(diagnosis, FINDING_WRONG, "disk-full",
			"make room there, or set HEAPCTL_DIR to another folder",
			"%s has %llu MiB left for kept profiles", path, free_mib);
	else if (room.f_files > 0 && room.f_favail == 0)
		diagnosis_add(diagnosis, FINDING_WRONG, "disk-full",
			"make room there, or set HEAPCTL_DIR to another folder",
			"%s has no room for another file", path);
}

static const char *code_of(const struct error *unusable)
{
	return unusable->kind == ERROR_DENIED ? "folder-owner" : "folder-mode";
}

bool doctor_examine_folder_kind(struct diagnosis *diagnosis, const char *path, mode_t mode)
{
	if (S_ISDIR(mode))
		return false;
	diagnosis_add(diagnosis, FINDING_WRONG, "folder-kind",
		"remove it; the agent creates the folder", "%s is %s", path,
		S_ISLNK(mode) ? "a symbolic link, which the agent does not follow"
			      : "not a folder");
	return true;
}

void doctor_examine_folder(struct diagnosis *diagnosis, const char *path, uid_t owner)
{
	struct stat status;
	struct error err;

	if (lstat(path, &status) != 0) {
		if (errno == EACCES)
			diagnosis_add(diagnosis, FINDING_NOTE, "folder-hidden",
				"run heapctl as its owner or as root", "%s: permission denied",
				path);
		return;
	}
	if (doctor_examine_folder_kind(diagnosis, path, status.st_mode))
		return;
	if (!private_folder_check(path, &status, owner, &err))
		diagnosis_add(diagnosis, FINDING_WRONG, code_of(&err), err.hint, "%s", err.message);
	else
		examine_room(diagnosis, path);
}

void doctor_examine_used_folder(
	struct diagnosis *diagnosis, const char *path, bool has_socket, uid_t owner)
{
	struct stat status;
	struct error err;

	if (lstat(path, &status) != 0 || !S_ISDIR(status.st_mode) ||
		private_folder_check(path, &status, owner, &err))
		return;
	if (err.kind != ERROR_DENIED)
		diagnosis_add(diagnosis, FINDING_WRONG, code_of(&err), err.hint, "%s", err.message);
	/* A server that began as root has its socket in root's folder. */
	else if (!has_socket || status.st_uid != 0)
		diagnosis_add(diagnosis, FINDING_NOTE, code_of(&err), err.hint, "%s", err.message);
}

/* Why no user can create a file there; NULL: nothing prevents it. */
static const char *reason_against_files(const char *path)
{
	struct statfs system;
	struct statvfs room;

	if (statvfs(path, &room) == 0 && (room.f_flag & ST_RDONLY) != 0)
		return "is read-only";
	if (statfs(path, &system) == 0 &&
		(system.f_type == PROC_SUPER_MAGIC || system.f_type == SYSFS_MAGIC))
		return "is a file system of the kernel, which takes no files";
	return NULL;
}

/* Whether a user can probably create a folder there: groups are not looked up. */
static bool may_write(const struct stat *parent, uid_t user)
{
	if (user == 0 || (parent->st_mode & (S_IWGRP | S_IWOTH)) != 0)
		return true;
	return parent->st_uid == user && (parent->st_mode & S_IWUSR) != 0;
}

/* `seen` is the path for this process, `path` that for the agent. */
static bool examine_missing(
	struct diagnosis *diagnosis, const char *seen, const char *path, uid_t owner)
{
	char parent[4096];
	struct stat status;

	snprintf(parent, sizeof parent, "%s", seen);
	char *const slash = strrchr(parent, '/');
	const int shown = (int)(strrchr(path, '/') - path);
	if (slash == NULL || shown == 0)
		return false;
	*slash = '\0';
	if (stat(parent, &status) != 0 || !S_ISDIR(status.st_mode))
		diagnosis_add(diagnosis, FINDING_WRONG, "folder-parent",
			"create it, or choose a folder whose parent exists",
			"HEAPCTL_DIR is %s, but there is no folder %.*s, and the agent creates no "
			"parents",
			path, shown, path);
	else if (reason_against_files(parent) != NULL)
		diagnosis_add(diagnosis, FINDING_WRONG, "folder-read-only",
			"set HEAPCTL_DIR to a folder that can be written",
			"HEAPCTL_DIR, %s, does not exist and cannot be created: %.*s %s", path,
			shown, path, reason_against_files(parent));
	else if (!may_write(&status, owner))
		diagnosis_add(diagnosis, FINDING_NOTE, "folder-unwritable",
			"create it for that user, mode 0700",
			"user %u may not create HEAPCTL_DIR, %s: the agent uses /tmp/heapctl-%u",
			owner, path, owner);
	else
		return false;
	return true;
}

bool doctor_examine_named_folder(
	struct diagnosis *diagnosis, const char *root, const char *path, uid_t owner)
{
	char seen[4096];
	const size_t length = strlen(path);

	if (path[0] != '/') {
		diagnosis_add(diagnosis, FINDING_WRONG, "folder-relative",
			"set it to an absolute path",
			"HEAPCTL_DIR is '%s', which is not an absolute path", path);
		return true;
	}
	if (length > HEAPCTL_DIR_MAX) {
		diagnosis_add(diagnosis, FINDING_WRONG, "folder-long", "choose a shorter path",
			"HEAPCTL_DIR has %zu bytes, more than %d: the agent ignores it and uses "
			"the default folders",
			length, HEAPCTL_DIR_MAX);
		return true;
	}
	if (length > ADDRESS_ROOM)
		diagnosis_add(diagnosis, FINDING_NOTE, "folder-deep",
			"choose a shorter path where /proc may be missing",
			"HEAPCTL_DIR is too long for a socket's address: its sockets are reached "
			"through /proc, which the server also needs");
	snprintf(seen, sizeof seen, "%s%s", root, path);
	if (access(seen, F_OK) != 0 && (errno == ENOENT || errno == ENOTDIR))
		return examine_missing(diagnosis, seen, path, owner);
	if (reason_against_files(seen) != NULL) {
		diagnosis_add(diagnosis, FINDING_WRONG, "folder-read-only",
			"set HEAPCTL_DIR to a folder that can be written",
			"HEAPCTL_DIR, %s, %s: the agent cannot create its socket there", path,
			reason_against_files(seen));
		return true;
	}
	return false;
}
