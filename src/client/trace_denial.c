/* SPDX-License-Identifier: Apache-2.0 */
#include "client/trace_denial.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/user_name.h"
#include "base/xalloc.h"

enum {
	CAPABILITY_SYS_PTRACE = 19,
	YAMA_FORBIDDEN = 3,
	MODULES_MAX = 32,
	PATH_BYTES = 64,
	LSM_LIST_MODULES = 461, /* the call's number on every machine, since Linux 6.8 */
};

/* The modules that decide about ptrace; "capability" and "yama" are checked here. */
static const struct {
	uint64_t id; /* of linux/lsm.h */
	const char *name;
} deciding[] = {
	{ 101, "selinux" },
	{ 102, "smack" },
	{ 104, "apparmor" },
	{ 109, "bpf" },
	{ 110, "landlock" },
};

static bool has_ptrace(uint64_t capabilities)
{
	return (capabilities >> CAPABILITY_SYS_PTRACE & 1) != 0;
}

static uint64_t read_hex(const char *status, const char *field)
{
	const char *const at = strstr(status, field);

	return at == NULL ? 0 : strtoull(at + strlen(field), NULL, 16);
}

static void add_module(const char *name, char modules[96])
{
	const size_t size = strlen(modules);

	snprintf(modules + size, 96 - size, "%s%s", size == 0 ? "" : ", ", name);
}

/* Whether the comma-separated list has the name. */
static bool lists(const char *list, const char *name)
{
	const size_t size = strlen(name);

	for (const char *at = list; *at != '\0'; at += strcspn(at, ","), at += *at == ',') {
		if (strcspn(at, ",\n") == size && strncmp(at, name, size) == 0)
			return true;
	}
	return false;
}

static void read_modules(char modules[96])
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	uint64_t ids[MODULES_MAX];
	uint32_t size = sizeof ids;
	const size_t count = sizeof deciding / sizeof deciding[0];

	if (file_try_read(&text, "/sys/kernel/security/lsm")) {
		for (size_t i = 0; i < count; i++) {
			if (lists(buffer_string(&text), deciding[i].name))
				add_module(deciding[i].name, modules);
		}
		return;
	}
	/* securityfs is seldom mounted in containers. */
	const long found = syscall(LSM_LIST_MODULES, ids, &size, 0);
	for (long at = 0; at < found; at++) {
		for (size_t i = 0; i < count; i++) {
			if (ids[at] == deciding[i].id)
				add_module(deciding[i].name, modules);
		}
	}
}

/* We are in a user namespace of a container, and it is not. */
static bool is_outside(pid_t pid)
{
	CLEANUP(buffer_deinit) struct buffer ours = BUFFER_OR_EXIT;
	CLEANUP(buffer_deinit) struct buffer theirs = BUFFER_OR_EXIT;
	unsigned inside, outside, count;

	return file_try_read(&ours, "/proc/self/uid_map") &&
	       file_try_read(&theirs, "/proc/%d/uid_map", (int)pid) &&
	       sscanf(buffer_string(&ours), "%u %u %u", &inside, &outside, &count) == 3 &&
	       (inside != 0 || outside != 0 || count != UINT32_MAX) &&
	       strcmp(buffer_string(&ours), buffer_string(&theirs)) != 0;
}

