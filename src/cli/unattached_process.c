/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/unattached_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/xalloc.h"
#include "cli/attachment.h"
#include "cli/control.h"
#include "client/kernel_view.h"
#include "client/program.h"
#include "client/target.h"

/* Of a process with millions of mappings; the kernel makes some 700 bytes for each. */
enum { SMAPS_BYTES_MAX = 1 << 30 };

static bool has_ended(int process_fd)
{
	struct pollfd request = { .fd = process_fd, .events = POLLIN };

	return poll(&request, 1, 0) == 1;
}

static bool read_smaps(struct unattached_process *unattached, struct error *err)
{
	const struct process *const process = &unattached->process;
	const struct target target = { .kind = TARGET_AGENT, .process = *process };
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	text.limit = SMAPS_BYTES_MAX;
	unattached->time_ms = clock_realtime_ms();
	if (!kernel_view_fetch(&target, KERNEL_SMAPS, &text, err))
		return error_prefix(err, "%s[%d]", process->name, (int)process->pid);
	return smaps_read(text.data, text.size, &unattached->smaps) ||
	       error_set(err, ERROR_UNSUPPORTED,
		       "%s[%d] has no memory of its own: it is a thread of the kernel, or has just "
		       "ended",
		       process->name, (int)process->pid);
}

static bool has_allocator(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof path, "/proc/%d/exe", (int)process_living_thread(pid));
	CLEANUP(fd_cleanup) const int fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && program_has_allocator(fd);
}

/* The pid stays that of this process as long as it has not ended. */
static bool read_process(struct unattached_process *unattached, struct error *err)
{
	const pid_t pid = unattached->process.pid;
	CLEANUP(fd_cleanup) const int process_fd = (int)syscall(SYS_pidfd_open, pid, 0);

	if (process_fd < 0)
		return errno == ESRCH
			       ? error_set(err, ERROR_NOT_FOUND, "process %d has ended", (int)pid)
			       : error_system(err, errno, "opening process %d", (int)pid);
	if (!process_read(pid, &unattached->process, err) ||
		!process_read_modules(pid, &unattached->modules, err) ||
		!read_smaps(unattached, err))
		return false;
	unattached->has_own_allocator = has_allocator(pid);
	unattached->can_attach = attachment_check(&unattached->process, &unattached->refusal);
	return !has_ended(process_fd) ||
	       error_set(err, ERROR_NOT_FOUND, "process %d has ended", (int)pid);
}

bool unattached_process_is_stopped(const struct process *process, const struct error *err)
{
	struct error ignored;

	return err->kind == ERROR_TIMEOUT && !process_state_check(process, &ignored);
}

/*
 * There is no agent, it cannot be woken, or it is stopped or frozen with its process. Not where the
 * kernel keeps that asleep: reading its memory in /proc may wait as well.
 */
static bool is_absence(const struct process *process, const struct error *err)
{
	struct process_watch watch = { .process = process };
	struct error ignored;

	return err->kind == ERROR_NOT_FOUND || unattached_process_is_stopped(process, err) ||
	       ((err->kind == ERROR_STATE || err->kind == ERROR_TIMEOUT) &&
		       process_explain_silence(&watch, &ignored));
}

bool unattached_process_read(
	const char *text, struct unattached_process *unattached, struct error *err)
{
	struct unattached_process found = { .absence = *err,
		.is_silent = err->kind == ERROR_TIMEOUT };
	struct error ignored;

	if (strchr(text, '/') != NULL || !process_find(text, &found.process, &ignored) ||
		!is_absence(&found.process, err) || !read_process(&found, err))
		return false;
	*unattached = found;
	return true;
}

bool unattached_process_has_glibc(const struct unattached_process *unattached)
{
	const struct process_modules *const modules = &unattached->modules;

	return modules->has_libc && !modules->has_musl && !modules->is_go &&
	       !unattached->has_own_allocator && modules->jemalloc[0] == '\0' &&
	       modules->other_allocator[0] == '\0' && modules->sanitizer[0] == '\0';
}

const char *unattached_process_refusal(const struct process *process, const struct error *refusal)
{
	char label[128];
	const size_t size =
		(size_t)snprintf(label, sizeof label, "%s[%d] ", process->name, (int)process->pid);

	return refusal->message + (strncmp(refusal->message, label, size) == 0 ? size : 0);
}

char *unattached_process_describe_attach(const struct unattached_process *unattached)
{
	const struct process *const process = &unattached->process;
	const struct error *const refusal = &unattached->refusal;
	const bool has_hint = refusal->hint[0] != '\0';

	/* An agent is in it already, and does not answer. */
	if ((unattached->is_silent || unattached->modules.agent[0] != '\0') &&
		unattached->absence.hint[0] != '\0')
		return xstrdup(unattached->absence.hint);
	if (unattached->can_attach && unattached->modules.is_go)
		return xasprintf("it is a Go program: heapctl attach %d tells what its C code "
				 "allocates; for the heap of Go's runtime " PROGRAM_GO_HINT,
			(int)process->pid);
	if (unattached->can_attach)
		return xasprintf(
			"heapctl attach %d tells which functions hold what is allocated from then "
			"on",
			(int)process->pid);
	/* "NAME[PID] is stopped (T)", or "NAME[PID]: FOLDER belongs to uid 0". */
	const char *const reason = unattached_process_refusal(process, refusal);

	return xasprintf("heapctl attach would refuse: %s%s%s%s%s",
		reason == refusal->message ? "" : "it ", reason, has_hint ? " (" : "",
		refusal->hint, has_hint ? ")" : "");
}

const char *unattached_process_state(const struct unattached_process *unattached)
{
	return unattached->is_silent ? "silent" : "no-agent";
}

json_t *unattached_process_json(const struct process *process, const struct error *refusal)
{
	return json_pack("{s:s, s:i, s:s*, s:o, s:I, s:I, s:b, s:o}", "state", "no-agent", "pid",
		(int)process->pid, "name", process->name, "exe", control_json_text(process->exe),
		"uid", (json_int_t)process->uid, "resident_bytes",
		(json_int_t)process->resident_bytes, "can_attach", refusal == NULL, "problem",
		control_json_text(refusal == NULL ? "" : refusal->message));
}
