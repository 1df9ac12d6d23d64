/* SPDX-License-Identifier: Apache-2.0 */
#include "client/attach_room.h"

#include <inttypes.h>
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
	return error_hint(err, "raise the limit (memory.max; systemd: MemoryMax, docker update: "
			       "--memory); heapctl attach --force attaches nevertheless");
}

bool attach_room_check(const struct process *process, bool is_forced, struct error *err)
{
	if (!check_threads(process, err))
		return false;
	if (is_forced)
		return true;
	const struct mapped mapped = read_mapped(process);
	return check_mappings(process, &mapped, err) && check_memory(process, &mapped, err);
}