void trace_facts_read(pid_t pid, bool wants_to_trace, struct trace_facts *facts)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
	char path[PATH_BYTES];
	struct stat status;

	*facts = (struct trace_facts){ .wants_to_trace = wants_to_trace, .own_uid = geteuid() };
	if (file_try_read(&text, "/proc/self/status"))
		facts->own_capabilities = read_hex(buffer_string(&text), "\nCapEff:");
	facts->is_outside = is_outside(pid);
	if (file_try_read(&text, "/proc/%d/status", (int)pid)) {
		const char *const uids = strstr(buffer_string(&text), "\nUid:");
		if (uids == NULL || sscanf(uids, "\nUid: %u %u %u", &facts->uids[0],
					    &facts->uids[1], &facts->uids[2]) != 3)
			facts->uids[0] = facts->uids[1] = facts->uids[2] = facts->own_uid;
		facts->capabilities = read_hex(buffer_string(&text), "\nCapPrm:");
	}
	/* The kernel gives such a process' files to root. */
	snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
	facts->is_undumpable =
		facts->uids[1] != 0 && lstat(path, &status) == 0 && status.st_uid != facts->uids[1];
	if (file_try_read(&text, "/proc/sys/kernel/yama/ptrace_scope"))
		facts->yama = atoi(buffer_string(&text));
	read_modules(facts->modules);
}

/* What remains when every cause that /proc shows is excluded. */
static bool hint_security_module(const struct trace_facts *facts, struct error *err)
{
	return error_hint(err,
		"a security module of the kernel%s%s%s refuses it: heapctl has the rights for it "
		"(%s), and kernel.yama.ptrace_scope is %d; see the kernel's log (dmesg, ausearch "
		"-m avc), or run heapctl outside the sandbox it is in",
		facts->modules[0] == '\0' ? "" : " (", facts->modules,
		facts->modules[0] == '\0' ? "" : ")",
		has_ptrace(facts->own_capabilities) ? "CAP_SYS_PTRACE"
						    : "its user and capabilities are the same",
		facts->yama);
}

static bool is_other_user(const struct trace_facts *facts)
{
	for (int i = 0; i < 3; i++) {
		if (facts->uids[i] != facts->own_uid)
			return true;
	}
	return false;
}

/* Of heapctl without CAP_SYS_PTRACE. */
static bool hint_rights(const struct trace_facts *facts, struct error *err)
{
	const uint64_t lacking = facts->capabilities & ~facts->own_capabilities;
	const bool is_root = facts->own_uid == 0;
	const char *const what_to_do =
		is_root ? "run heapctl on the host, or with that capability (docker run --cap-add "
			  "SYS_PTRACE)"
			: "run heapctl as root";
	char user[USER_NAME_BYTES];

	user_name_format(facts->uids[1], user);
	if (is_other_user(facts) && !is_root)
		return error_hint(
			err, "it belongs to %s: run heapctl as that user or as root", user);
	if (is_other_user(facts))
		return error_hint(err, "it belongs to %s, and root lacks CAP_SYS_PTRACE here: %s",
			user, what_to_do);
	if (lacking != 0)
		return error_hint(err,
			"it has capabilities that heapctl lacks (0x%" PRIx64
			"), and heapctl lacks CAP_SYS_PTRACE: %s",
			lacking, what_to_do);
	if (facts->is_undumpable)
		return error_hint(err,
			"it has made itself untraceable (PR_SET_DUMPABLE), or its program may not "
			"be read: %s",
			what_to_do);
	if (facts->wants_to_trace && facts->yama > 0)
		return error_hint(
			err, "kernel.yama.ptrace_scope is %d: %s", facts->yama, what_to_do);
	/* Files of a process of root belong to root anyway. */
	if (is_root)
		return error_hint(err,
			"it has made itself untraceable (PR_SET_DUMPABLE), and heapctl lacks "
			"CAP_SYS_PTRACE: %s",
			what_to_do);
	return hint_security_module(facts, err);
}

bool trace_denial_hint(const struct trace_facts *facts, struct error *err)
{
	if (facts->wants_to_trace && facts->yama >= YAMA_FORBIDDEN)
		return error_hint(err, "kernel.yama.ptrace_scope is 3, which forbids it to all "
				       "until the machine is restarted");
	if (!has_ptrace(facts->own_capabilities))
		return hint_rights(facts, err);
	if (facts->is_outside)
		return error_hint(err,
			"heapctl is in a user namespace, whose CAP_SYS_PTRACE does not count for "
			"this process outside it: run heapctl on the host");
	return hint_security_module(facts, err);
}
