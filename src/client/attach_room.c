/* SPDX-License-Identifier: Apache-2.0 */
#include "client/attach_room.h"

#include <inttypes.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/proc_maps.h"
#include "base/units.h"
#include "base/xalloc.h"
#include "client/control_group.h"

enum {
	THREADS = 2, /* the one that loads the agent, and the agent's */
	/*
	 * Of the agent itself 0.3 to 0.8 MiB. The tables of its unwinder took 1/14 (node) to 1/5
	 * (libLLVM) of the code that they are for.
	 */
	AGENT_BYTES = 1024 * 1024,
	CODE_SHARE = 4,
	/* It took up to 130, and the program goes on mapping meanwhile. */
	MAPPINGS = 256,
	/* Mapped, resident or not: up to 2 MiB beside stacks and tables, and the program goes on.
	 */
	AGENT_MAPPED_BYTES = 4 * 1024 * 1024,
	/* Of the thread that loads the agent: glibc's where RLIMIT_STACK sets none, and musl's. */
	STACK_BYTES = 2 * 1024 * 1024,
	ARENA_BYTES = 64 * 1024 * 1024, /* of glibc's malloc for that thread */
};

struct mapping_limit {
	const char *name, *size; /* in /proc/PID/limits and status */
	const char *what, *option;
	uint64_t arena; /* how much of an arena counts */
};

struct mapped {
	uint64_t count;
	uint64_t code_bytes; /* of files */
};

static struct mapped read_mapped(const struct process *process)
{
	CLEANUP(buffer_deinit) struct buffer maps = BUFFER_OR_EXIT;
	struct mapped mapped = { 0 };

	if (!file_try_read(&maps, "/proc/%d/maps", (int)process_living_thread(process->pid)))
		return mapped;
	const char *at = buffer_string(&maps);
	const char *const end = at + maps.size;
	for (struct proc_map map; proc_map_next(&at, end, &map);) {
		mapped.count++;
		if (map.executable && map.inode != 0)
			mapped.code_bytes += map.limit - map.start;
	}
	return mapped;
}

static bool check_threads(const struct process *process, struct error *err)
{
	struct cgroup group;

	cgroup_find(process->pid, "pids", &group);
	const uint64_t threads = cgroup_read_room(&group).threads;
	if (threads >= THREADS)
		return true;
	error_set(err, ERROR_STATE,
		"%s[%d] cannot start its agent: its control group may have %" PRIu64
		" more threads, and that takes %d",
		process->name, (int)process->pid, threads, THREADS);
	return error_hint(
		err, "raise the limit (pids.max; systemd: TasksMax, docker update: --pids-limit)");
}

/* At its limit the program's own mmap() fails, and with it malloc. */
static bool check_mappings(
	const struct process *process, const struct mapped *mapped, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer text = BUFFER_OR_EXIT;

	if (!file_try_read(&text, "/proc/sys/vm/max_map_count"))
		return true;
	const uint64_t limit = strtoull(buffer_string(&text), NULL, 10);
	if (mapped->count + MAPPINGS <= limit)
		return true;
	error_set(err, ERROR_STATE,
		"%s[%d] has %" PRIu64 " mappings of at most %" PRIu64
		" (vm.max_map_count), and the agent may take %d",
		process->name, (int)process->pid, mapped->count, limit, MAPPINGS);
	return error_hint(err,
		"raise the limit: sysctl -w vm.max_map_count=%" PRIu64
		"; heapctl attach --force attaches nevertheless",
		2 * limit);
}

static bool check_memory(
	const struct process *process, const struct mapped *mapped, struct error *err)
{
	char room_text[BYTE_SIZE_TEXT_BYTES], need_text[BYTE_SIZE_TEXT_BYTES];
	struct cgroup group;

	cgroup_find(process->pid, "memory", &group);
	const uint64_t room = cgroup_read_room(&group).bytes;
	if (room == UINT64_MAX)
		return true;
	const uint64_t need = AGENT_BYTES + mapped->code_bytes / CODE_SHARE;
	if (room >= need)
		return true;
	byte_size_format(room, room_text);
	byte_size_format(need, need_text);
	error_set(err, ERROR_STATE,
		"%s[%d]: its control group has %s left up to its limit of memory, and the agent "
		"may take %s: the kernel would end a process of the group",
		process->name, (int)process->pid, room_text, need_text);
	return error_hint(err,
		"raise the limit (%s; systemd: MemoryMax, docker update: --memory); heapctl "
		"attach --force attaches nevertheless",
		group.is_first_version ? "memory.limit_in_bytes" : "memory.max");
}

static bool has_glibc(const struct process *process)
{
	struct process_modules modules;
	struct error ignored;

	return process_read_modules(process->pid, &modules, &ignored) && modules.has_libc &&
	       !modules.has_musl;
}

/* glibc keeps the stack of an ended thread, and its arena, also after a detach. */
static uint64_t needed_mappings(const struct process *process, const struct mapped *mapped,
	const struct mapping_limit *limit)
{
	const uint64_t need = AGENT_MAPPED_BYTES + mapped->code_bytes / CODE_SHARE;

	if (!has_glibc(process))
		return need + STACK_BYTES;
	const unsigned long stack = process_read_limit(process->pid, "Max stack size");
	return need + limit->arena + (stack == ULONG_MAX ? STACK_BYTES : stack);
}

/* At one of these the program's own malloc fails. */
static bool check_limit(const struct process *process, const struct mapped *mapped,
	const struct mapping_limit *limit, struct error *err)
{
	CLEANUP(buffer_deinit) struct buffer status = BUFFER_OR_EXIT;
	char room_text[BYTE_SIZE_TEXT_BYTES], need_text[BYTE_SIZE_TEXT_BYTES];
	const uint64_t bytes = process_read_limit(process->pid, limit->name);

	if (bytes == ULONG_MAX || !file_try_read(&status, "/proc/%d/status",
					  (int)process_living_thread(process->pid)))
		return true;
	const uint64_t used =
		1024 *
		strtoull(process_status_field(buffer_string(&status), limit->size), NULL, 10);
	const uint64_t room = bytes > used ? bytes - used : 0;
	const uint64_t need = needed_mappings(process, mapped, limit);
	if (room >= need)
		return true;
	byte_size_format(room, room_text);
	byte_size_format(need, need_text);
	error_set(err, ERROR_STATE,
		"%s[%d] has %s left up to its limit of %s, and the agent may take %s: the "
		"program's own malloc would fail",
		process->name, (int)process->pid, room_text, limit->what, need_text);
	return error_hint(err,
		"raise the limit: prlimit --%s=%" PRIu64
		": --pid %d; heapctl attach --force attaches nevertheless",
		limit->option, used + 2 * need, (int)process->pid);
}

static bool check_limits(
	const struct process *process, const struct mapped *mapped, struct error *err)
{
	static const struct mapping_limit limits[] = {
		{ "Max address space", "VmSize", "address space (RLIMIT_AS)", "as", ARENA_BYTES },
		/* An arena counts as far as it is used. */
		{ "Max data size", "VmData", "data (RLIMIT_DATA)", "data", 0 },
	};

	for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
		if (!check_limit(process, mapped, &limits[i], err))
			return false;
	}
	return true;
}

bool attach_room_check(const struct process *process, bool is_forced, struct error *err)
{
	if (!check_threads(process, err))
		return false;
	if (is_forced)
		return true;
	const struct mapped mapped = read_mapped(process);
	return check_mappings(process, &mapped, err) && check_limits(process, &mapped, err) &&
	       check_memory(process, &mapped, err);
}
