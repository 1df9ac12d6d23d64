/* SPDX-License-Identifier: Apache-2.0 */
#include "client/kernel_view.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "base/file.h"
#include "base/xalloc.h"
#include "client/agent_client.h"
#include "client/process.h"

const char *const kernel_part_names[KERNEL_PARTS + 1] = {
	[KERNEL_SMAPS] = "smaps",
	[KERNEL_MAPS] = "maps",
	[KERNEL_LIMITS] = "limits",
	[KERNEL_STATUS] = "process-status",
	[KERNEL_CGROUP] = "cgroup",
	[KERNEL_MACHINE] = "machine",
};

static const char *const proc_names[KERNEL_PARTS] = {
	[KERNEL_SMAPS] = "smaps",
	[KERNEL_MAPS] = "maps",
	[KERNEL_LIMITS] = "limits",
	[KERNEL_STATUS] = "status",
	[KERNEL_CGROUP] = "cgroup",
};

static bool read_proc(pid_t pid, enum kernel_part part, struct buffer *out, struct error *err)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/%s", (int)process_living_thread(pid),
		proc_names[part]);
	if (file_read(path, out, err))
		return true;
	if (err->errnum == ENOENT || err->errnum == ESRCH) {
		error_set(err, ERROR_NOT_FOUND, "process %d has ended", (int)pid);
		return error_hint(err, "heapctl ps lists the targets");
	}
	if (err->errnum == EACCES || err->errnum == EPERM)
		err->kind = ERROR_DENIED;
	return false;
}

/* The limits of the control group (version 2) that the process is in. */
static bool read_cgroup(pid_t pid, struct buffer *out, struct error *err)
{
	static const char *const files[] = { "memory.max", "memory.high", "memory.current",
		"memory.swap.max", "memory.stat" };
	CLEANUP(buffer_deinit) struct buffer names = BUFFER_OR_EXIT;

	if (!read_proc(pid, KERNEL_CGROUP, &names, err))
		return false;
	const char *const line = strstr(buffer_string(&names), "0::/");
	if (line == NULL)
		return true;
	const int length = (int)strcspn(line + 3, "\n");
	for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
		CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;
		if (!file_try_read(&text, "/sys/fs/cgroup%.*s/%s", length, line + 3, files[i]))
			continue;
		buffer_printf(out, "%s:\n", files[i]);
		buffer_append(out, text.data, text.size);
	}
	return true;
}

static bool read_machine(struct buffer *out, struct error *err)
{
	struct utsname system = { 0 };

	if (uname(&system) != 0)
		return error_system(err, errno, "reading the kernel's release");
	buffer_printf(out, "%s\n%s\n", system.release, system.machine);
	return true;
}

static bool ask_gateway(
	const struct target *target, enum kernel_part part, struct buffer *out, struct error *err)
{
	enum { LIMIT_MS = 20 * 1000 };
	CLEANUP(http_answer_deinit) struct http_answer answer = { 0 };
	char path[64];

	snprintf(path, sizeof path, "/api/v1/kernel?part=%s", kernel_part_names[part]);
	const struct agent_call call = { .method = "GET", .path = path, .total_ms = LIMIT_MS };
	if (!agent_call(target, &call, &answer, err))
		return false;
	buffer_append(out, answer.body.data, answer.body.size);
	return true;
}

bool kernel_view_fetch(
	const struct target *target, enum kernel_part part, struct buffer *out, struct error *err)
{
	if (target->kind == TARGET_GATEWAY)
		return ask_gateway(target, part, out, err);
	if (part == KERNEL_MACHINE)
		return read_machine(out, err);
	if (target->process.pid == 0) {
		error_set(err, ERROR_UNSUPPORTED,
			"%s is in another namespace: its pid here is not known", target->label);
		return error_hint(err, "give its pid here instead of its socket, or run heapctl "
				       "in its container");
	}
	return part == KERNEL_CGROUP ? read_cgroup(target->process.pid, out, err)
				     : read_proc(target->process.pid, part, out, err);
}
